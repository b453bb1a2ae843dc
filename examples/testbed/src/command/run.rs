//! `run`: the control plane. It starts the service, repairs it and follows edits of the manifest until it is stopped.

use std::{collections::BTreeMap, fmt::Display, time::Duration};

use control_plane::{
    Handle,
    model::AssetId,
    prelude::{Problems, Settle, SqliteStore, Timestamp},
    sdk::RolloutId,
    strategist::View,
};

use super::{rollout::summary, running};
use crate::{
    control::{Server, Stop},
    place::Place,
    production::clock::now_micros,
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
    greet(&place, fresh, S::TRY);
    let started = now_micros();
    let started = Timestamp::from_microsecond(started.cast_signed()).unwrap_or(Timestamp::MIN);
    let (handle, stop) = (plane.handle(), Stop::new());
    let server = Server::start(&place, handle.clone(), stop.clone(), S::POLICY.parse()?)?;
    let tellers = [
        tokio::spawn(tell_news(place.clone(), handle.clone())),
        tokio::spawn(tell_rollouts(handle, started)),
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

fn greet(place: &Place, fresh: bool, edits: &[&str]) {
    let (me, state) = (called(), place.dir().display());
    let manifest = place.manifest();
    let manifest = manifest.display();
    if fresh {
        say(format_args!("wrote a default manifest: {manifest}"));
    }
    say(format_args!(
        "keeping production equal to {manifest}. Edit it and save it:"
    ));
    say_all(edits.iter().map(|edit| format!("  edit     {edit}")));
    say("and beside it, in another terminal:");
    let verb =
        |verb: &str, what: &str| say(format_args!("  {verb:<8} {me} --state {state} {what}"));
    verb("ask", "status | plan | explain [ASSET] | check FILE");
    verb(
        "follow",
        "rollout: what the rollout does, and what it waits for",
    );
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

/// Prints each entry in the history of a rollout once, if it was made since this process started. Of a rollout that an
/// earlier process began, the present state is printed instead.
async fn tell_rollouts(handle: Handle, started: Timestamp) {
    let mut told = BTreeMap::new();
    loop {
        // An error means that no rollout runs in this process for now, for instance because it is not the owner.
        for view in handle.rollouts().await.unwrap_or_default() {
            say_all(news(&view, started, &mut told));
        }
        tokio::time::sleep(REST).await;
    }
}

/// The rollout and the time of the newest entry that was printed, by policy group.
type Told = BTreeMap<AssetId, (RolloutId, Timestamp)>;

/// Returns the lines about a policy group that were not printed yet.
fn news(view: &View, started: Timestamp, told: &mut Told) -> Vec<String> {
    let Some(rollout) = &view.rollout else {
        return Vec::new();
    };
    let id = rollout.id;
    let mut lines = Vec::new();
    let last = told.entry(view.policy.clone()).or_insert_with(|| {
        let known = rollout.history.iter().filter(|entry| entry.at < started);
        let known = known.map(|entry| entry.at).max();
        if known.is_some() && view.live {
            lines.push(format!("goes on: {}", summary(view)));
        }
        known.map_or((RolloutId(0), started), |at| (id, at))
    });
    for entry in &rollout.history {
        if (id, entry.at) > *last {
            lines.push(format!("{id}: {}", entry.what));
        }
    }
    let newest = rollout.history.last().map(|entry| (id, entry.at));
    *last = newest.map_or(*last, |newest| newest.max(*last));
    lines
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
            if let Some((name, pid)) = running::a_cell(&place) {
                say(format_args!(
                    "  try      kill -9 {pid}: cell {name} and its tasks end; all of it is started again"
                ));
            }
        }
        Err(error) => say(format_args!("production does not match {id} yet: {error}")),
    }
}
