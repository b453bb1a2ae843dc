//! The live rollout: its record, its targets, and what it has to do with the rest of the group.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use plugin_sdk::{Direction, Health, Mono, Progress, RolloutId, Target};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::{
    judging::Judging, neighbours::Neighbours, selecting::Selecting, targets::Targets, watch::Watch,
};
use crate::{
    kernel::event::Record,
    record::{By, Lasting, Rollout, State, TargetRecord},
};

/// Number of targets above which selections for single events are spaced out, by [`APART`] for each further target:
/// the cost of a selection grows with the number of targets, and each of them may settle on its own.
const FEW: usize = 1000;

const APART: Duration = Duration::from_micros(10);

/// A live rollout, with all that its kernel remembers of it.
#[derive(Debug)]
pub(in crate::kernel) struct Live {
    rollout: Rollout,
    from: Option<Incarnation>,
    to: Incarnation,
    /// `to`, with the contents of targets that came later.
    contents: Incarnation,
    targets: Targets,
    /// Records of assets that an earlier rollout moved and whose pins this one took over.
    inherited: BTreeMap<AssetId, TargetRecord>,
    /// Assets of the group whose content failed before, or that wait for one of those. They stay where they are.
    left_out: Vec<AssetId>,
    /// Targets that left the group before they moved and have not come back. Another rollout may hold them.
    away: BTreeSet<AssetId>,
    /// Whether the rollout holds an asset that belongs to another group now.
    keeps_others: bool,
    /// Whether pins move for the cause `Emergency`.
    emergency: bool,
    pub(in crate::kernel) selecting: Selecting,
    pub(in crate::kernel) judging: Judging,
    /// Those of `contents`.
    pub(in crate::kernel) neighbours: Neighbours,
    pub(in crate::kernel) watch: Watch,
}

impl Live {
    /// Creates a rollout from `from` to `to`, as of `at`. It holds nothing from earlier rollouts.
    pub(in crate::kernel) fn new(
        at: Timestamp,
        rollout: Rollout,
        from: Option<Incarnation>,
        to: Incarnation,
        targets: Targets,
        left_out: Vec<AssetId>,
    ) -> Self {
        Self {
            watch: Watch::new(at, rollout.watched),
            rollout,
            from,
            contents: to.clone(),
            to,
            targets,
            inherited: BTreeMap::new(),
            left_out,
            away: BTreeSet::new(),
            keeps_others: false,
            emergency: false,
            selecting: Selecting::new(),
            judging: Judging::default(),
            neighbours: Neighbours::default(),
        }
    }

    /// Returns the record of the rollout.
    pub(in crate::kernel) fn rollout(&self) -> &Rollout {
        &self.rollout
    }

    pub(in crate::kernel) fn id(&self) -> RolloutId {
        self.rollout.id
    }

    pub(in crate::kernel) fn state(&self) -> &State {
        &self.rollout.state
    }

    /// Returns the record of the rollout, to be stored.
    pub(in crate::kernel) fn record(&self) -> Record {
        self.rollout.record()
    }

    /// Returns the incarnation that the group had before. `None`: this is the first turnup.
    pub(in crate::kernel) fn from(&self) -> Option<&Incarnation> {
        self.from.as_ref()
    }

    /// Returns the incarnation that is rolled out.
    pub(in crate::kernel) fn to(&self) -> &Incarnation {
        &self.to
    }

    /// Returns the contents that the targets get: those of the incarnation that is rolled out, but for targets that came
    /// later.
    pub(in crate::kernel) fn contents(&self) -> &Incarnation {
        &self.contents
    }

    /// Whether a target gets another content than the incarnation that is rolled out says.
    pub(in crate::kernel) fn is_newer(&self, asset: &AssetId) -> bool {
        let content = |of: &Incarnation| of.asset(asset).map(|asset| asset.digest());
        content(&self.contents) != content(&self.to)
    }

    /// Returns the incarnation at which a target that has moved is pinned.
    pub(in crate::kernel) fn goal(&self, asset: &AssetId) -> IncarnationNo {
        let place = self.targets.place(asset);
        let row = place.and_then(|place| self.targets.row(place));
        row.and_then(|row| row.to).unwrap_or(self.to.no())
    }

    pub(in crate::kernel) fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Returns the targets to change their records and ties. Progress is set on the rollout itself, because it
    /// resets the stall deadline.
    pub(in crate::kernel) fn targets_mut(&mut self) -> &mut Targets {
        &mut self.targets
    }

