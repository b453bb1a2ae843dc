//! The state of one watch on intent.

use std::collections::{BTreeMap, BTreeSet};

use prodspec_model::{AssetId, Digest, IncarnationNo};

use super::{
    change::Change,
    record::{Changed, Content, Made, Pending, Progress, WatchCounts, WatchedRecord},
    runs::{Limits, Runs},
};

/// Maximum number of incarnations without a change for the watch after which its record is written all the same.
const BEHIND: u32 = 32;

/// Maximum number of edits of an asset that wait for their incarnation. Older ones are forgotten.
const MADE: usize = 16;

/// A run to start: the assets that it is about, with their content before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The assets, in the order of their changes: one, or all of the watch.
    pub assets: Vec<(AssetId, Content, Content)>,
    /// The executions and watches that led to these changes, the nearest last: the longest chain of them.
    pub chain: Vec<String>,
}

/// One watch on intent. It decides by levels: a run gets the newest content, and content that came and went while an
/// earlier run was live starts nothing. Each change of content is handled by one run, over restarts too: the records
/// are stored in the commit that starts the run.
///
/// ```
/// use annealing_workflow::watch::{Change, IntentWatch, Limits};
/// use prodspec_model::{AssetId, Digest, IncarnationNo, operation::{Concurrency, Per}};
///
/// let limits = Limits { per: Per::Asset, concurrency: Concurrency::Forbid, at_most: 4 };
/// let mut watch = IntentWatch::new(limits, IncarnationNo(7));
/// let job = AssetId::new("job/eu")?;
/// let change = |before: &str, after: &str| Change {
///     asset: job.clone(),
///     before: Some(Digest::of(before.as_bytes())),
///     after: Some(Digest::of(after.as_bytes())),
/// };
///
/// watch.took(IncarnationNo(8), vec![change("one", "two")]);
/// assert_eq!(watch.starts().len(), 1);
/// let run = watch.started(&[job.clone()]);
/// // Two more changes while it runs are one more run, with the newest content.
/// watch.took(IncarnationNo(9), vec![change("two", "three")]);
/// watch.took(IncarnationNo(10), vec![change("three", "four")]);
/// assert!(watch.starts().is_empty());
/// watch.ended(run);
/// assert_eq!(watch.starts()[0].assets[0].2.digest, Some(Digest::of(b"four")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct IntentWatch {
    progress: Progress,
    assets: BTreeMap<AssetId, WatchedRecord>,
    /// Assets with a change that waits, by the incarnation of the oldest one, and live runs.
    runs: Runs<IncarnationNo>,
    changed: BTreeSet<AssetId>,
    /// The handled incarnation of the stored record. `None`: there is no such record, or it differs in more.
    stored: Option<IncarnationNo>,
}

impl IntentWatch {
    /// Creates a watch that was seen for the first time in `incarnation`. What is there already starts nothing.
    pub fn new(limits: Limits, incarnation: IncarnationNo) -> Self {
        let progress = Progress {
            handled: incarnation,
            ..Progress::default()
        };
        let mut watch = Self::restore(limits, progress, []);
        watch.stored = None;
        watch
    }

    /// Continues from the stored records of the last owner. Assets with a change that has had no run wait for one
    /// again.
    pub fn restore(
        limits: Limits,
        progress: Progress,
        assets: impl IntoIterator<Item = (AssetId, WatchedRecord)>,
    ) -> Self {
        let mut watch = Self {
            stored: Some(progress.handled),
            progress,
            assets: assets.into_iter().collect(),
            runs: Runs::new(limits),
            changed: BTreeSet::new(),
        };
        for (id, watched) in &watch.assets {
            watch.runs.wait(id, None, watched.waits_since());
        }
        // What waits now has cancelled no run, so it is no reason to replace one.
        for (id, watched) in &watch.assets {
            for run in &watched.running {
                watch.runs.start(*run, id);
            }
        }
        watch
    }

    /// Takes the changes that a newer incarnation brought since the [handled](Progress::handled) one. An incarnation
    /// that was handled before changes nothing.
    pub fn took(&mut self, incarnation: IncarnationNo, changes: Vec<Change>) {
        if incarnation <= self.progress.handled {
            return;
        }
        for change in changes {
            self.take(incarnation, change);
        }
        self.progress.handled = incarnation;
    }

