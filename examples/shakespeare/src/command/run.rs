//! `run`: turns everything up from nothing, heals it, follows edits, until told to stop controlling.

use std::{fmt::Display, net::SocketAddr, time::Duration};

use control_plane::{
    Handle,
    prelude::{Problems, Settle, SqliteStore},
    strategist::Entry,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, called, running, this_program};
use crate::{
    control::{Server, Stop},
    model::GLOBAL_CELL,
    place::Place,
    plane,
    production::{api::Caller, client::Cell},
    voice::{say, say_all},
};

/// How long to follow one incarnation until production is as it says, before saying that it is not.
const FOLLOW: Duration = Duration::from_secs(60);

/// Between two looks at rollouts: they are for people to read, and nothing follows from them.
const REST: Duration = Duration::from_millis(500);

/// Controls the production of `place` until a signal or `down` comes.
///
/// # Errors
/// When another process controls it, or the state directory cannot be used.
pub async fn run(mut place: Place) -> Result<(), Failure> {
    let fresh = place.prepare()?;
    let store = SqliteStore::open(place.store())?;
    let plane = plane::build(&place, this_program()?, store)?;
    greet(&place, fresh);
    let (handle, stop) = (plane.handle(), Stop::new());
    let server = Server::start(&place, handle.clone(), stop.clone())?;
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
        "stopped controlling; still running, while whole cells are not healed and edits not followed:",
    );
    say_all(running::describe(&place).await);
    let (me, state) = (called(), place.dir().display());
    say(format_args!("control it again: {me} --state {state} run"));
    say(format_args!("remove all of it: {me} --state {state} down"));
    Ok(ended?)
}

fn greet(place: &Place, fresh: bool) {
    let (me, state) = (called(), place.dir().display());
    let manifest = place.manifest();
    let manifest = manifest.display();
    if fresh {
        say(format_args!("wrote a manifest to begin with: {manifest}"));
    }
    say(format_args!(
        "controlling what {manifest} says. Edit it, kill what runs: see it followed and healed."
    ));
    let verb =
        |verb: &str, what: &str| say(format_args!("  {verb:<8} {me} --state {state} {what}"));
    verb("ask", "status | plan | explain [ASSET] | check FILE");
    let slowly = "rollout: a new version goes slowly, and goes back if it answers with errors";
    verb("follow", slowly);
    verb(
        "load",
        "load: requests, without which the health of a version is unknown",
    );
    say(format_args!(
        "  look     {state}/cells/*/journal.jsonl: all that ever changed, on whose word"
    ));
    say("  stop     Ctrl-C: production goes on without being controlled");
    say("");
}

/// Returns at Ctrl-C or a termination signal.
pub(crate) async fn signalled() {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(_) => return std::future::pending().await,
    };
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => if interrupted.is_err() { std::future::pending().await },
        _ = terminate.recv() => {}
    }
}

/// Says what generation finds, and when production is there.
async fn tell_news(place: Place, handle: Handle) {
    let generation = handle.owned().await;
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
                say("the manifest is not followed, the last good one is:");
                say_all(now.problems.iter());
            }
            told.1 = now.problems;
        }
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Says what happens to rollouts, each thing once.
async fn tell_rollouts(handle: Handle) {
    let mut told = None;
    loop {
        // Without an answer nobody rolls out here, for now.
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
            say(format_args!("production is as {id} says"));
            if let Some(address) = front_door(&place).await {
                say(format_args!("  try      curl http://{address}/"));
            }
        }
        Err(error) => say(format_args!("not yet as {id} says: {error}")),
    }
}

/// Where to send requests.
pub(crate) async fn front_door(place: &Place) -> Option<SocketAddr> {
    let dir = place.cell(GLOBAL_CELL).canonicalize().ok()?;
    let cell = Cell::connect(&dir, GLOBAL_CELL).await;
    let balancer = cell.ok()?.balancer(&Caller::default()).await.ok()??;
    Some(balancer.address)
}
