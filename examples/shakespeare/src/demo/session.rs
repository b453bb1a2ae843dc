//! What goes through the whole demo: the scene, what the manifest says, the client, and the deaths that excuse it.

use hyper::Method;
use std::time::Duration;

use super::{
    broken::{Held, broken, ensure, until},
    dice::Dice,
    eyes,
    town::Town,
};
use crate::{
    command::processes,
    model::{GLOBAL_CELL, Manifest},
    production::{
        clock::now_micros,
        load::{Attempt, Load},
    },
};

/// Connections of the client, and how long each rests between two requests.
const CONNECTIONS: usize = 4;
const REST: Duration = Duration::from_millis(15);
/// A connection that has died is noticed within this long, in microseconds.
const NOTICED: u64 = 50_000;
/// Many requests have gone through within this long.
const PATIENCE: Duration = Duration::from_secs(45);

/// The demo while it is played.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) town: Town,
    pub(super) dice: Dice,
    pub(super) manifest: Manifest,
    /// How many fresh versions there have been.
    pub(super) versions: u32,
    load: Option<Load>,
    /// The version, and the cluster, whose errors are no failure of ours.
    excused: Option<(String, String)>,
    /// When something was dying, in microseconds since 1970.
    deaths: Vec<(u64, u64)>,
}

impl Session {
    pub(super) fn new(town: Town, dice: Dice, manifest: Manifest) -> Self {
        Self {
            town,
            dice,
            manifest,
            versions: 0,
            load: None,
            excused: None,
            deaths: vec![],
        }
    }

    /// The names of the clusters that serve.
    pub(super) fn clusters(&self) -> Vec<String> {
        self.manifest.clusters.keys().cloned().collect()
    }

    /// One of the clusters.
    pub(super) fn some_cluster(&mut self) -> Held<String> {
        let clusters = self.clusters();
        match self.dice.pick(&clusters) {
            Some(name) => Ok(name.clone()),
            None => broken("no cluster is left"),
        }
    }

    /// Saves an edit of the manifest.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut Manifest)) -> Held {
        edit(&mut self.manifest);
        self.town.save(&self.manifest)
    }

    /// Kills the control plane and starts it again, some moments from now, each a number of milliseconds apart.
    pub(super) async fn crash(&mut self, moments: &[u64]) -> Held {
        for moment in moments {
            tokio::time::sleep(Duration::from_millis(*moment)).await;
            self.town.kill_plane().await?;
            self.town.start_plane()?;
        }
        Ok(())
    }

    /// Waits until production is as the manifest says.
    pub(super) async fn arrives(&self) -> Held {
        let (place, manifest) = (&self.town.place, &self.manifest);
        until("production is as the manifest says", async || {
            eyes::production_is(place, manifest).await
        })
        .await
    }

    /// Kills processes, and remembers when they were dying.
    pub(super) async fn kill(&mut self, victims: &[u32]) -> Held {
        let from = now_micros();
        victims.iter().for_each(|pid| processes::kill(*pid));
        self.dying(from, victims).await
    }

    /// Waits until these are gone; requests in flight meanwhile may fail.
    pub(super) async fn dying(&mut self, from: u64, victims: &[u32]) -> Held {
        until("what was killed is gone", async || {
            let left = victims.iter().find(|pid| processes::running(**pid));
            ensure(left.is_none(), || format!("{left:?} is still there"))
        })
        .await?;
        self.deaths.push((from, now_micros() + NOTICED));
        Ok(())
    }

    /// Starts hammering the global balancer.
    pub(super) async fn hammer(&mut self) -> Held {
        let cell = eyes::cell(&self.town.place, GLOBAL_CELL).await?;
        let address = eyes::balancer(&cell).await?.address;
        self.load = Some(Load::start(address, &Method::GET, CONNECTIONS, REST));
        self.requests_pass(100).await
    }

    /// Waits until so many more requests have ended, and looks at them.
    pub(super) async fn requests_pass(&mut self, requests: usize) -> Held {
        let Some(load) = &mut self.load else {
            return broken("nobody sends requests");
        };
        let passed = tokio::time::timeout(PATIENCE, load.passed(requests)).await;
        ensure(passed.is_ok(), || {
            format!("{requests} requests took more than {PATIENCE:?}")
        })?;
        self.none_failed(&self.attempts()).map(|_| ())
    }

    /// The client's log so far.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        self.load.as_ref().map(Load::so_far).unwrap_or_default()
    }

    /// From now on, this version's own errors in this cluster are what the demo is about.
    pub(super) fn excuse(&mut self, version: &str, cluster: &str) {
        self.excused = Some((version.into(), cluster.into()));
    }

    /// How many errors were answered by what is excused.
    pub(super) fn excused_answers(&self) -> usize {
        let log = self.attempts();
        log.iter()
            .filter(|attempt| self.is_excused(attempt))
            .count()
    }

    fn is_excused(&self, attempt: &Attempt) -> bool {
        let Some((version, cluster)) = &self.excused else {
            return false;
        };
        let there = |frontend: &String| {
            let name = frontend.strip_prefix(cluster.as_str());
            name.is_some_and(|name| name.starts_with('/'))
        };
        // A whole answer of that very version: nothing between it and the client has failed.
        attempt.status.is_some_and(|status| status >= 500)
            && attempt.version.as_ref() == Some(version)
            && attempt.frontend.as_ref().is_some_and(there)
    }

    /// Lets the client finish, and judges its whole log.
    pub(super) async fn judge_client(&mut self) -> Held<String> {
        let Some(load) = self.load.take() else {
            return broken("nobody sent requests");
        };
        let log = load.stop().await;
        let excused = self.none_failed(&log)?;
        let bad = log
            .iter()
            .filter(|attempt| self.is_excused(attempt))
            .count();
        let killed = match excused - bad {
            0 => String::new(),
            killed => format!(" and {killed} in flight on what was killed"),
        };
        Ok(format!(
            "{} requests, none failed but {bad} that version 3's canary answered{killed}",
            log.len()
        ))
    }

    /// No request failed, beyond those in flight while something was being killed, and those that are excused. How many
    /// these were.
    fn none_failed(&self, log: &[Attempt]) -> Held<usize> {
        let excused = |attempt: &&Attempt| {
            let mut deaths = self.deaths.iter();
            deaths.any(|(from, to)| attempt.in_flight_during(*from, *to))
        };
        let excused = |attempt: &&Attempt| self.is_excused(attempt) || excused(attempt);
        let failed: Vec<&Attempt> = log.iter().filter(|attempt| attempt.failed()).collect();
        match failed.iter().find(|attempt| !excused(attempt)) {
            Some(attempt) => broken(format_args!("a request failed: {attempt:?}")),
            None => Ok(failed.len()),
        }
    }
}
