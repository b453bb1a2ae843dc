//! Policies in intent that hold changes back: a freeze, and the capacity of the busiest hour.

use serde_json::json;
use testbed::judge::{
    Held,
    broken::{broken, ensure},
    evidence, observe,
};

use super::Session;

/// Edits the version in a freeze, which is part of the same edit. The change waits until the freeze is taken out again.
pub(super) async fn frozen(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let version = session.fresh_version();
    let Some(first) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    let freeze = json!({"type": "FreezePolicy", "of": {}, "from": "2020-01-01", "until": "2999-01-01", "why": "a launch"});
    session.edit(|manifest| {
        manifest.version = version;
        let freeze = freeze.as_object().cloned().unwrap_or_default();
        manifest.checks.insert("freeze/launch".into(), freeze);
    })?;
    session
        .town
        .stays("rollout status --once", "frozen: a launch", || {
            evidence::nothing_asked(&place, &mark)
        })
        .await?;
    session.edit(|manifest| manifest.checks.clear())?;
    session.arrives().await?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    session.requests_pass(50).await?;
    Ok(format!(
        "no changes in the freeze, {first} and all others after it (journals)"
    ))
}

/// Halves a job below the peak of its cluster. It waits until the modelled peak falls.
pub(super) async fn under_peak(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let name = session.some_cluster()?;
    let Some(cluster) = session.manifest.clusters.get(&name).cloned() else {
        return broken("the cluster is gone");
    };
    let (all, half) = (cluster.replicas, cluster.replicas / 2);
    let serves = |replicas: u32| u64::from(replicas * cluster.capacity_per_task);
    let target = name.clone();
    // First its balancer, which needs the capacity of the job.
    session.edit(|manifest| {
        if let Some(cluster) = manifest.clusters.get_mut(&target) {
            cluster.balancer_capacity = cluster
                .balancer_capacity
                .min(half * cluster.capacity_per_task);
            cluster.peak = Some(serves(all) - 1);
        }
    })?;
    session.arrives().await?;
    session.town.rests().await?;
    let mark = evidence::mark(&place)?;
    session.edit(|manifest| {
        if let Some(cluster) = manifest.clusters.get_mut(&target) {
            cluster.replicas = half;
        }
    })?;
    let needed = format!("{} are needed", serves(all) - 1);
    session
        .town
        .stays("rollout status --once", &needed, || {
            evidence::nothing_asked(&place, &mark)
        })
        .await?;
    session.edit(|manifest| {
        if let Some(cluster) = manifest.clusters.get_mut(&target) {
            cluster.peak = Some(serves(half));
        }
    })?;
    session.arrives().await?;
    let job = (name.clone(), evidence::job_resource());
    evidence::asked_once_each(&place, &mark, &[job])?;
    session.town.rests().await?;
    session.edit(|manifest| {
        if let Some(it) = manifest.clusters.get_mut(&target) {
            *it = cluster.clone();
        }
    })?;
    session.arrives().await?;
    observe::production_is(&place, &session.wanted()).await?;
    ensure(all > half, || format!("{name} has {all} tasks"))?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{name} kept {} for its peak, and shrank to {} when the peak had fallen (journals)",
        serves(all),
        serves(half)
    ))
}
