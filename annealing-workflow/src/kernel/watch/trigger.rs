//! One watch of a lane: the state of its kind, the incarnation that it has taken, and what its asset wants.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{By, document::FieldPath};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo,
    operation::{IntentWatch as OnIntent, Operation, StatusWatch as OnStatus, Watch as On},
    snapshot::Change,
};

use super::{super::trigger::Trigger, members::Members};
use crate::{
    record::Paused,
    watch::{
        Changed, Content, IntentWatch, Progress, StatusWatch, Wanted, WatchRecord, WatchedRecord,
        changes, selected,
    },
};

/// One watch.
#[derive(Debug)]
pub(in crate::kernel) struct Watch {
    pub(super) wanted: Wanted,
    pub(super) kind: Kind,
    /// The incarnation that it has taken, if it is not the newest.
    pub(super) behind: Option<Incarnation>,
    paused: Option<Paused>,
    orphan: Option<Timestamp>,
    /// Whether its own record has to be written, whatever its kind says.
    changed: bool,
    /// Assets whose records are of another kind of watch.
    stale: BTreeSet<AssetId>,
}

/// Records of a watch to write.
pub(super) struct Written {
    /// Its own.
    pub(super) record: WatchRecord,
    /// Those of assets. `None`: it has none any more.
    pub(super) assets: Vec<(AssetId, Option<WatchedRecord>)>,
}

/// What a watch is on.
#[derive(Debug)]
pub(super) enum Kind {
    Intent(IntentWatch, Vec<FieldPath>),
    Status(StatusWatch, Members),
}

/// The fields of a watch on intent, as paths.
fn fields(on: &OnIntent) -> Result<Vec<FieldPath>, String> {
    let paths = on.fields.iter().map(|field| field.parse::<FieldPath>());
    paths
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

fn held_for(on: &OnStatus) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(on.held_for_secs).unwrap_or(i64::MAX))
}

impl Kind {
    /// Goes on from what is known of assets.
    fn restore(
        wanted: &Wanted,
        progress: Progress,
        assets: Vec<(AssetId, WatchedRecord)>,
        is_fresh: bool,
    ) -> Result<Self, String> {
        let limits = wanted.limits();
        Ok(match &wanted.on {
            On::Intent(on) => {
                Self::Intent(IntentWatch::restore(limits, progress, assets), fields(on)?)
            }
            On::Status(on) => {
                let watch = StatusWatch::restore(limits, held_for(on), progress, assets);
                Self::Status(watch, Members::new(is_fresh))
            }
        })
    }

    pub(super) fn progress(&self) -> &Progress {
        match self {
            Self::Intent(watch, _) => watch.progress(),
            Self::Status(watch, _) => watch.progress(),
        }
    }

    fn assets(&self) -> &std::collections::BTreeMap<AssetId, WatchedRecord> {
        match self {
            Self::Intent(watch, _) => watch.assets(),
            Self::Status(watch, _) => watch.assets(),
        }
    }

    fn take_changed(&mut self) -> Option<Changed<'_>> {
        match self {
            Self::Intent(watch, _) => watch.take_changed(),
            Self::Status(watch, _) => watch.take_changed(),
        }
    }
}

impl Watch {
    /// A watch that is seen for the first time in `newest`, and whose first run has this number.
    pub(super) fn new(wanted: Wanted, newest: &Incarnation, run: u64) -> Result<Self, String> {
        let progress = Progress {
            handled: newest.no(),
            next_run: run,
            ..Progress::default()
        };
        let is_fresh = !wanted.on.existing();
        let mut kind = Kind::restore(&wanted, progress, Vec::new(), is_fresh)?;
        if let (Kind::Intent(watch, fields), On::Intent(on)) = (&mut kind, &wanted.on)
            && on.existing
        {
            for asset in on.of.find(newest.snapshot()) {
                if let Some(content) = selected(&asset, &on.of, fields) {
                    watch.exists(&asset.id(), content);
                }
            }
        }
        let mut watch = Self::of(wanted, kind);
        watch.changed = true;
        Ok(watch)
    }

    fn of(wanted: Wanted, kind: Kind) -> Self {
        Self {
            wanted,
            kind,
            behind: None,
            paused: None,
            orphan: None,
            changed: false,
            stale: BTreeSet::new(),
        }
    }

