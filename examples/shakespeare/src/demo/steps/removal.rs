//! Removal of clusters from the manifest: absence alone removes no process, a turndown does, and the removal of many
//! assets at once needs an override.

use std::time::Duration;

use testbed::{
    judge::{
        Held,
        broken::{broken, ensure, until},
        digest_in, evidence, observe,
    },
    processes,
    production::api::Caller,
};

use super::Session;
use crate::model::{Cluster, Turndown};

/// Longer than the drift period of the control plane.
const SOME_TIME: Duration = Duration::from_secs(3);
/// Clusters that are added and removed again.
const VISITORS: [&str; 2] = ["ap", "sa"];

/// Deletes a cluster from the manifest. It keeps running, answers direct requests, and is listed as orphaned. When it
/// is added to the manifest again, it is adopted without a change.
pub(super) async fn removed(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let name = session.some_cluster()?;
    let family = observe::family(&place, &name).await?;
    let mark = evidence::mark(&place)?;
    let before = session.manifest.clone();
    session.edit(|manifest| {
        manifest.clusters.remove(&name);
        manifest.rollout.domains.retain(|listed| *listed != name);
    })?;
    session.arrives().await?;
    listed(session, &[&name]).await?;
    tokio::time::sleep(SOME_TIME).await;
    ensure(family == observe::family(&place, &name).await?, || {
        format!("{name} is not running as before")
    })?;
    observe::serves(&place, &name).await?;
    let acknowledged = session.dice.below(2) == 0;
    if acknowledged {
        for kind in ["balancer", "job"] {
            let asset = format!("{kind}/{name}");
            session.town.command(&["acknowledge", &asset]).await?;
        }
        listed(session, &[]).await?;
    }
    session.edit(|manifest| *manifest = before)?;
    session.arrives().await?;
    session.town.accepts().await?;
    ensure(family == observe::family(&place, &name).await?, || {
        format!("{name} was not adopted as it was")
    })?;
    let of_cluster = evidence::asked(&place, &mark)?;
    ensure(of_cluster.iter().all(|line| line.cell != name), || {
        format!("{name} was changed: {of_cluster:?}")
    })?;
    session.requests_pass(50).await?;
    let heeded = if acknowledged { ", acknowledged" } else { "" };
    Ok(format!(
        "{name}: same processes, serves, listed as orphan{heeded}; then adopted without a change"
    ))
}

/// Adds two clusters and removes both in one edit: the guard refuses, and an operator overrides the guard.
pub(super) async fn too_many(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    session.edit(|manifest| {
        for name in VISITORS {
            manifest.clusters.insert(name.into(), visitor(None));
        }
    })?;
    session.arrives().await?;
    session.town.rests().await?;
    let mut families = Vec::new();
    for name in VISITORS {
        families.push(observe::family(&place, name).await?);
    }
    let mark = evidence::mark(&place)?;
    session.edit(|manifest| {
        for name in VISITORS {
            manifest.clusters.remove(name);
        }
    })?;
    let problems = session.town.refuses("shrink-guard").await?;
    evidence::nothing_asked(&place, &mark)?;
    let Some(digest) = digest_in(&problems) else {
        return broken(format_args!("no digest to override: {problems}"));
    };
    let command = ["override", "shrink-guard", "--change", &digest];
    let by = ["--who", "demo", "--why", "both are merged into eu"];
    session.town.command(&[&command[..], &by].concat()).await?;
    session.arrives().await?;
    listed(session, &VISITORS).await?;
    for (name, family) in VISITORS.iter().zip(&families) {
        ensure(*family == observe::family(&place, name).await?, || {
            format!("{name} is not running as before")
        })?;
    }
    session.requests_pass(50).await?;
    Ok(
        "both: refused, no changes (journals); then let through by an override, left running"
            .into(),
    )
}

/// Adds the orphans again with a turndown, and expects that they are removed only after an approval.
pub(super) async fn turned_down(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mut pids = Vec::new();
    for name in VISITORS {
        pids.extend(observe::family(&place, name).await?);
    }
    let mark = evidence::mark(&place)?;
    let turndown = Turndown {
        reason: "merged into eu".into(),
        approved_by: "jane".into(),
    };
    session.edit(|manifest| {
        for name in VISITORS {
            let leaving = visitor(Some(turndown.clone()));
            manifest.clusters.insert(name.into(), leaving);
        }
    })?;
    // The policy turns the clusters down one after the other.
    for name in VISITORS {
        session
            .town
            .wants_approval(&format!("balancer/{name}"))
            .await?;
        let asked = evidence::asked(&place, &mark)?;
        ensure(asked.iter().all(|line| line.cell != name), || {
            format!("{name} was changed without an approval: {asked:?}")
        })?;
        for kind in ["balancer", "job"] {
            session
                .town
                .approve(&format!("{kind}/{name}"), "merged into eu")
                .await?;
        }
    }
    gone(session, &pids).await?;
    session.town.rests().await?;
    session.edit(|manifest| {
        for name in VISITORS {
            manifest.clusters.remove(name);
        }
    })?;
    session.town.accepts().await?;
    session.arrives().await?;
    session.town.rests().await?;
    ensure(session.town.orphans().await?.is_empty(), || {
        "a cluster is listed as orphaned after its turndown".into()
    })?;
    session.requests_pass(50).await?;
    Ok(format!(
        "no removal without an approval (journals); then all {} processes exited, no orphans",
        pids.len()
    ))
}

fn visitor(turndown: Option<Turndown>) -> Cluster {
    Cluster {
        replicas: 1,
        capacity_per_task: 8,
        balancer_capacity: 8,
        version: None,
        work_ms: None,
        peak: None,
        turndown,
    }
}

/// Waits until `status` lists exactly the jobs and balancers of these clusters as orphans.
async fn listed(session: &Session, clusters: &[&str]) -> Held {
    let assets = |name: &&str| [format!("balancer/{name}"), format!("job/{name}")];
    let wanted: Vec<String> = clusters.iter().flat_map(assets).collect();
    session.town.lists_orphans(wanted).await
}

async fn gone(session: &Session, pids: &[u32]) -> Held {
    let place = &session.town.place;
    until("the clusters are turned down", async || {
        for name in VISITORS {
            let cell = observe::cell(place, name).await?;
            let there = cell.identity(&Caller::default()).await?.jobs;
            ensure(there.is_empty(), || format!("{name} has {there:?}"))?;
            ensure(observe::balancer(&cell).await.is_err(), || {
                format!("{name} has a balancer")
            })?;
        }
        let left = pids.iter().find(|pid| processes::running(**pid));
        ensure(left.is_none(), || {
            format!("process {left:?} is still running")
        })
    })
    .await
}
