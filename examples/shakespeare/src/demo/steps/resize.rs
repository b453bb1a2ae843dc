//! A job and the balancer that relies on it change size in one edit: the order is found, not written down.

use super::{
    super::{
        broken::{Held, ensure},
        evidence, eyes,
    },
    Session,
};
use crate::{
    model::GLOBAL_CELL,
    production::api::{Change, Line},
};

/// The control plane may be killed in this much of a change, in milliseconds.
const MIDDLE: usize = 700;

/// Whoever relies on something shrinks before it: global balancer, then the cluster's, then the job.
pub(super) async fn halved(session: &mut Session) -> Held<String> {
    let order = ["global", "balancer", "job"];
    let words = resize(session, |size| size / 2, order).await?;
    Ok(format!(
        "{words}: its share, its balancer, its job, in this order, and never more let through than was said"
    ))
}

/// Whoever relies on something grows after it.
pub(super) async fn doubled(session: &mut Session) -> Held<String> {
    let order = ["job", "balancer", "global"];
    let words = resize(session, |size| size * 2, order).await?;
    Ok(format!(
        "{words}: its job, its balancer, its share, in this order"
    ))
}

async fn resize(
    session: &mut Session,
    size: impl Fn(u32) -> u32,
    order: [&str; 3],
) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    // Doubling takes the smallest, so that nothing grows beyond what one machine bears.
    let name = match smallest(session) {
        Some(name) if order[0] == "job" => name,
        _ => session.some_cluster()?,
    };
    let limit = session.manifest.clusters.get(&name);
    let limit = limit.map_or(0, |cluster| cluster.balancer_capacity);
    // What shrinks is full meanwhile: without requests any limit is in force at once.
    let pressure = match order[0] {
        "job" => None,
        _ => Some(session.fill(&name, size(limit)).await?),
    };
    let target = name.clone();
    session.edit(|manifest| {
        if let Some(cluster) = manifest.clusters.get_mut(&target) {
            cluster.replicas = size(cluster.replicas);
            cluster.balancer_capacity = size(cluster.balancer_capacity);
        }
    })?;
    // Now and then the control plane dies over it, which must change nothing.
    let crashes = session.dice.below(2);
    let moment = session.dice.below(MIDDLE) as u64;
    session.crash(&[moment][..crashes]).await?;
    session.arrives().await?;
    let job = evidence::job_resource();
    let expected = [
        (name.clone(), job.clone()),
        (name.clone(), "balancer".to_owned()),
        (GLOBAL_CELL.to_owned(), "balancer".to_owned()),
    ];
    evidence::asked_once_each(&place, &mark, &expected)?;
    let asked = evidence::asked(&place, &mark)?;
    let called: Vec<&str> = asked.iter().map(|line| short(line)).collect();
    ensure(called == order, || {
        format!("asked for in the order {called:?}")
    })?;
    in_force(session, &mark, &name, order)?;
    if let Some(pressure) = pressure {
        let mut journals = evidence::since(&place, &mark)?;
        let lines = journals.remove(&name).unwrap_or_default();
        pressure.judge(&lines, session.attempts()).await?;
    }
    // What is not well by its own counters would go back.
    session.rests().await?;
    eyes::production_is(&place, &session.manifest).await?;
    session.requests_pass(50).await?;
    let crashed = match crashes {
        0 => String::new(),
        _ => format!(", control plane killed {moment} ms in"),
    };
    Ok(format!("{name} (journals{crashed})"))
}

fn short(line: &Line) -> &'static str {
    match (line.cell.as_str(), line.resource.as_str()) {
        (GLOBAL_CELL, _) => "global",
        (_, "balancer") => "balancer",
        _ => "job",
    }
}

/// What was in force changed in the same order, in the cluster's own journal.
fn in_force(session: &Session, mark: &evidence::Mark, name: &str, order: [&str; 3]) -> Held {
    let mut journals = evidence::since(&session.town.place, mark)?;
    let lines = journals.remove(name).unwrap_or_default();
    let mut seen: Vec<&str> = lines
        .iter()
        .filter(|line| line.change == Change::Capacity)
        .map(short)
        .collect();
    seen.dedup();
    let wanted: Vec<&str> = order.into_iter().filter(|what| *what != "global").collect();
    ensure(seen == wanted, || format!("in force in the order {seen:?}"))
}

/// The cluster with the fewest tasks.
fn smallest(session: &Session) -> Option<String> {
    let clusters = session.manifest.clusters.iter();
    let smallest = clusters.min_by_key(|(_, cluster)| cluster.balancer_capacity);
    smallest.map(|(name, _)| name.clone())
}