    /// Goes on from stored records. `handled`: the incarnation that it has taken last. `None`: it is not in the store any
    /// more, and the watch counts from `newest`.
    pub(super) fn restore(
        record: WatchRecord,
        assets: Vec<(AssetId, WatchedRecord)>,
        handled: Option<Incarnation>,
        newest: IncarnationNo,
    ) -> Result<Self, String> {
        let kind = Kind::restore(&record.wanted, record.progress, assets, record.is_fresh)?;
        let mut watch = Self::of(record.wanted, kind);
        (watch.paused, watch.orphan) = (record.paused, record.orphan);
        if let Kind::Intent(of_intent, _) = &mut watch.kind
            && of_intent.progress().handled != newest
        {
            match handled {
                Some(handled) => watch.behind = Some(handled),
                None => of_intent.selects_anew(newest),
            }
        }
        Ok(watch)
    }

    /// Takes what was handled from the live runs only; see [`Bug::WatchFromHistory`](crate::kernel::Bug::WatchFromHistory).
    pub(super) fn forget_handled(&mut self, newest: IncarnationNo) {
        if !self.running().is_empty() {
            return;
        }
        match &mut self.kind {
            Kind::Intent(watch, _) => {
                watch.selects_anew(newest);
                self.behind = None;
            }
            Kind::Status(watch, _) => {
                for asset in watch.assets().keys().cloned().collect::<Vec<_>>() {
                    watch.is_over(&asset);
                }
            }
        }
    }

    /// Takes an edited content of the asset. An edited selection counts from `newest` on, and starts nothing by itself.
    pub(super) fn edited(&mut self, wanted: Wanted, newest: &Incarnation) -> Result<(), String> {
        match (&mut self.kind, &self.wanted.on, &wanted.on) {
            (Kind::Intent(watch, paths), On::Intent(old), On::Intent(new)) => {
                let new_paths = fields(new)?;
                watch.limits(wanted.limits());
                if (&old.of, &*paths) != (&new.of, &new_paths) {
                    *paths = new_paths;
                    watch.selects_anew(newest.no());
                    self.behind = None;
                }
            }
            (Kind::Status(watch, members), On::Status(old), On::Status(new)) => {
                watch.edited(wanted.limits(), held_for(new));
                if (&old.of, &old.is) != (&new.of, &new.is) {
                    watch.selects_anew();
                    members.list_anew();
                }
            }
            _ => self.changes_kind(&wanted, newest)?,
        }
        self.changed |= wanted != self.wanted || self.orphan.is_some();
        self.wanted = wanted;
        self.orphan = None;
        Ok(())
    }

    /// Watches something else from now on. What runs goes on.
    fn changes_kind(&mut self, wanted: &Wanted, newest: &Incarnation) -> Result<(), String> {
        let running = self.kind.assets().iter();
        let running = running.filter(|(_, watched)| !watched.running.is_empty());
        let running = running.map(|(asset, watched)| {
            let running = watched.running.clone();
            let watched = WatchedRecord {
                running,
                ..WatchedRecord::default()
            };
            (asset.clone(), watched)
        });
        let progress = Progress {
            handled: newest.no(),
            ..self.kind.progress().clone()
        };
        let kind = Kind::restore(wanted, progress, running.collect(), true)?;
        self.stale.extend(self.kind.assets().keys().cloned());
        self.kind = kind;
        self.behind = None;
        Ok(())
    }

    /// The runs that are live.
    pub(super) fn running(&self) -> BTreeSet<u64> {
        let assets = self.kind.assets().values();
        assets
            .flat_map(|watched| watched.running.iter().copied())
            .collect()
    }

    pub(super) fn ended(&mut self, run: u64) {
        match &mut self.kind {
            Kind::Intent(watch, _) => watch.ended(run),
            Kind::Status(watch, _) => watch.ended(run),
        }
    }

    /// A run for these assets is live that was not before. `newest`: the newest incarnation.
    pub(super) fn revived(&mut self, run: u64, assets: &[AssetId], newest: &Incarnation) {
        match (&mut self.kind, &self.wanted.on) {
            (Kind::Intent(watch, fields), On::Intent(on)) => {
                let taken = self.behind.as_ref().unwrap_or(newest);
                let content = |id: &AssetId| Content {
                    digest: taken
                        .asset(id)
                        .and_then(|asset| selected(&asset, &on.of, fields)),
                    at: taken.no(),
                };
                let assets = assets.iter().map(|id| (id.clone(), content(id)));
                watch.revived(run, assets.collect());
            }
            (Kind::Status(watch, _), _) => watch.revived(run, assets),
            _ => {}
        }
    }

    pub(super) fn started(&mut self, assets: &[AssetId]) -> u64 {
        match &mut self.kind {
            Kind::Intent(watch, _) => watch.started(assets),
            Kind::Status(watch, _) => watch.started(assets),
        }
    }

    /// A run is cancelled in this step, because another one replaces it.
    pub(super) fn replaced(&mut self, run: u64, now: Timestamp) {
        match &mut self.kind {
            Kind::Intent(watch, _) => watch.replaced(run),
            Kind::Status(watch, _) => watch.replaced(run, now),
        }
    }