    /// Whether the rollout goes back.
    pub(in crate::kernel) fn is_going_back(&self) -> bool {
        self.targets.direction() == Direction::Back
    }

    /// Whether the state lets pins move.
    pub(in crate::kernel) fn is_moving(&self) -> bool {
        matches!(
            self.rollout.state,
            State::Running | State::RollingBack { paused: false, .. }
        )
    }

    /// Whether health is checked in this state.
    pub(in crate::kernel) fn is_watched(&self) -> bool {
        matches!(self.rollout.state, State::Running | State::Paused)
    }

    /// Whether the rollout's time has to be stored: it is checked or moving, and has begun.
    pub(in crate::kernel) fn is_timed(&self) -> bool {
        (self.is_watched() || self.is_going_back()) && self.targets.has_begun()
    }

    /// Returns when the rollout has something to do if nothing else happens. `None`: it has not.
    pub(in crate::kernel) fn next_wake(&self) -> Option<Mono> {
        let (select, judge) = (self.selecting.next_wake(), self.judging.next_wake());
        let watch = self.watch.next_wake(self.is_timed());
        [select, judge, watch].into_iter().flatten().min()
    }

    /// Adds an entry to the history.
    pub(in crate::kernel) fn note(
        &mut self,
        at: Timestamp,
        what: impl Into<String>,
        by: Option<By>,
    ) {
        self.rollout.note(at, what, by);
    }

    /// Enters another state, and asks for another selection.
    pub(in crate::kernel) fn enter(
        &mut self,
        at: Timestamp,
        state: State,
        what: impl Into<String>,
        by: Option<By>,
    ) {
        self.rollout.state = state;
        self.rollout.note(at, what, by);
        self.selecting.look_again(true);
    }

    /// Ends the rollout.
    pub(in crate::kernel) fn end(&mut self, at: Timestamp, state: State) {
        let what = state.word();
        self.rollout.state = state;
        self.rollout.ended_at = Some(at);
        self.rollout.stage = None;
        self.rollout.note(at, what, None);
    }

    /// Ends the rollout because `by` takes over.
    pub(in crate::kernel) fn superseded(&mut self, at: Timestamp, by: RolloutId) {
        self.rollout.state = State::Superseded { by };
        self.rollout.ended_at = Some(at);
        self.rollout.note(at, format!("superseded by {by}"), None);
    }

    /// Returns the record of a rollout that has ended.
    pub(in crate::kernel) fn into_rollout(self) -> Rollout {
        self.rollout
    }

    /// Lets the targets that have settled so far pass their gates.
    pub(in crate::kernel) fn promote(&mut self) {
        self.rollout.promoted = Some(self.targets.order());
    }

    /// Notes the wall clock's time of the first move. Returns whether this is the first.
    pub(in crate::kernel) fn moves_at(&mut self, wall: Timestamp) -> bool {
        let first = self.rollout.moved_at.is_none();
        self.rollout.moved_at.get_or_insert(wall);
        first
    }

    /// Notes why targets move that were not selected.
    pub(in crate::kernel) fn note_drawn(&mut self, at: Timestamp, drawn: String) {
        self.rollout.note(at, drawn.clone(), None);
        self.rollout.drawn = Some(drawn);
    }

    /// Notes the stage. Returns whether it is another one.
    pub(in crate::kernel) fn enter_stage(&mut self, at: Timestamp, stage: Option<&str>) -> bool {
        if stage == self.rollout.stage.as_deref() {
            return false;
        }
        self.rollout.stage = stage.map(str::to_owned);
        if let Some(stage) = stage {
            self.rollout.note(at, stage, None);
        }
        true
    }

    /// R21: takes in a verdict. Returns whether the record has to be stored for it.
    pub(in crate::kernel) fn hear(
        &mut self,
        at: Timestamp,
        health: Health,
        deadline: Duration,
    ) -> bool {
        self.rollout.hear(at, health, deadline)
    }

    /// Keeps the newest verdict among those that operators can look up later.
    pub(in crate::kernel) fn keep_verdict(&mut self) {
        self.rollout.keep_verdict();
    }

    /// Forgets what is known of health, and the check under way: it was asked for before.
    pub(in crate::kernel) fn forget_health(&mut self) {
        (self.rollout.health, self.rollout.unknown) = (None, None);
        self.judging.cancel();
    }

