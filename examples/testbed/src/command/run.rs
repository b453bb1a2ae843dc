//! `run`: the control plane. It starts the service, repairs it and follows edits of the manifest until it is stopped.

use std::{fmt::Display, time::Duration};

use control_plane::{
    Handle,
    prelude::{Problems, Settle, SqliteStore},
    strategist::Entry,
};

use super::running;
use crate::{
    control::{Server, Stop},
    place::Place,
    program::{Failure, called, signalled, this_program},
    service::Service,
    voice::{say, say_all},
};

/// Maximum time to wait until production matches a new incarnation, before a line says that it does not match yet.
const FOLLOW: Duration = Duration::from_secs(60);

/// Pause between two looks at the rollouts, which are printed only.
const REST: Duration = Duration::from_millis(500);

/// Runs the control plane of the state directory `place` until a termination signal, Ctrl-C, or the command `down`.
///
/// # Errors
/// When another control plane is running there, or the state directory cannot be used.
pub(super) async fn run<S: Service>(mut place: Place) -> Result<(), Failure> {
    let fresh = place.prepare(S::MANIFEST)?;
    let store = SqliteStore::open(place.store())?;
    let plane = S::plane(&place, this_program()?, store)?;
    greet(&place, fresh);
    let (handle, stop) = (plane.handle(), Stop::new());
    let server = Server::start(&place, handle.clone(), stop.clone(), S::POLICY.parse()?)?;
    let tellers = [
        tokio::spawn(tell_news(place.clone(), handle.clone())),
        tokio::spawn(tell_rollouts(handle)),
    ];
    let stopping = stop.clone();
    tokio::spawn(async move {
        signalled().await;
        stopping.now();
    });
    let ended = plane.run(async move { stop.wait().await }).await;
    for teller in tellers {
        teller.abort();
    }
    drop(server);
    say("");
    say(
        "the control plane has stopped; the service goes on, but lost cells are not restarted and edits are ignored:",
    );
    say_all(running::describe(&place).await);
    let (me, state) = (called(), place.dir().display());
    say(format_args!(
        "start the control plane again: {me} --state {state} run"
    ));
    say(format_args!(
        "remove the service:            {me} --state {state} down"
    ));
    Ok(ended?)
}

fn greet(place: &Place, fresh: bool) {
    let (me, state) = (called(), place.dir().display());
    let manifest = place.manifest();
    let manifest = manifest.display();
    if fresh {
        say(format_args!("wrote a default manifest: {manifest}"));
    }
    say(format_args!(
        "keeping production equal to {manifest}. Try it: edit the manifest, or kill a process of the service."
    ));
    let verb =
        |verb: &str, what: &str| say(format_args!("  {verb:<8} {me} --state {state} {what}"));
    verb("ask", "status | plan | explain [ASSET] | check FILE");
    let slowly =
        "rollout: a new version rolls out slowly, and rolls back if it answers with errors";
    verb("follow", slowly);
    verb(
        "load",
        "load: sends requests; without requests, the health of a version is unknown",
    );
    say(format_args!(
        "  look     {state}/cells/*/journal.jsonl: every change of production, and who asked for it"
    ));
    say("  stop     Ctrl-C: the service goes on without the control plane");
    say("");
}

/// Prints new incarnations, problems of the manifest, and when production matches an incarnation.
async fn tell_news(place: Place, handle: Handle) {
    let generation = handle.wait_until_owner().await;
    let mut status = generation.watch();
    let mut told = (None, Problems::none());
    let mut following: Option<tokio::task::JoinHandle<()>> = None;
    loop {
        let now = status.borrow_and_update().clone();
        let newest = now.incarnation.map(|header| (header.id, header.assets));
        if newest != told.0 {
            told.0 = newest.clone();
            if let Some((id, assets)) = newest {
                say(format_args!("sealed {id}: {assets} assets"));
                if let Some(old) = following.take() {
                    old.abort();
                }
                let follow = follow(place.clone(), handle.clone(), id.no, id);
                following = Some(tokio::spawn(follow));
            }
        }
        if now.problems != told.1 {
            if !now.problems.is_empty() {
                say("the manifest has problems; the last good one stays in force:");
                say_all(now.problems.iter());
            }
            told.1 = now.problems;
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Prints each new entry in the history of a rollout once.
async fn tell_rollouts(handle: Handle) {
    let mut told = None;
    loop {
        // An error means that no rollout runs in this process for now, for instance because it is not the owner.
        for view in handle.rollouts().await.unwrap_or_default() {
            let Some(rollout) = view.rollout else {
                continue;
            };
            let news = |entry: &&Entry| Some((rollout.id, entry.at)) > told;
            for entry in rollout.history.iter().filter(news) {
                say(format_args!("{}: {}", rollout.id, entry.what));
            }
            let last = rollout.history.last().map(|entry| (rollout.id, entry.at));
            told = told.max(last);
        }
        tokio::time::sleep(REST).await;
    }
}

async fn follow(
    place: Place,
    handle: Handle,
    no: control_plane::prelude::IncarnationNo,
    id: impl Display,
) {
    match handle.wait_settled(Settle::All(no), FOLLOW).await {
        Ok(()) => {
            say(format_args!("production matches {id}"));
            if let Some(address) = running::front_door(&place).await {
                say(format_args!("  try      curl http://{address}/"));
            }
        }
        Err(error) => say(format_args!("production does not match {id} yet: {error}")),
    }
}
