//! Edits of the policy itself: while a rollout is under way, and in an emergency.

use std::{fs, time::Duration};

use control_plane::model::rollout::Emergency;
use testbed::judge::{
    Held,
    broken::{broken, ensure, until},
    evidence, observe,
};

use super::Session;
use crate::model::Canary;

/// A bake that is longer than the session, in seconds.
const FOR_EVER: u64 = 600;

/// Edits the policy while a rollout is under way, and expects that the rollout follows the edited policy.
pub(super) async fn changed(session: &mut Session) -> Held<String> {
    if session.dice.below(2) == 0 {
        held_then_reversed(session).await
    } else {
        shortened(session).await
    }
}

/// Starts a rollout on hold, then removes the hold and reverses the order of the clusters.
async fn held_then_reversed(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let version = session.fresh_version();
    session.edit(|manifest| {
        manifest.version = version;
        manifest.rollout.hold = Some("a launch".into());
    })?;
    session
        .town
        .stays("rollout status --once", "on hold: a launch", || {
            evidence::nothing_asked(&place, &mark)
        })
        .await?;
    session.edit(|manifest| {
        manifest.rollout.hold = None;
        manifest.rollout.domains.reverse();
    })?;
    session.arrives().await?;
    let bakes = session.one_by_one(&mark)?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    session.requests_pass(50).await?;
    Ok(format!(
        "on hold: no changes; then in the reversed order: {bakes} (journals)"
    ))
}

/// Shortens a very long bake while the rollout is under way, adds a hold at the same time, and removes the hold again.
async fn shortened(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let version = session.fresh_version();
    let usual = session.manifest.rollout.clone();
    let Some(first) = usual.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    session.edit(|manifest| {
        manifest.version = version;
        manifest.rollout.canary = Some(Canary {
            count: 1,
            bake: FOR_EVER,
        });
    })?;
    let job = (first.clone(), evidence::job_resource());
    until("the canary is updated", async || {
        let cell = observe::cell(&place, &first).await?;
        match session.wanted().clusters.get(&first) {
            Some(wanted) => observe::job_is(&cell, &wanted.job).await,
            None => broken(format_args!("there is no cluster {first}")),
        }
    })
    .await?;
    session.edit(|manifest| {
        manifest.rollout = usual.clone();
        manifest.rollout.hold = Some("look at it first".into());
    })?;
    let held = "on hold: look at it first";
    session
        .town
        .stays("rollout status --once", held, || {
            evidence::asked_once_each(&place, &mark, std::slice::from_ref(&job))
        })
        .await?;
    session.edit(|manifest| manifest.rollout = usual)?;
    session.arrives().await?;
    let bakes = session.one_by_one(&mark)?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    session.requests_pass(50).await?;
    Ok(format!(
        "a bake of {FOR_EVER} s shortened, with a hold in between: {bakes} (journals)"
    ))
}

/// Edits the version while an alert fires: the change waits. As an emergency it goes to all clusters at once, although
/// the alert still fires.
pub(super) async fn emergency(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    fs::write(place.alerts(), "LatencyHigh\n")?;
    let version = session.fresh_version();
    session.edit(|manifest| manifest.version = version)?;
    let Some(first) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    session
        .town
        .stays(&format!("explain job/{first}"), "LatencyHigh", || {
            evidence::nothing_asked(&place, &mark)
        })
        .await?;
    session.edit(|manifest| {
        manifest.rollout.emergency = Some(Emergency {
            who: "jane".into(),
            why: "a hole in the frontend".into(),
        });
    })?;
    session.arrives().await?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    let apart = evidence::first_to_last_asked(&place, &mark)?;
    let least = Duration::from_secs(session.wanted().pace.bake);
    ensure(apart < least, || {
        format!(
            "an emergency took {apart:?} from the first job to the last, expected less than {least:?}"
        )
    })?;
    fs::remove_file(place.alerts())?;
    session.town.rests().await?;
    session.edit(|manifest| manifest.rollout.emergency = None)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "under the alert no changes; as an emergency all jobs within {:.1} s, under the same alert (journals)",
        apart.as_secs_f64()
    ))
}
