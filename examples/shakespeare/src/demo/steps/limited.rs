//! A policy without stages, but with limits: on all assets in flight, and to one unavailable asset per cluster.

use testbed::{
    judge::{Held, at_once, broken::ensure, evidence, spans},
    production::GLOBAL_CELL,
};

use super::Session;
use crate::model::Rollout;

/// Changes every job's version and every balancer's size, and expects that the policy's limits hold.
pub(super) async fn limited(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let usual = session.manifest.rollout.clone();
    let most = 1 + session.dice.below(2);
    let version = session.fresh_version();
    session.edit(|manifest| {
        manifest.version = version;
        for cluster in manifest.clusters.values_mut() {
            cluster.balancer_capacity -= 1;
        }
        manifest.rollout = Rollout {
            max_in_flight: Some(most as u32),
            max_unavailable: Some(1),
            ..Rollout::default()
        };
    })?;
    session.arrives().await?;
    let mut expected = session.every_job();
    let balancer = |cell: &str| (cell.to_owned(), "balancer".to_owned());
    expected.extend(session.clusters().iter().map(|name| balancer(name)));
    expected.push(balancer(GLOBAL_CELL));
    evidence::asked_once_each(&place, &mark, &expected)?;
    let clusters = session.clusters();
    let (jobs, balancers) = (
        spans(&place, &mark, &clusters, "jobs/")?,
        spans(&place, &mark, &clusters, "balancer")?,
    );
    let seen = at_once(jobs.values().copied());
    ensure(seen <= most, || {
        format!("{seen} jobs were in flight at once, the limit is {most}: {jobs:?}")
    })?;
    for (cluster, job) in &jobs {
        let balancer = balancers.get(cluster).copied();
        ensure(at_once(balancer.into_iter().chain([*job])) == 1, || {
            format!("{cluster}'s job and balancer changed at once: {job:?} and {balancer:?}")
        })?;
    }
    session.town.rests().await?;
    session.edit(|manifest| manifest.rollout = usual)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{seen} jobs at once, the limit is {most}; no cluster's job and balancer at once (journals)"
    ))
}
