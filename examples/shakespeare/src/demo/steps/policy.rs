//! The policy itself is edited: while a rollout is under way, and when something cannot wait.

use std::{fs, time::Duration};

use control_plane::model::rollout::Emergency;

use super::{
    super::{
        broken::{Held, broken, ensure, until},
        evidence, eyes,
    },
    Session,
};
use crate::model::Canary;

/// Longer than anything takes that is not held.
const SOME_TIME: Duration = Duration::from_secs(4);
/// A bake that nobody waits for, in seconds.
const FOR_EVER: u64 = 600;

/// A policy that is edited while a rollout is under way is the one that counts from then on.
pub(super) async fn changed(session: &mut Session) -> Held<String> {
    if session.dice.below(2) == 0 {
        held_then_reversed(session).await
    } else {
        shortened(session).await
    }
}

/// Held before anything moved; let go in another order than it began with.
async fn held_then_reversed(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let version = session.fresh_version();
    session.edit(|manifest| {
        manifest.version = version;
        manifest.rollout.hold = Some("a launch".into());
    })?;
    stays(
        session,
        "rollout status --once",
        "on hold: a launch",
        || evidence::nothing_asked(&place, &mark),
    )
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
        "held: nothing asked; let go in the reversed order: {bakes} (journals)"
    ))
}

/// A bake that would last for ever is cut short, under a hold that comes in the middle and goes.
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
        let (manifest, cell) = (&session.manifest, eyes::cell(&place, &first).await?);
        match manifest.clusters.get(&first) {
            Some(wanted) => eyes::job_is(&cell, manifest, wanted).await,
            None => broken(format_args!("there is no cluster {first}")),
        }
    })
    .await?;
    session.edit(|manifest| {
        manifest.rollout = usual.clone();
        manifest.rollout.hold = Some("look at it first".into());
    })?;
    let held = "on hold: look at it first";
    stays(session, "rollout status --once", held, || {
        evidence::asked_once_each(&place, &mark, std::slice::from_ref(&job))
    })
    .await?;
    session.edit(|manifest| manifest.rollout = usual)?;
    session.arrives().await?;
    let bakes = session.one_by_one(&mark)?;
    evidence::asked_once_each(&place, &mark, &session.every_job())?;
    session.requests_pass(50).await?;
    Ok(format!(
        "a bake of {FOR_EVER} s cut short, with a hold in between: {bakes} (journals)"
    ))
}

/// An alert fires: what is new waits. What cannot wait goes through, everywhere at once, while it still fires.
pub(super) async fn emergency(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    fs::write(place.alerts(), "LatencyHigh\n")?;
    let version = session.fresh_version();
    session.edit(|manifest| manifest.version = version)?;
    let Some(first) = session.manifest.rollout.domains.first().cloned() else {
        return broken("the policy lists no cluster");
    };
    stays(
        session,
        &format!("explain job/{first}"),
        "LatencyHigh",
        || evidence::nothing_asked(&place, &mark),
    )
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
    let least = Duration::from_secs(session.least_bake());
    ensure(apart < least, || {
        format!("an emergency took its time: {apart:?} from the first job to the last")
    })?;
    fs::remove_file(place.alerts())?;
    session.rests().await?;
    session.edit(|manifest| manifest.rollout.emergency = None)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "red: nothing asked; then with an emergency all jobs within {:.1} s, though still red (journals)",
        apart.as_secs_f64()
    ))
}

/// For some time `evidence` holds; and it is not for slowness: `question` is answered with these words.
async fn stays(
    session: &Session,
    question: &str,
    words: &str,
    evidence: impl Fn() -> Held,
) -> Held {
    tokio::time::sleep(SOME_TIME).await;
    evidence()?;
    until("it says what it waits for", async || {
        let question: Vec<&str> = question.split(' ').collect();
        let said = session.town.command(&question).await?;
        ensure(said.contains(words), || said)
    })
    .await?;
    evidence()
}