    /// The runs to cancel, because others replace them.
    pub(super) fn cancels(&self, now: Timestamp) -> Vec<u64> {
        match &self.kind {
            Kind::Intent(watch, _) => watch.cancels(),
            Kind::Status(watch, _) => watch.cancels(now),
        }
    }

    /// Takes the changes up to `newest`.
    pub(super) fn take_changes(&mut self, changed: &[(AssetId, Change)], newest: &Incarnation) {
        match (&mut self.kind, &self.wanted.on) {
            (Kind::Intent(watch, fields), On::Intent(on)) => {
                let differ = changed
                    .iter()
                    .filter(|(asset, _)| on.of.may_be(asset))
                    .map(|(asset, it)| (asset.clone(), it.before.as_ref(), it.after.as_ref()));
                let seen = changes(differ, |asset| selected(asset, &on.of, fields));
                watch.took(newest.no(), seen);
                // A run of generation that read the sources before an edit may have sealed the next incarnation.
                watch.shown(IncarnationNo(newest.no().0.saturating_sub(1)));
            }
            (Kind::Status(watch, members), On::Status(on)) => {
                members.changed(changed, &on.of);
                members.gone().iter().for_each(|gone| watch.is_over(gone));
            }
            _ => {}
        }
    }

    /// The digests of what a watch on intent selects of an asset before and after a change. `None`: the change is none for
    /// the watch.
    pub(super) fn selects(&self, change: &Change) -> Option<(Option<Digest>, Option<Digest>)> {
        let (Kind::Intent(_, fields), On::Intent(on)) = (&self.kind, &self.wanted.on) else {
            return None;
        };
        let select = |asset: &Option<Asset>| {
            let asset = asset.as_ref()?;
            selected(asset, &on.of, fields)
        };
        let (before, after) = (select(&change.before), select(&change.after));
        (before != after).then_some((before, after))
    }

    /// The incarnations that retention spares for it.
    pub(super) fn cited(&self) -> BTreeSet<IncarnationNo> {
        match &self.kind {
            Kind::Intent(watch, _) => watch.cited(),
            Kind::Status(..) => BTreeSet::new(),
        }
    }

    /// The records that have changed since the last call: its own, and those of its assets.
    pub(super) fn take_changed(&mut self) -> Option<Written> {
        let is_fresh = match &mut self.kind {
            Kind::Status(_, members) => {
                self.changed |= members.freshness_changed();
                members.is_fresh()
            }
            Kind::Intent(..) => false,
        };
        let mut stale = std::mem::take(&mut self.stale);
        let mut assets = Vec::new();
        let changed = self.kind.take_changed();
        let any = changed.is_some();
        for (asset, watched) in changed.into_iter().flat_map(|changed| changed.assets) {
            stale.remove(&asset);
            assets.push((asset, watched.cloned()));
        }
        if !std::mem::take(&mut self.changed) && !any && stale.is_empty() {
            return None;
        }
        let known = self.kind.assets();
        let stale = stale.into_iter().map(|asset| {
            let watched = known.get(&asset).cloned();
            (asset, watched)
        });
        assets.extend(stale);
        let record = WatchRecord {
            wanted: self.wanted.clone(),
            progress: self.kind.progress().clone(),
            is_fresh,
            paused: self.paused.clone(),
            orphan: self.orphan,
        };
        Some(Written { record, assets })
    }

    /// The assets of which it has a record.
    pub(super) fn recorded(&self) -> impl Iterator<Item = &AssetId> {
        self.kind.assets().keys().chain(&self.stale)
    }
}

impl Trigger for Watch {
    type Wanted = Wanted;

    fn operation(&self) -> Result<Operation, serde_json::Error> {
        self.wanted.operation()
    }

    fn next_wake(&mut self, now: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Kind::Status(watch, _) if self.paused.is_none() => watch.next_wake(now),
            _ => None,
        }
    }

    fn left(&mut self, now: Timestamp) {
        self.changed |= self.orphan.is_none();
        self.orphan.get_or_insert(now);
    }

    fn pause(&mut self, by: By, now: Timestamp) {
        self.paused.get_or_insert(Paused { since: now, by });
        self.changed = true;
    }

    fn resume(&mut self, _: Timestamp) {
        self.paused = None;
        self.changed = true;
        if let Kind::Intent(watch, _) = &mut self.kind {
            watch.forget_chains();
        }
    }

    fn paused(&self) -> Option<&Paused> {
        self.paused.as_ref()
    }

    fn orphan(&self) -> Option<Timestamp> {
        self.orphan
    }
}
