//! The state of the session during the whole demo: the town, the manifest and the client.

use hyper::Method;
use std::time::Duration;
use testbed::{
    processes,
    production::{
        GLOBAL_CELL,
        clock::now_micros,
        load::{Attempt, Load},
    },
};

use super::{
    broken::{Held, broken, ensure, until},
    dice::Dice,
    excuses::{Excused, Excuses},
    eyes,
    town::Town,
};
use crate::model::Manifest;

/// Number of connections of the client.
const CONNECTIONS: usize = 4;
/// Pause of each connection between an answer and its next request.
const REST: Duration = Duration::from_millis(15);
/// Maximum time to wait for a number of requests.
const PATIENCE: Duration = Duration::from_secs(45);

/// The running session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) town: Town,
    pub(super) dice: Dice,
    pub(super) manifest: Manifest,
    /// Number of fresh versions so far.
    pub(super) versions: u32,
    load: Option<Load>,
    excuses: Excuses,
}

impl Session {
    pub(super) fn new(town: Town, dice: Dice, manifest: Manifest) -> Self {
        Self {
            town,
            dice,
            manifest,
            versions: 0,
            load: None,
            excuses: Excuses::default(),
        }
    }

    /// Returns the names of the manifest's clusters.
    pub(super) fn clusters(&self) -> Vec<String> {
        self.manifest.clusters.keys().cloned().collect()
    }

    /// Returns a random cluster of the manifest.
    pub(super) fn some_cluster(&mut self) -> Held<String> {
        let clusters = self.clusters();
        match self.dice.pick(&clusters) {
            Some(name) => Ok(name.clone()),
            None => broken("no cluster is left"),
        }
    }

    /// Edits the manifest and saves it.
    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut Manifest)) -> Held {
        edit(&mut self.manifest);
        self.town.save(&self.manifest)
    }

    /// Kills and restarts the control plane several times: once after each of these pauses, in milliseconds.
    pub(super) async fn crash(&mut self, moments: &[u64]) -> Held {
        for moment in moments {
            tokio::time::sleep(Duration::from_millis(*moment)).await;
            self.town.kill_plane().await?;
            self.town.start_plane()?;
        }
        Ok(())
    }

    /// Waits until production matches the manifest.
    pub(super) async fn arrives(&self) -> Held {
        let (place, manifest) = (&self.town.place, &self.manifest);
        until("production matches the manifest", async || {
            eyes::production_is(place, manifest).await
        })
        .await
    }

    /// Kills processes behind a balancer and waits until they have exited. No request of the client may fail by that.
    pub(super) async fn kill(&self, victims: &[u32]) -> Held {
        victims.iter().for_each(|pid| processes::kill(*pid));
        self.gone(victims).await
    }

    /// Kills the balancer of a cell and records the time for [`Excuses`].
    pub(super) async fn kill_balancer(&mut self, cell: &str, victim: u32) -> Held {
        let from = now_micros();
        self.kill(&[victim]).await?;
        self.excuses.balancer_died(cell, from, now_micros());
        Ok(())
    }

    /// Waits until these processes have exited.
    pub(super) async fn gone(&self, victims: &[u32]) -> Held {
        until("the killed processes have exited", async || {
            let left = victims.iter().find(|pid| processes::running(**pid));
            ensure(left.is_none(), || format!("{left:?} is still running"))
        })
        .await
    }

    /// Starts the client, which sends requests to the global balancer.
    pub(super) async fn hammer(&mut self) -> Held {
        let cell = eyes::cell(&self.town.place, GLOBAL_CELL).await?;
        let address = eyes::balancer(&cell).await?.address;
        self.load = Some(Load::start(address, &Method::GET, CONNECTIONS, REST));
        self.requests_pass(100).await
    }

    /// Waits until this many more requests have ended, and judges the client's log.
    pub(super) async fn requests_pass(&mut self, requests: usize) -> Held {
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
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        self.load.as_ref().map(Load::so_far).unwrap_or_default()
    }

    /// Excuses errors of this version in this cluster from now on.
    pub(super) fn excuse(&mut self, version: &str, cluster: &str) {
        self.excuses.errors_of(version, cluster);
    }

    /// Returns the number of error answers of the excused version.
    pub(super) fn excused_answers(&self) -> Held<usize> {
        Ok(self.excuses.judge(&self.attempts())?.errors)
    }

    /// Stops the client and judges its whole log.
    pub(super) async fn judge_client(&mut self) -> Held<String> {
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
            "{} requests; no failures except {errors} errors of version 3's canary{killed}",
            log.len()
        ))
    }
}