    fn take(&mut self, incarnation: IncarnationNo, change: Change) {
        let content = |digest, at| Content { digest, at };
        let before = content(change.before, self.progress.handled);
        let after = content(change.after, incarnation);
        self.update(&change.asset, |watched, counts| {
            let handled = *watched.handled.get_or_insert(before);
            let made = watched.take_made(change.before, change.after);
            let own = !made.is_empty() && made.iter().all(|made| made.own);
            let earlier = watched.pending.take();
            if own && earlier.is_none() {
                watched.handled = Some(after);
                counts.own += 1;
                return;
            }
            let others = made.into_iter().filter(|made| !made.own);
            let longest = others.map(|made| made.chain).chain([watched.chain.clone()]);
            let longest = longest.max_by_key(Vec::len).unwrap_or_default();
            counts.coalesced += u64::from(earlier.is_some());
            // Content that came and went is nothing, unless the run that got it was cancelled for what came.
            let differs = handled.digest != after.digest || watched.replaced;
            watched.pending = differs.then_some(Pending {
                content: after,
                since: earlier.map_or(incarnation, |earlier| earlier.since),
            });
            watched.chain = match watched.pending {
                Some(_) => longest,
                None => Vec::new(),
            };
        });
    }

    /// The runs that may start now, the oldest change first. Say so with [`started`](Self::started), in the commit that
    /// starts each.
    pub fn starts(&self) -> Vec<Start> {
        let runs = self.runs.ready(self.progress.handled).into_iter();
        let contents = |id: AssetId| {
            let watched = self.assets.get(&id)?;
            Some((id, watched.handled?, watched.pending?.content))
        };
        let chain = |id: &AssetId| self.assets.get(id).map(|watched| watched.chain.clone());
        let start = |ids: Vec<AssetId>| Start {
            chain: ids
                .iter()
                .filter_map(chain)
                .max_by_key(Vec::len)
                .unwrap_or_default(),
            assets: ids.into_iter().filter_map(contents).collect(),
        };
        runs.map(start).collect()
    }

    /// The runs to cancel under [`Concurrency::Replace`](prodspec_model::operation::Concurrency::Replace), because newer content waits
    /// for their end. Say so with [`replaced`](Self::replaced). They are the same each time, so leave out what is being
    /// cancelled already.
    pub fn cancels(&self) -> Vec<u64> {
        let waits = |id: &AssetId| self.assets.get(id).is_some_and(|it| it.pending.is_some());
        self.runs.cancels(self.progress.handled, waits)
    }

