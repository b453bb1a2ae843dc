//! Runs of watches: which changes and conditions start one, and what its end means.

mod members;
mod state;
mod trigger;

use std::{collections::BTreeMap, time::Duration};

use jiff::{Timestamp, Unit};
use plugin_sdk::{
    By, Now, Standing,
    operation::{Limit, StartCause},
    port::Made,
};
use prodspec_model::{AssetId, Incarnation, operation::Per};

pub(super) use self::state::Watches;
use self::{
    state::Differences,
    trigger::{Kind, Watch},
};
use super::{
    Bug, DISPATCH, Lane,
    event::{Effects, Reply},
    intended::ScheduleWord,
    refused::Refused,
    state::{Execution, Phase, StepId},
    trigger::{NoStart, Run, Trigger as _, said},
};
use crate::{
    record::{Changed, ChangedAsset},
    view,
    watch::{Wanted, WatchRecord, WatchedRecord},
};

/// A watch with all its stored state, for the next owner.
#[derive(Debug, Clone)]
pub struct RecoveredWatch {
    /// The asset with the watch.
    pub asset: AssetId,
    /// The stored state of the watch itself: its content in intent, its pause and its counts.
    pub record: WatchRecord,
    /// What it knows of assets.
    pub assets: Vec<(AssetId, WatchedRecord)>,
    /// The incarnation whose changes it took last, of a watch on intent. `None`: it is not stored any more.
    pub handled: Option<Incarnation>,
}

impl Lane {
    /// Takes the standings of assets that watches follow.
    pub(super) fn stand(&mut self, now: Now, standings: Vec<(AssetId, Standing)>) {
        let steady = self.steady(now).wall;
        for (asset, standing) in standings {
            self.watches.stands(&asset, &standing, now.wall, steady);
        }
    }

    /// Takes what intent says of watches. `all`: the others have left it.
    pub(super) fn intended_watches(
        &mut self,
        now: Now,
        all: bool,
        wanted: BTreeMap<AssetId, Option<Wanted>>,
    ) {
        if all {
            self.watches.triggers.told(&wanted, now.wall);
        }
        for (asset, wanted) in wanted {
            let Some(wanted) = wanted else {
                self.watches.triggers.left(&asset, now.wall);
                continue;
            };
            let is_new = self.watches.triggers.get(&asset).is_none();
            // Each run starts an execution, so that a watch that is made again gives no number twice.
            let run = self.next_execution;
            self.watches.take(asset.clone(), wanted, run);
            if is_new {
                self.adopt_runs(&asset);
            }
        }
    }

