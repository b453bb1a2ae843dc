//! A policy without stages, but with limits: on all assets in flight, and to one unavailable asset per cluster.

use std::collections::BTreeMap;

use testbed::{
    judge::{
        Held,
        broken::{broken, ensure},
        evidence::{self, Mark},
    },
    production::{
        GLOBAL_CELL,
        api::{Change, Line},
    },
};

use super::Session;
use crate::model::Rollout;

/// Time from the change of a wanted state until it was reached, in microseconds since 1970.
type Span = (u64, u64);

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
    let (jobs, balancers) = (
        spans(session, &mark, "jobs/")?,
        spans(session, &mark, "balancer")?,
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

/// Returns the time span in which each cluster's job, or balancer, was changing.
fn spans(session: &Session, mark: &Mark, resource: &str) -> Held<BTreeMap<String, Span>> {
    let mut journals = evidence::since(&session.town.place, mark)?;
    let span = |cluster: String| {
        let mut lines: Vec<Line> = journals.remove(&cluster).unwrap_or_default();
        lines.retain(|line| line.resource.starts_with(resource));
        let asked = lines.iter().find(|line| line.change == Change::Spec);
        match (asked, lines.last()) {
            (Some(asked), Some(last)) => Ok((cluster, (asked.at_micros, last.at_micros))),
            _ => broken(format_args!("{cluster} has no change of {resource}")),
        }
    };
    session.clusters().into_iter().map(span).collect()
}

/// Returns the maximum number of spans that overlap at the same time.
fn at_once(spans: impl Iterator<Item = Span> + Clone) -> usize {
    let during = |at: u64| {
        spans
            .clone()
            .filter(move |(from, to)| *from <= at && at <= *to)
    };
    let beginnings = spans.clone().map(|(from, _)| from);
    beginnings.map(|at| during(at).count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_are_counted() {
        let most = |spans: &[Span]| at_once(spans.iter().copied());
        assert_eq!(most(&[(1, 3), (4, 6), (7, 8)]), 1);
        assert_eq!(most(&[(1, 4), (4, 6), (5, 8)]), 2);
        assert_eq!(most(&[(1, 9), (4, 6), (5, 8)]), 3);
        assert_eq!(most(&[]), 0);
    }
}
