//! The state of a session during the whole demo: the town, the manifest and the client.

use std::time::Duration;

use hyper::Method;

use super::{
    broken::{Held, broken, ensure, until},
    dice::Dice,
    excuses::{Excused, Excuses},
    observe,
    town::Town,
    wanted::{Intent, Wanted},
};
use crate::{
    processes,
    production::{
        GLOBAL_CELL,
        clock::now_micros,
        load::{Attempt, Load},
    },
};

/// Number of connections of the client.
const CONNECTIONS: usize = 4;
/// Pause of each connection between an answer and its next request.
const REST: Duration = Duration::from_millis(15);
/// Maximum time to wait for a number of requests.
const PATIENCE: Duration = Duration::from_secs(45);

/// The running session.
#[derive(Debug)]
pub struct Session<I> {
    /// The state directory and the control plane.
    pub town: Town,
    /// The random choices of the session.
    pub dice: Dice,
    /// The manifest as it was saved last.
    pub manifest: I,
    /// Number of fresh versions so far.
    versions: u32,
    load: Option<Load>,
    excuses: Excuses,
}

impl<I: Intent> Session<I> {
    pub(super) fn new(town: Town, dice: Dice, manifest: I) -> Self {
        Self {
            town,
            dice,
            manifest,
            versions: 0,
            load: None,
            excuses: Excuses::default(),
        }
    }

    /// Returns the state of production that the manifest asks for.
    pub fn wanted(&self) -> Wanted {
        self.manifest.wanted()
    }

    /// Returns a new version without defects: the number of the current one, a dot, and a counter.
    pub fn fresh_version(&mut self) -> String {
        let version = self.wanted().version;
        let number: String = version.chars().take_while(char::is_ascii_digit).collect();
        self.versions += 1;
        format!("{number}.{}", self.versions)
    }

    /// Returns the names of the manifest's clusters.
    pub fn clusters(&self) -> Vec<String> {
        self.wanted().clusters.into_keys().collect()
    }

    /// Returns a random cluster of the manifest.
    pub fn some_cluster(&mut self) -> Held<String> {
        let clusters = self.clusters();
        match self.dice.pick(&clusters) {
            Some(name) => Ok(name.clone()),
            None => broken("no cluster is left"),
        }
    }

    /// Edits the manifest and saves it.
    pub fn edit(&mut self, edit: impl FnOnce(&mut I)) -> Held {
        edit(&mut self.manifest);
        self.town.save(&self.manifest.text())
    }

    /// Kills and restarts the control plane several times: once after each of these pauses, in milliseconds.
    pub async fn crash(&mut self, moments: &[u64]) -> Held {
        for moment in moments {
            tokio::time::sleep(Duration::from_millis(*moment)).await;
            self.town.kill_plane().await?;
            self.town.start_plane()?;
        }
        Ok(())
    }

    /// Waits until production matches the manifest.
    pub async fn arrives(&self) -> Held {
        let (place, wanted) = (&self.town.place, self.wanted());
        until("production matches the manifest", async || {
            observe::production_is(place, &wanted).await
        })
        .await
    }

    /// Kills processes behind a balancer and waits until they have exited. No request of the client may fail by that.
    pub async fn kill(&self, victims: &[u32]) -> Held {
        victims.iter().for_each(|pid| processes::kill(*pid));
        self.gone(victims).await
    }

    /// Kills the balancer of a cell and records the time, so that requests lost by its death are excused.
    pub async fn kill_balancer(&mut self, cell: &str, victim: u32) -> Held {
        let from = now_micros();
        self.kill(&[victim]).await?;
        self.excuses.balancer_died(cell, from, now_micros());
        Ok(())
    }

    /// Waits until these processes have exited.
    pub async fn gone(&self, victims: &[u32]) -> Held {
        until("the killed processes have exited", async || {
            let left = victims.iter().find(|pid| processes::running(**pid));
            ensure(left.is_none(), || format!("{left:?} is still running"))
        })
        .await
    }

    /// Starts the client, which sends requests to the global balancer.
    pub async fn hammer(&mut self) -> Held {
        let cell = observe::cell(&self.town.place, GLOBAL_CELL).await?;
        let address = observe::balancer(&cell).await?.address;
        self.load = Some(Load::start(address, &Method::GET, CONNECTIONS, REST));
        self.requests_pass(100).await
    }

    /// Waits until this many more requests have ended, and judges the client's log.
    pub async fn requests_pass(&mut self, requests: usize) -> Held {
        let Some(load) = &mut self.load else {
            return broken("the client is not running");
        };
        let passed = tokio::time::timeout(PATIENCE, load.passed(requests)).await;
        ensure(passed.is_ok(), || {
            format!("{requests} requests took more than {PATIENCE:?}")
        })?;
        self.excuses.judge(&self.attempts()).map(|_| ())
    }

    /// Returns the client's log so far.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.load.as_ref().map(Load::so_far).unwrap_or_default()
    }

    /// Excuses errors of this version in this cluster from now on.
    pub fn excuse(&mut self, version: &str, cluster: &str) {
        self.excuses.errors_of(version, cluster);
    }

    /// Returns the number of error answers of the excused versions.
    pub fn excused_answers(&self) -> Held<usize> {
        Ok(self.excuses.judge(&self.attempts())?.errors)
    }

    /// Stops the client and judges its whole log.
    pub async fn judge_client(&mut self) -> Held<String> {
        let Some(load) = self.load.take() else {
            return broken("the client is not running");
        };
        let log = load.stop().await;
        let Excused { errors, lost } = self.excuses.judge(&log)?;
        let killed = match lost {
            0 => String::new(),
            lost => format!(" and {lost} in flight on the global balancer when it was killed"),
        };
        Ok(format!(
            "{} requests; no failures except {errors} errors of defective versions in their canaries{killed}",
            log.len()
        ))
    }
}
