//! The control plane is killed in the middle of a change: the next process finishes the change and repeats no part of
//! it.

use testbed::{
    judge::{Held, broken::ensure, evidence, observe},
    production::GLOBAL_CELL,
};

use super::Session;

/// Maximum pause before a kill during a change, in milliseconds.
const MIDDLE: usize = 1000;
/// Approximate length of a rollout, in milliseconds: maximum pause before a kill during a rollout.
const WHOLE_ROLLOUT: usize = 9000;

/// Edits version, schema and size at once, and kills the control plane during the change.
pub(super) async fn plane_killed(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let name = session.some_cluster()?;
    let kills: Vec<u64> = (0..1 + session.dice.below(2))
        .map(|_| session.dice.below(MIDDLE) as u64)
        .collect();
    let version = session.fresh_version();
    session.edit(|manifest| {
        manifest.version = version;
        manifest.schema += 1;
        if let Some(cluster) = manifest.clusters.get_mut(&name) {
            cluster.replicas *= 2;
            cluster.balancer_capacity *= 2;
        }
    })?;
    session.crash(&kills).await?;
    session.arrives().await?;
    let mut expected: Vec<(String, String)> = session
        .clusters()
        .into_iter()
        .map(|cluster| (cluster, evidence::job_resource()))
        .collect();
    expected.push((name.clone(), "balancer".into()));
    expected.push((GLOBAL_CELL.into(), "balancer".into()));
    evidence::asked_once_each(&place, &mark, &expected)?;
    let migrated = observe::migrations_to(&place, session.manifest.schema)?;
    ensure(migrated.len() == 1, || {
        format!("the schema was migrated at {migrated:?}, not once")
    })?;
    let asked = evidence::asked(&place, &mark)?;
    let early = asked
        .iter()
        .find(|line| line.resource == evidence::job_resource() && line.at_micros < migrated[0]);
    ensure(early.is_none(), || {
        format!("tasks were updated before the schema that they need: {early:?}")
    })?;
    session.only_this_version_answers().await?;
    Ok(format!(
        "killed {kills:?} ms into a new version, schema and size; schema first, each asset changed once (journals)"
    ))
}

/// Edits the version and kills the control plane at random times of the rollout: the next process continues the
/// rollout.
pub(super) async fn mid_rollout(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let kills: Vec<u64> = (0..1 + session.dice.below(2))
        .map(|_| session.dice.below(WHOLE_ROLLOUT) as u64)
        .collect();
    let version = session.fresh_version();
    session.edit(|manifest| manifest.version = version)?;
    session.crash(&kills).await?;
    session.arrives().await?;
    let bakes = session.one_by_one(&mark)?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    session.only_this_version_answers().await?;
    Ok(format!(
        "killed {kills:?} ms into the rollout; {bakes}, each job changed once (journals)"
    ))
}