    /// Goes on with stored watches. Runs that are not live have ended.
    pub(super) fn restore_watches(
        &mut self,
        stored: Vec<RecoveredWatch>,
        newest: Option<Incarnation>,
    ) {
        let no = newest.as_ref().map(Incarnation::no).unwrap_or_default();
        let trusts_history = self.planted(Bug::WatchFromHistory);
        self.watches.newest = newest;
        for RecoveredWatch {
            asset,
            record,
            assets,
            handled,
        } in stored
        {
            let watch = Watch::restore(record, assets, handled, no).map(|mut watch| {
                let runs = watch.running().into_iter();
                let gone = runs.filter(|run| self.run_of(&asset, &key(&asset, *run)).is_none());
                gone.collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|run| watch.ended(run));
                if trusts_history {
                    watch.forget_handled(no);
                }
                watch
            });
            self.watches.triggers.restore(asset, watch);
        }
    }

    /// Decides about the watches for which something has happened.
    pub(super) fn run_watches(&mut self, now: Now, out: &mut Effects) {
        if self.latest.is_none() {
            return;
        }
        let steady = self.steady(now);
        self.watches.triggers.look(steady);
        let mut differences = Differences::new();
        while let Some(asset) = self.watches.triggers.next_due() {
            if self.open_edit(&asset).is_none() {
                self.watches.catch_up(&asset, &mut differences);
                if self.planted(Bug::WatchDropsForbidden) {
                    self.watches.drop_beside_runs(&asset);
                }
            }
            // A run reads the newest incarnation, so it starts when the watch has taken that one.
            let watch = self.watches.triggers.get(&asset);
            let again = match watch.is_some_and(|watch| watch.behind.is_some()) {
                true => None,
                false => self.run_watch(now, &asset, out),
            };
            self.watches.triggers.decided(&asset, steady, again);
        }
    }

    /// An execution whose edit may be in the next incarnation and is not known yet. Until it is, a watch on intent takes no
    /// changes: which of them are its own, and to which chain of causes they belong, is known then. Of its own runs, and of
    /// what these have started, the watch also waits for edits whose outcome is not known. Edits of executions that no watch
    /// has caused belong to no loop, so nothing waits for them.
    fn open_edit(&self, asset: &AssetId) -> Option<&Execution> {
        let watch = self.watches.triggers.get(asset)?;
        if matches!(watch.kind, Kind::Status(..)) {
            return None;
        }
        self.editing.iter().find_map(|id| {
            let (execution, step) = (self.live.get(&id.execution)?, self.step_of(*id)?);
            let is_open = match step.phase {
                Phase::Editing(_) => self.is_caused_by_a_watch(execution),
                _ => execution.live.origin.watch.as_ref() == Some(asset),
            };
            is_open.then_some(&**execution)
        })
    }

    fn is_caused_by_a_watch(&self, execution: &Execution) -> bool {
        let mut links = execution.live.origin.chain.iter();
        links.any(|link| {
            let asset = AssetId::new(link);
            asset.is_ok_and(|asset| self.watches.triggers.get(&asset).is_some())
        })
    }

    /// Starts and cancels what a watch decides now. Returns a time after which to try again.
    fn run_watch(&mut self, now: Now, asset: &AssetId, out: &mut Effects) -> Option<Duration> {
        let watch = self.watches.triggers.get(asset)?;
        if watch.paused().is_some() {
            return None;
        }
        let steady = self.steady(now).wall;
        for run in watch.cancels(steady) {
            if let Some(no) = self.run_of(asset, &key(asset, run)) {
                self.replace_run(now, no, "the next run of its watch", out);
            }
            self.watches.triggers.change(asset)?.replaced(run, steady);
        }
        loop {
            let watch = self.watches.triggers.get(asset)?;
            let starts = starts(asset, watch, steady, self.watches.newest.as_ref());
            if starts.is_empty() {
                return None;
            }
            for (assets, chain) in starts {
                if let Err(no_start) = self.start_watched(now, asset, assets, chain, out) {
                    return self.not_started(now, asset, no_start, out);
                }
            }
        }
    }

    /// Notes why a run cannot start. Returns a time after which to try again.
    fn not_started(
        &mut self,
        now: Now,
        asset: &AssetId,
        why: NoStart,
        out: &mut Effects,
    ) -> Option<Duration> {
        match why {
            NoStart::Full => return Some(DISPATCH),
            NoStart::Broken(why) => self.watches.triggers.trouble(asset, Some(why)),
            NoStart::Loop(refused) => {
                let why = format!("{refused}, then resume the watch");
                let by = By::new("control plane", why);
                let record = said(asset, now.wall, ScheduleWord::Pause, &by);
                out.records.push(record);
                self.watches.triggers.change(asset)?.pause(by, now.wall);
            }
        }
        None
    }

    /// Starts a run for assets, and notes it in the same commit.
    fn start_watched(
        &mut self,
        now: Now,
        asset: &AssetId,
        changed: Changed,
        chain: Vec<String>,
        out: &mut Effects,
    ) -> Result<(), NoStart> {
        let triggers = &mut self.watches.triggers;
        let operated = triggers.operated(asset).map_err(NoStart::Broken)?;
        let Some(watch) = triggers.get(asset) else {
            return Ok(());
        };
        let ids: Vec<AssetId> = changed.assets.iter().map(|it| it.asset.clone()).collect();
        let run = Run {
            operated,
            history: watch.wanted.history,
            key: key(asset, watch.kind.progress().next_run).into(),
            cause: StartCause::Watch {
                watch: asset.clone(),
                asset: match watch.wanted.per {
                    Per::Asset => ids.first().cloned(),
                    Per::Watch => None,
                },
            },
            chain,
            changed: Some(changed),
        };
        let by = By::new("control plane", run.cause.to_string());
        let over = self.start_run(now, asset, run, &by, out)?.outcome.is_some();
        self.watches.triggers.trouble(asset, None);
        if let Some(watch) = self.watches.triggers.change(asset) {
            let run = watch.started(&ids);
            if over {
                watch.ended(run);
            }
        }
        Ok(())
    }

    /// Notes which assets an execution has changed, for the watches on them.
    pub(super) fn watched_edit(&mut self, id: StepId, made: &Made) {
        if made.changes.is_empty() {
            return;
        }
        let Some(execution) = self.live.get(&id.execution) else {
            return;
        };
        let mut chain = execution.live.origin.chain.clone();
        chain.push(execution.id.to_string());
        let own = !self.planted(Bug::SelfTrigger);
        let watch = execution.live.origin.watch.clone().filter(|_| own);
        for change in made.changes.iter() {
            self.watches
                .made(change, watch.as_ref(), &chain, made.sealed);
        }
    }

    /// The watch whose run starts an execution for this reason, or has started what does. A listener is no part of a run.
    pub(super) fn watch_behind(&self, cause: &StartCause) -> Option<AssetId> {
        let starter = match cause {
            StartCause::Watch { watch, .. } => return Some(watch.clone()),
            StartCause::Parent(parent) => parent,
            StartCause::Step(key) => &key.execution,
            _ => return None,
        };
        let starter = self.live.get(&self.no_of(starter)?)?;
        starter.live.origin.watch.clone()
    }

    /// Takes a word for a watch.
    pub(super) fn said_of_watch(
        &mut self,
        now: Now,
        asset: &AssetId,
        word: ScheduleWord,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let asset = asset.clone();
        match self.watches.triggers.said(&asset, word, by, now.wall) {
            None => return Err(Refused::NoWatch(asset)),
            Some(Err(why)) => {
                let why = why.into();
                return Err(Refused::Watch { asset, word, why });
            }
            Some(Ok(())) => out.records.push(said(&asset, now.wall, word, by)),
        }
        out.urgent = true;
        Ok(Reply::Taken)
    }

    /// All watches, sorted by asset.
    pub(super) fn show_watches(&self, now: Now) -> Vec<view::WatchState> {
        // To the second, so that the same moment is shown as the same time again.
        let ahead = now.wall.duration_since(self.steady(now).wall);
        let ahead = ahead.round(Unit::Second).unwrap_or(ahead);
        let all = self.watches.all_shown(ahead).into_iter();
        let all = all.map(|(mut shown, runs)| {
            let runs = runs.into_iter();
            let runs = runs.filter_map(|run| self.run_of(&shown.asset, &key(&shown.asset, run)));
            shown.running = runs
                .filter_map(|no| Some(self.live.get(&no)?.id.clone()))
                .collect();
            let watch = self.watches.triggers.get(&shown.asset);
            if watch.is_some_and(|watch| watch.behind.is_some())
                && let Some(edits) = self.open_edit(&shown.asset)
            {
                let why = format!("takes no changes before the edit of {} is made", edits.id);
                shown.trouble.get_or_insert(why);
            }
            shown
        });
        all.collect()
    }
}

