//! A job and the balancers that use it change their sizes in one edit: the control plane finds the safe order.

use testbed::{
    judge::{Held, Pressure, broken::ensure, evidence, observe},
    production::{
        GLOBAL_CELL,
        api::{Change, Line},
    },
};

use super::Session;

/// Maximum pause before the control plane is killed during a change, in milliseconds.
const MIDDLE: usize = 700;

/// Halves a cluster. Consumers shrink before their providers: the global balancer, then the cluster's, then the job.
pub(super) async fn halved(session: &mut Session) -> Held<String> {
    let order = ["global", "balancer", "job"];
    let words = resize(session, |size| size / 2, order).await?;
    Ok(format!(
        "{words}: its share, its balancer, its job, in this order, and the balancer kept its reported limit"
    ))
}

/// Doubles a cluster. Consumers grow after their providers: the job first, then the balancers.
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
    // Doubling takes the smallest cluster, so that the number of processes stays small.
    let name = match smallest(session) {
        Some(name) if order[0] == "job" => name,
        _ => session.some_cluster()?,
    };
    let limit = session.manifest.clusters.get(&name);
    let limit = limit.map_or(0, |cluster| cluster.balancer_capacity);
    // Keep a shrinking cluster full: without requests, every limit would be in force at once.
    let pressure = match order[0] {
        "job" => None,
        _ => Some(Pressure::fill(&place, &name, size(limit)).await?),
    };
    let target = name.clone();
    session.edit(|manifest| {
        if let Some(cluster) = manifest.clusters.get_mut(&target) {
            cluster.replicas = size(cluster.replicas);
            cluster.balancer_capacity = size(cluster.balancer_capacity);
        }
    })?;
    // Sometimes kill the control plane during the change, which must not alter the result.
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
        format!("changed in the order {called:?}")
    })?;
    in_force(session, &mark, &name, order)?;
    if let Some(pressure) = pressure {
        let mut journals = evidence::since(&place, &mark)?;
        let lines = journals.remove(&name).unwrap_or_default();
        pressure.judge(&lines, session.attempts()).await?;
    }
    // A rollout that is unhealthy by its counters would roll back, so check production again after the rollout.
    session.town.rests().await?;
    observe::production_is(&place, &session.wanted()).await?;
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

/// Expects that the capacities in force changed in the same order, by the cluster's own journal.
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
    ensure(seen == wanted, || {
        format!("the capacities in force changed in the order {seen:?}")
    })
}

/// Returns the cluster with the smallest balancer capacity.
fn smallest(session: &Session) -> Option<String> {
    let clusters = session.manifest.clusters.iter();
    let smallest = clusters.min_by_key(|(_, cluster)| cluster.balancer_capacity);
    smallest.map(|(name, _)| name.clone())
}