    /// Lets evidence of health count from this wall-clock time on only.
    pub(in crate::kernel) fn evidence_counts_from(&mut self, wall: Timestamp) {
        self.rollout.evidence_from = Some(wall);
        self.forget_health();
    }

    /// Advances the watched time.
    pub(in crate::kernel) fn watched_until(&mut self, at: Timestamp) {
        self.rollout.watched = self.watch.watched(at);
    }

    /// R21: notes whether the rollout is idle. Returns whether it has been idle for `deadline`, once each time.
    pub(in crate::kernel) fn note_idle(&mut self, is_idle: bool, deadline: Duration) -> bool {
        self.rollout.note_idle(is_idle, deadline)
    }

    /// Restores since when the rollout is idle.
    pub(in crate::kernel) fn restore_idle(&mut self, idle: Option<Lasting>) {
        self.rollout.idle = idle;
    }

    /// Returns the time until the rollout is flagged after being idle for `deadline`. `None`: it makes progress, or was
    /// flagged.
    pub(in crate::kernel) fn until_flagged(&self, deadline: Duration) -> Option<Duration> {
        self.rollout.until_flagged(deadline)
    }

    /// Asks for another selection, but spaces selections out if there are many targets. For events about single
    /// targets.
    pub(in crate::kernel) fn look_soon(&mut self, now: Mono, void: bool) {
        let many = self.targets.all().len().saturating_sub(FEW);
        let apart = match self.targets.all_settled() {
            true => Duration::ZERO,
            false => APART.saturating_mul(u32::try_from(many).unwrap_or(u32::MAX)),
        };
        self.selecting.look_soon(now, apart, void);
    }

    /// Sets the progress of a target on the way forward.
    pub(in crate::kernel) fn set_progress(&mut self, place: usize, progress: Progress) {
        if self.targets.set_progress(place, progress) {
            self.got_on(progress);
            self.note_move(place);
        }
    }

    /// Notes whether a target has moved at the assets that it can hurt.
    fn note_move(&mut self, place: usize) {
        if let Some(target) = self.targets.get(place) {
            let moved = !target.is_waiting();
            self.neighbours.moved(&self.contents, &target.asset, moved);
        }
    }

    /// Sets the progress of a target on the way back. Returns whether it goes back.
    pub(in crate::kernel) fn set_back(&mut self, asset: &AssetId, progress: Progress) -> bool {
        let goes_back = self.targets.set_back(asset, progress);
        if goes_back {
            self.got_on(progress);
        }
        goes_back
    }

    /// Notes that a target has settled. Returns the record to store, if its pin has moved.
    pub(in crate::kernel) fn settle(
        &mut self,
        place: usize,
        at: Timestamp,
    ) -> Option<TargetRecord> {
        self.got_on(Progress::Updated { at });
        let row = self.targets.settle(place, at, self.watch.watched(at));
        self.note_move(place);
        row
    }

    /// Resets the stall deadline: a move or a settling is progress.
    fn got_on(&mut self, progress: Progress) {
        if !matches!(progress, Progress::Drifted { .. }) {
            self.rollout.idle = None;
        }
    }

    /// Turns to the way back. The assets that an earlier rollout moved go back, too.
    pub(in crate::kernel) fn turn_back(&mut self, only_settled: bool, first_first: bool) {
        self.take_over_inherited();
        self.targets.turn_back(only_settled, first_first);
        self.selecting.turn_back();
    }

    /// Gives a record to each target that an earlier rollout moved and this one has not moved yet.
    fn take_over_inherited(&mut self) {
        for (asset, taken) in &self.inherited {
            let place = self.targets.place(asset);
            if let Some(place) = place.filter(|place| self.targets.row(*place).is_none()) {
                let row = TargetRecord {
                    rollout: self.rollout.id,
                    to: None,
                    updated_at: None,
                    order: 0,
                    back_at: None,
                    ..taken.clone()
                };
                self.targets.set_row(place, row);
            }
        }
    }

    /// Continues without a target, which stays where it is. Places change, so the last selection is dropped. Returns the
    /// asset.
    pub(in crate::kernel) fn leave_behind(&mut self, place: usize) -> AssetId {
        let asset = self.targets.remove(place).asset;
        self.neighbours.moved(&self.contents, &asset, false);
        self.selecting.forget();
        self.left_out.push(asset.clone());
        self.left_out.sort();
        asset
    }