/// The runs that may start: the assets of each, and the chain of its causes. One run has as many assets as a function may be
/// given; the others are in the next.
fn starts(
    asset: &AssetId,
    watch: &Watch,
    now: Timestamp,
    newest: Option<&Incarnation>,
) -> Vec<(Changed, Vec<String>)> {
    let most = Limit::REQUIRED.max();
    let run = |assets: Vec<ChangedAsset>, mut chain: Vec<String>, status| {
        chain.push(asset.to_string());
        (Changed { assets, status }, chain)
    };
    let starts: Vec<_> = match &watch.kind {
        Kind::Intent(of_intent, _) => {
            let starts = of_intent.starts().into_iter();
            let starts = starts.map(|start| {
                let assets = start.assets.into_iter().take(most);
                // The content from before counts as much.
                let assets = fitting(assets, newest, 2, |(asset, ..)| asset);
                let assets = assets.map(|(asset, before, _)| ChangedAsset {
                    asset,
                    before: (before.at.0 > 0).then_some(before.at),
                });
                run(assets.collect(), start.chain, false)
            });
            starts.collect()
        }
        Kind::Status(of_status, _) => {
            let before = newest.map(Incarnation::no);
            let starts = of_status.starts(now).into_iter().map(|assets| {
                let assets = assets.into_iter().take(most);
                let assets = fitting(assets, newest, 1, |asset| asset);
                let assets = assets.map(|asset| ChangedAsset { asset, before });
                run(assets.collect(), Vec::new(), true)
            });
            starts.collect()
        }
    };
    let starts = starts.into_iter();
    starts
        .filter(|(changed, _)| !changed.assets.is_empty())
        .collect()
}

/// The first of some assets whose contents fit into a request together, `times` times each; at least one.
fn fitting<T>(
    all: impl Iterator<Item = T>,
    newest: Option<&Incarnation>,
    times: usize,
    id: impl Fn(&T) -> &AssetId,
) -> impl Iterator<Item = T> {
    let mut size = 0;
    all.enumerate()
        .take_while(move |(n, it)| {
            let asset = newest.and_then(|newest| newest.asset(id(it)));
            size += times * asset.map_or(0, |asset| asset.canonical().len());
            *n == 0 || size <= Limit::REQUIRED_SIZE.max()
        })
        .map(|(_, it)| it)
}

/// The key of the execution of a run.
fn key(asset: &AssetId, run: u64) -> String {
    format!("{asset}#{run}")
}

/// The number of the run with this key.
fn run_of_key(key: &str) -> Option<u64> {
    let (_, run) = key.rsplit_once('#')?;
    run.parse().ok()
}
