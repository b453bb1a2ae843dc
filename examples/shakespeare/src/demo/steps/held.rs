//! Policies in intent that hold changes back: a freeze, and the capacity of the busiest hour.

use serde_json::json;
use testbed::judge::{Held, broken::broken, evidence, observe};

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

/// Doubles a job for a peak, and takes that back while the peak lasts. It waits until the modelled peak falls.
pub(super) async fn under_peak(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let name = session.some_cluster()?;
    let Some(cluster) = session.manifest.clusters.get(&name).cloned() else {
        return broken("the cluster is gone");
    };
    let (all, half) = (cluster.replicas * 2, cluster.replicas);
    let serves = |replicas: u32| u64::from(replicas * cluster.capacity_per_task);
    let peak = serves(all) - 1;
    let target = name.clone();
    let set = |session: &mut Session, replicas: u32, peak: Option<u64>| {
        session.edit(|manifest| {
            if let Some(cluster) = manifest.clusters.get_mut(&target) {
                (cluster.replicas, cluster.peak) = (replicas, peak);
            }
        })
    };
    set(session, all, Some(peak))?;
    session.arrives().await?;
    session.town.rests().await?;
    let mark = evidence::mark(&place)?;
    set(session, half, Some(peak))?;
    session
        .town
        .stays(
            "rollout status --once",
            &format!("{peak} are needed"),
            || evidence::nothing_asked(&place, &mark),
        )
        .await?;
    set(session, half, Some(serves(half)))?;
    session.arrives().await?;
    let job = (name.clone(), evidence::job_resource());
    evidence::asked_once_each(&place, &mark, &[job])?;
    session.town.rests().await?;
    set(session, half, None)?;
    session.arrives().await?;
    observe::production_is(&place, &session.wanted()).await?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{name} kept {} for its peak, and shrank to {} when the peak had fallen (journals)",
        serves(all),
        serves(half)
    ))
}
