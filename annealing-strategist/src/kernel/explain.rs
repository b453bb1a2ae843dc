//! Explains what a rollout waits for: targets under way, and assets that it does not move.

use std::collections::{BTreeMap, BTreeSet};

use plugin_sdk::{Direction, Judgement, Standing, SyncState, Target, Until, Wait};
use prodspec_model::AssetId;

use super::{
    Kernel,
    state::{live::Live, verdict::reasons},
};
use crate::record::{Lasting, Rollout, State};

/// Maximum number of assets under way that are named, and of assets that one of them waits for.
const SHOWN: usize = 5;

impl Kernel {
    pub(super) fn waits(&self, live: &Live) -> Vec<Wait> {
        let mut waits = live.selecting.waits().to_vec();
        let unknown = unknown_health(live.rollout());
        let for_health = |wait: &&mut Wait| matches!(wait.until, Until::Healthy { .. });
        for wait in waits.iter_mut().filter(for_health) {
            wait.why
                .extend(unknown.iter().map(|why| format!("; {why}")));
        }
        let back = live.targets().direction() == Direction::Back;
        let under_way = |target: &&Target| target.is_under_way() || back && target.is_waiting();
        let names = live.targets().on_the_way().iter().filter(under_way);
        let names = names.map(|target| self.under_way(live, &target.asset));
        let names: Vec<String> = names.take(SHOWN).collect();
        if !names.is_empty() {
            waits.push(Wait {
                why: format!("under way: {}", names.join(", ")),
                until: plugin_sdk::Until::Settled,
            });
        }
        waits
    }

    /// Returns why an operator has to act before the rollout goes on or completes.
    pub(super) fn awaits_person(&self, live: &Live) -> Option<String> {
        let rollout = live.rollout();
        match &rollout.state {
            State::Paused | State::RollingBack { paused: true, .. } => {
                let by = rollout.history.iter().rev().find_map(|it| it.by.as_ref());
                Some(by.map_or("paused".into(), |by| format!("paused by {by}")))
            }
            State::Stopped { why } => Some(format!("stopped: {why}")),
            _ => {
                let mut waits = live.selecting.waits().iter();
                let person = waits.find(|wait| wait.until == Until::Person);
                person
                    .map(|wait| wait.why.clone())
                    .or_else(|| self.target_awaits_person(live))
                    .or_else(|| flagged(rollout))
            }
        }
    }

    /// Returns why targets under way wait for an operator. Of many, the first is described.
    fn target_awaits_person(&self, live: &Live) -> Option<String> {
        let targets = live.targets().on_the_way().iter();
        let mut held = targets.filter(|t| t.is_under_way()).filter_map(|target| {
            match &self.pins.status(&target.asset)?.state {
                SyncState::OutOfSync {
                    why: Some(why),
                    awaits_person: true,
                    ..
                } => Some(format!("{}: {why}", target.asset)),
                _ => None,
            }
        });
        let first = held.next()?;
        match held.count() {
            0 => Some(first),
            more => Some(format!("{first}; and {more} more targets")),
        }
    }

    /// Returns the assets that `asset` waits for and that the rollout does not move.
    fn waits_outside(&self, asset: &AssetId) -> impl Iterator<Item = &AssetId> {
        let waits_for = match self.pins.status(asset).map(|standing| &standing.state) {
            Some(SyncState::OutOfSync { waits_for, .. }) => waits_for.as_slice(),
            _ => &[],
        };
        let moved = |id: &AssetId| self.owns(self.group.latest(), id) && !self.is_left_running(id);
        waits_for.iter().filter(move |id| !moved(id))
    }

    /// Whether the asset is absent from the incarnation at its pin, and left running.
    fn is_left_running(&self, asset: &AssetId) -> bool {
        let gone = |it: &Standing| it.content.is_none() && it.state.is_in_sync();
        self.pins.status(asset).is_some_and(gone)
    }

    pub(super) fn held(&self, live: &Live) -> BTreeMap<AssetId, String> {
        let under_way = live
            .targets()
            .on_the_way()
            .iter()
            .filter(|t| t.is_under_way());
        let held = under_way.filter_map(|target| {
            let why = self.held_by(&target.asset)?;
            Some((target.asset.clone(), why.to_owned()))
        });
        held.collect()
    }

    /// Returns the reason why an operator or a check holds the push of an asset.
    fn held_by(&self, asset: &AssetId) -> Option<&str> {
        match self.pins.status(asset).map(|standing| &standing.state) {
            Some(SyncState::OutOfSync { why, .. }) => why.as_deref(),
            _ => None,
        }
    }

    pub(super) fn outside(&self, live: &Live) -> Vec<AssetId> {
        let under_way = live
            .targets()
            .on_the_way()
            .iter()
            .filter(|t| t.is_under_way());
        let outside = under_way.flat_map(|target| self.waits_outside(&target.asset));
        let outside: BTreeSet<&AssetId> = outside.collect();
        outside.into_iter().cloned().collect()
    }

    /// Describes an asset under way, and what it waits for outside the rollout.
    fn under_way(&self, live: &Live, asset: &AssetId) -> String {
        let others = self.waits_outside(asset);
        let others = others.map(|id| {
            let why = match () {
                () if live.left_out().contains(id) => ", which is left out",
                () if self.is_left_running(id) => ", which is gone from intent, and left running",
                () => "",
            };
            format!("`{id}`{why}")
        });
        let mut others: Vec<String> = others.take(SHOWN).collect();
        others.extend(self.held_by(asset).map(str::to_owned));
        match others.is_empty() {
            true => asset.to_string(),
            false => format!("{asset} (waits for {})", others.join(" and ")),
        }
    }
}

/// Returns why health is unknown. `None`: it is not.
fn unknown_health(rollout: &Rollout) -> Option<String> {
    let health = rollout.health.as_ref();
    let unknown = health.filter(|health| health.judgement == Judgement::Unknown)?;
    Some(format!("health is unknown: {}", reasons(unknown)))
}

/// Returns the condition that has lasted for too long, and what an operator can do.
fn flagged(rollout: &Rollout) -> Option<String> {
    let flagged = |lasting: &Option<Lasting>| lasting.is_some_and(|it| it.flagged);
    match rollout.state {
        State::Running if flagged(&rollout.unknown) => {
            let why = unknown_health(rollout).unwrap_or_else(|| "health is unknown".to_owned());
            Some(format!("{why}; bring data, promote it or roll it back"))
        }
        _ if flagged(&rollout.idle) => {
            Some("nothing has moved or settled for too long; explain its targets".to_owned())
        }
        _ => None,
    }
}
