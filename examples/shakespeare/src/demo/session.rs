//! What goes through the whole demo: the scene, what the manifest says, and the client.

use hyper::Method;
use std::time::Duration;

use super::{
    broken::{Held, broken, ensure, until},
    dice::Dice,
    excuses::{Excused, Excuses},
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

    /// Kills processes that balancers send requests to, and waits until they are gone. That costs the client nothing.
    pub(super) async fn kill(&self, victims: &[u32]) -> Held {
        victims.iter().for_each(|pid| processes::kill(*pid));
        self.gone(victims).await
    }

    /// Kills the balancer of a cell.
    pub(super) async fn kill_balancer(&mut self, cell: &str, victim: u32) -> Held {
        let from = now_micros();
        self.kill(&[victim]).await?;
        self.excuses.balancer_died(cell, from, now_micros());
        Ok(())
    }

    /// Waits until these are gone.
    pub(super) async fn gone(&self, victims: &[u32]) -> Held {
        until("what was killed is gone", async || {
            let left = victims.iter().find(|pid| processes::running(**pid));
            ensure(left.is_none(), || format!("{left:?} is still there"))
        })
        .await
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
        self.excuses.judge(&self.attempts()).map(|_| ())
    }

    /// The client's log so far.
    pub(super) fn attempts(&self) -> Vec<Attempt> {
        self.load.as_ref().map(Load::so_far).unwrap_or_default()
    }

    /// From now on, this version's own errors in this cluster are what the demo is about.
    pub(super) fn excuse(&mut self, version: &str, cluster: &str) {
        self.excuses.errors_of(version, cluster);
    }

    /// How many errors were answered by what is excused.
    pub(super) fn excused_answers(&self) -> Held<usize> {
        Ok(self.excuses.judge(&self.attempts())?.errors)
    }

    /// Lets the client finish, and judges its whole log.
    pub(super) async fn judge_client(&mut self) -> Held<String> {
        let Some(load) = self.load.take() else {
            return broken("nobody sent requests");
        };
        let log = load.stop().await;
        let Excused { errors, lost } = self.excuses.judge(&log)?;
        let killed = match lost {
            0 => String::new(),
            lost => format!(" and {lost} in flight on the global balancer as it was killed"),
        };
        Ok(format!(
            "{} requests, none failed but {errors} that version 3's canary answered{killed}",
            log.len()
        ))
    }
}
