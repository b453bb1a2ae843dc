//! A cluster that is added while a change is live takes its turn, after the others.

use testbed::judge::{
    Held, Intent,
    broken::{broken, ensure},
    evidence,
};

use super::{Session, flag_in, moments, now, says, task, tasks, text};
use crate::model::Cluster;

/// The number that the change sets.
const FLAG: u32 = 4;
/// The cluster that comes.
const NEWCOMER: &str = "mars";

/// Rolls out a flag, adds a cluster in the middle, and kills the control plane.
pub(in crate::demo) async fn joined(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let Some(first) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    let (mark, kills) = (evidence::mark(&place)?, moments(session));
    let old = session
        .manifest
        .clusters
        .get(&first)
        .and_then(|it| it.work_ms);
    flag_in(session, "slowest", FLAG, &first).await?;
    session.manifest = now(session)?;
    let cluster = Cluster {
        replicas: 1,
        capacity_per_task: 8,
        balancer_capacity: 8,
        version: Some(session.wanted().version),
        work_ms: old,
        peak: None,
        turndown: None,
    };
    session.edit(|manifest| drop(manifest.clusters.insert(NEWCOMER.into(), cluster)))?;
    let turned_up = task(&session.manifest, NEWCOMER)?;
    session.crash(&kills).await?;

    for cluster in session.manifest.clusters.values_mut() {
        cluster.work_ms = Some(FLAG);
    }
    session.arrives().await?;
    let ends = ["rollout", "wait", "--of", "rollout/slowest"];
    session.town.command(&ends).await?;
    says(session, &session.manifest.text())?;
    let own = tasks(session, &mark, NEWCOMER)?;
    let updated = task(&session.manifest, NEWCOMER)?;
    let [(_, up), (at, then)] = &own[..] else {
        return broken(format_args!("{NEWCOMER} had {own:?}"));
    };
    ensure((up, then) == (&turned_up, &updated), || {
        format!("{NEWCOMER} had {own:?}")
    })?;
    let others = session.clusters().into_iter().filter(|it| it != NEWCOMER);
    for other in others {
        let its = tasks(session, &mark, &other)?;
        ensure(its.len() == 1 && its[0].0 <= *at, || {
            format!("{other} had {its:?}, and {NEWCOMER} {own:?}")
        })?;
    }
    session.requests_pass(50).await?;
    Ok(format!(
        "{NEWCOMER} was turned up at once, and updated after all others, each once; killed {kills:?} ms later (journals, manifest of {} lines)",
        text(session)?.lines().count()
    ))
}