    /// Notes that a run is cancelled in this commit, because newer content waits for its end. All its assets are in a next
    /// run, also those that have not changed since: it may have done nothing.
    pub fn replaced(&mut self, run: u64) {
        let assets = self.assets.iter();
        let of_run = assets.filter(|(_, it)| it.running.contains(&run) && !it.replaced);
        let ids: Vec<AssetId> = of_run.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.update(&id, |watched, _| {
                watched.replaced = true;
                let again = watched.handled.map(|content| Pending {
                    content,
                    since: content.at,
                });
                watched.pending = watched.pending.or(again);
            });
        }
    }

    /// Notes that a run for `assets` starts in this commit. Returns its number.
    pub fn started(&mut self, assets: &[AssetId]) -> u64 {
        let run = self.progress.start();
        for id in assets {
            self.runs.start(run, id);
            self.update(id, |watched, _| {
                if let Some(pending) = watched.pending.take() {
                    watched.handled = Some(pending.content);
                }
                watched.chain.clear();
                watched.replaced = false;
                watched.running.push(run);
            });
        }
        run
    }

    /// Notes that a run has ended in this commit, however it ended.
    pub fn ended(&mut self, run: u64) {
        for id in self.runs.end(run) {
            self.update(&id, |watched, _| watched.running.retain(|it| *it != run));
        }
    }

    /// Notes that a run that the watch does not know is live, for these assets with their present content: an operator
    /// restarted a step of it, or the watch was acknowledged and has come back.
    pub fn revived(&mut self, run: u64, assets: Vec<(AssetId, Content)>) {
        for (id, content) in assets {
            let live = self
                .assets
                .get(&id)
                .is_some_and(|it| it.running.contains(&run));
            if !live {
                self.runs.start(run, &id);
                self.update(&id, |watched, _| {
                    watched.running.push(run);
                    watched.handled.get_or_insert(content);
                });
            }
        }
    }

    /// Lets the content `now` of an asset, which is new to the watch, start a run.
    pub fn exists(&mut self, asset: &AssetId, now: Digest) {
        let at = self.progress.handled;
        self.update(asset, |watched, _| {
            watched.handled = Some(Content {
                digest: None,
                at: IncarnationNo::default(),
            });
            watched.pending = Some(Pending {
                content: Content {
                    digest: Some(now),
                    at,
                },
                since: at,
            });
        });
    }

    /// Notes that an execution has committed an edit of `asset`. If the execution is one of this watch, the change starts
    /// nothing, unless another one is among it. Otherwise the run that it starts gets its chain of causes.
    pub fn made(&mut self, asset: &AssetId, made: Made) {
        self.update(asset, |watched, _| {
            watched.made.push(made);
            let over = watched.made.len().saturating_sub(MADE);
            watched.made.drain(..over);
        });
    }

    /// Forgets edits made before `incarnation`: one that was taken has shown them, or what others made of them. The same
    /// change later is another one.
    pub fn shown(&mut self, incarnation: IncarnationNo) {
        let stale = |made: &Made| made.at < incarnation;
        let ids: Vec<AssetId> = self
            .assets
            .iter()
            .filter(|(_, watched)| watched.made.iter().any(stale))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            self.update(&id, |watched, _| watched.made.retain(|made| !stale(made)));
        }
    }

    /// Drops changes that wait for the end of a run of their asset. Only a planted bug does so.
    pub(crate) fn drop_beside_runs(&mut self) {
        let waits = |it: &WatchedRecord| it.pending.is_some() && !it.running.is_empty();
        let assets = self.assets.iter().filter(|(_, it)| waits(it));
        for id in assets.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.update(&id, |watched, _| {
                watched.handled = watched.pending.take().map(|pending| pending.content);
            });
        }
    }

    /// Forgets the chains of causes of changes that wait: an operator lets them go on.
    pub fn forget_chains(&mut self) {
        for id in self.assets.keys().cloned().collect::<Vec<_>>() {
            if self.assets.get(&id).is_some_and(|it| !it.chain.is_empty()) {
                self.update(&id, |watched, _| watched.chain.clear());
            }
        }
    }

    /// Takes an edited selection: it counts from `incarnation` on, and starts nothing by itself. Live runs go on.
    pub fn selects_anew(&mut self, incarnation: IncarnationNo) {
        self.progress.handled = incarnation;
        self.stored = None;
        for id in self.assets.keys().cloned().collect::<Vec<_>>() {
            self.update(&id, |watched, _| {
                watched.handled = None;
                watched.pending = None;
                watched.replaced = false;
                watched.chain.clear();
                watched.made.clear();
            });
        }
    }

    /// Takes edited limits, which hold for the next start.
    pub fn limits(&mut self, limits: Limits) {
        self.runs.limits = limits;
    }

    /// The incarnations that have the contents of changes that wait or run, and the one handled last, as it is now and as
    /// it is stored. Retention spares them.
    pub fn cited(&self) -> BTreeSet<IncarnationNo> {
        let contents = self.assets.values().flat_map(|watched| {
            let pending = watched.pending.map(|pending| pending.content);
            [watched.handled, pending].into_iter().flatten()
        });
        let cited = contents.map(|content| content.at);
        let handled = [Some(self.progress.handled), self.stored].into_iter();
        cited.chain(handled.flatten()).collect()
    }

    /// The assets with a change that waits for a run, the oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &AssetId> {
        self.runs.waiting()
    }

    /// What is known of the assets.
    pub fn assets(&self) -> &BTreeMap<AssetId, WatchedRecord> {
        &self.assets
    }

    /// How far the watch has come, for readers.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What has changed since the last call, to be stored in this commit. `None`: nothing has. Incarnations without a
    /// change are stored every 32.
    pub fn take_changed(&mut self) -> Option<Changed<'_>> {
        let ids = std::mem::take(&mut self.changed);
        let near = |stored: IncarnationNo| self.progress.handled.0 - stored.0 < BEHIND;
        if ids.is_empty() && self.stored.is_some_and(near) {
            return None;
        }
        self.stored = Some(self.progress.handled);
        Some(Changed::new(&self.progress, ids, &self.assets))
    }

    /// Changes what is known of an asset, and keeps the indices true.
    fn update(&mut self, id: &AssetId, change: impl FnOnce(&mut WatchedRecord, &mut WatchCounts)) {
        let watched = self.assets.entry(id.clone()).or_default();
        let before = watched.waits_since();
        change(watched, &mut self.progress.counts);
        self.runs.wait(id, before, watched.waits_since());
        if watched.is_idle() {
            self.assets.remove(id);
        }
        self.changed.insert(id.clone());
    }
}