    /// Adds assets to the incarnations between which the targets move.
    pub(in crate::kernel) fn widen(
        &mut self,
        before: impl Fn(&Incarnation) -> Incarnation,
        after: impl Fn(&Incarnation) -> Incarnation,
    ) {
        self.from = self.from.as_ref().map(before);
        self.to = after(&self.to);
        self.get(self.to.clone());
    }

    /// Replaces the contents that the targets get.
    fn get(&mut self, contents: Incarnation) {
        self.contents = contents;
        self.neighbours = Neighbours::default();
    }

    /// Replaces the contents that the targets get, and targets: removes `gone`, and adds or replaces `targets`, on the way
    /// forward. Places change, so the last selection is dropped.
    pub(in crate::kernel) fn renew(
        &mut self,
        contents: Incarnation,
        gone: &[AssetId],
        targets: Vec<Target>,
    ) {
        self.get(contents);
        for asset in targets.iter().map(|target| &target.asset).chain(gone) {
            if let Some(place) = self.targets.place(asset) {
                self.targets.remove(place);
            }
        }
        for target in &targets {
            self.away.remove(&target.asset);
        }
        self.join(targets);
    }

    /// Adds targets on the way forward. Places change, so the last selection is dropped.
    pub(in crate::kernel) fn join(&mut self, targets: Vec<Target>) {
        for target in &targets {
            self.left_out.retain(|asset| *asset != target.asset);
        }
        self.targets.add(targets);
        self.selecting.forget();
        self.selecting.look_again(true);
    }

    /// Returns the assets that stay where they are, because their content failed before or they wait for one of those.
    pub(in crate::kernel) fn left_out(&self) -> &[AssetId] {
        &self.left_out
    }

    /// Takes over the pin of an asset that an earlier rollout moved.
    pub(in crate::kernel) fn inherit(&mut self, asset: AssetId, row: TargetRecord) {
        self.inherited.insert(asset, row);
    }

    /// Returns the records of assets that an earlier rollout moved and whose pins this one took over.
    pub(in crate::kernel) fn inherited(&self) -> &BTreeMap<AssetId, TargetRecord> {
        &self.inherited
    }

    /// Returns the records of all assets that this or an earlier rollout moved. An asset may come twice: the record
    /// from the earlier rollout first.
    pub(in crate::kernel) fn moved(&self) -> impl Iterator<Item = (&AssetId, &TargetRecord)> {
        self.inherited.iter().chain(self.targets.held())
    }

    /// R22: returns the places of the targets that this or an earlier rollout moved, and of those that wait for them by
    /// an edge, in ascending order. If none has moved: all.
    pub(in crate::kernel) fn reached(&self) -> Vec<u32> {
        let none = !self.targets.has_moved() && self.inherited.is_empty();
        let moved = (0..).zip(self.targets.with_rows());
        let moved = moved.filter(|(_, (target, row))| {
            none || row.is_some() || self.inherited.contains_key(&target.asset)
        });
        let places = moved.map(|(place, _)| place);
        self.targets.closure().close_back(places)
    }

    /// Notes that an asset belongs to another group now. Returns whether it was inherited from an earlier rollout.
    pub(in crate::kernel) fn leaves(&mut self, asset: &AssetId) -> bool {
        if self.targets.place(asset).is_some() {
            self.away.insert(asset.clone());
        }
        self.inherited.remove(asset).is_some()
    }

    /// Notes that an asset belongs to the group again.
    pub(in crate::kernel) fn comes_back(&mut self, asset: &AssetId) {
        self.away.remove(asset);
    }

    /// Whether a target has left the group before it moved.
    pub(in crate::kernel) fn is_away(&self, asset: &AssetId) -> bool {
        self.away.contains(asset)
    }

    /// Notes that the rollout holds an asset that belongs to another group now.
    pub(in crate::kernel) fn keep_others(&mut self) {
        self.keeps_others = true;
    }

    /// Whether the rollout holds, or held, an asset that belongs to another group now.
    pub(in crate::kernel) fn keeps_others(&self) -> bool {
        self.keeps_others
    }

    /// Takes in whether an emergency is declared. Returns whether that is new, on the way forward.
    pub(in crate::kernel) fn hear_emergency(&mut self, declared: bool) -> bool {
        self.emergency &= declared;
        let news = declared && !self.emergency && !self.is_going_back();
        self.emergency |= news;
        news
    }

    /// Whether pins move for the cause `Emergency`.
    pub(in crate::kernel) fn is_emergency(&self) -> bool {
        self.emergency
    }
}
