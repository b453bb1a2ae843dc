//! The live rollout: its record, the progress of its targets, and its calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use plugin_sdk::{Direction, Mono, Now, Progress, Selection, Target, Until};
use prodspec_model::{AssetId, Incarnation};

use super::closure::Closure;
use crate::{
    policy::share_domains,
    record::{Rollout, State, TargetRecord},
};

/// Number of targets above which selections for single events are spaced out, by [`APART`] for each further target:
/// the cost of a selection grows with the number of targets, and each of them may settle on its own.
const FEW: usize = 1000;
/// Maximum number of ties that are named when a selection moves more targets than were selected.
const TIES: usize = 5;

const APART: Duration = Duration::from_micros(10);

/// A live rollout, with all that its kernel remembers of it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) rollout: Rollout,
    /// Start of the watched time on this owner's clock, as if this owner had watched the rollout from the start.
    base: Timestamp,
    /// When to store the watched time next.
    pub(super) remember_at: Option<Mono>,
    /// When the rollout is flagged if nothing moves or settles until then.
    pub(super) stall_at: Option<Mono>,
    pub(super) from: Option<Incarnation>,
    pub(super) to: Incarnation,
    /// The targets, sorted by id.
    pub(super) targets: Arc<Vec<Target>>,
    /// The stored record of each target, by place. `None`: its pin has not moved.
    pub(super) rows: Vec<Option<TargetRecord>>,
    /// During a rollback: the targets that moved, in the order in which they go back.
    pub(super) back: Option<Arc<Vec<Target>>>,
    /// The place in `back` of each target, by its place in `targets`.
    back_places: Vec<Option<usize>>,
    /// The number of waiting and of settled targets in the present direction.
    waiting: usize,
    settled: usize,
    moved: usize,
    /// The number of settlings so far.
    pub(super) order: u64,
    /// Assets of the group whose content failed before, or that wait for one of those. They stay where they are.
    pub(super) left_out: Vec<AssetId>,
    /// Targets that left the group before they moved and have not come back. Another rollout may hold them.
    pub(super) away: BTreeSet<AssetId>,
    /// Records of assets that an earlier rollout moved and whose pins this one took over.
    pub(super) inherited: BTreeMap<AssetId, TargetRecord>,
    pub(super) closure: Closure,
    /// The last selection, and the reasons why it waits.
    pub(super) selection: Selection,
    pub(super) selecting: Option<u64>,
    pub(super) selected_at: Option<Mono>,
    /// `again`: something has changed since the last selection was asked for. `void`: that change makes its answer
    /// invalid.
    pub(super) again: bool,
    pub(super) void: bool,
    /// Whether the last step left out targets that move with others: they did not fit into it.
    pub(super) cut: bool,
    /// When to select again even if nothing happens.
    pub(super) wake: Option<Mono>,
    pub(super) judging: Option<(u64, Now)>,
    pub(super) judge_at: Option<Mono>,
    /// Start of the last health check that was answered.
    pub(super) judged: Option<Timestamp>,
    /// The end of the bake for which evidence is awaited, and the number of checks made for it.
    awaited: Option<Timestamp>,
    looks: u32,
    /// Whether pins move for the cause `Emergency`.
    pub(super) emergency: bool,
    /// Whether the rollout holds an asset that belongs to another group now.
    pub(super) keeps_others: bool,
}

impl Live {
    /// Creates a rollout whose targets have not moved, as of `at`.
    pub(super) fn new(
        at: Timestamp,
        rollout: Rollout,
        from: Option<Incarnation>,
        to: Incarnation,
        mut targets: Vec<Target>,
        left_out: Vec<AssetId>,
        closure: Closure,
    ) -> Self {
        share_domains(&mut targets);
        Self {
            base: at.checked_sub(rollout.watched).unwrap_or(Timestamp::MIN),
            remember_at: None,
            stall_at: None,
            rollout,
            from,
            to,
            rows: vec![None; targets.len()],
            back_places: Vec::new(),
            waiting: targets.len(),
            settled: 0,
            moved: 0,
            order: 0,
            targets: Arc::new(targets),
            back: None,
            left_out,
            away: BTreeSet::new(),
            inherited: BTreeMap::new(),
            closure,
            selection: Selection::default(),
            selecting: None,
            selected_at: None,
            again: true,
            void: false,
            cut: false,
            wake: None,
            judging: None,
            judge_at: None,
            judged: None,
            awaited: None,
            looks: 0,
            emergency: false,
            keeps_others: false,
        }
    }

    /// Returns how long the rollout had been watched at the time `at`.
    pub(super) fn watched(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.base)).unwrap_or_default()
    }

    /// Returns the time on this owner's clock at which the rollout had been watched for `watched`.
    pub(super) fn time_of(&self, watched: Duration) -> Timestamp {
        self.base.checked_add(watched).unwrap_or(Timestamp::MAX)
    }

    /// Whether the rollout's time has to be stored: it is checked or moving, and has begun.
    pub(super) fn is_timed(&self) -> bool {
        (self.is_watched() || self.is_moving()) && self.has_begun()
    }

    /// Returns the targets whose pins have moved, with their records.
    pub(super) fn held(&self) -> impl Iterator<Item = (&AssetId, &TargetRecord)> {
        let all = self.targets.iter().zip(&self.rows);
        all.filter_map(|(target, row)| Some((&target.asset, row.as_ref()?)))
    }

    /// Returns the place of `asset` among the targets. `None`: it is no target.
    pub(super) fn place(&self, asset: &AssetId) -> Option<usize> {
        let found = self.targets.binary_search_by(|t| t.asset.cmp(asset));
        found.ok()
    }

    /// Asks for another selection. `void`: the answer to the present call no longer counts.
    pub(super) fn look_again(&mut self, void: bool) {
        self.again = true;
        self.void |= void && self.selecting.is_some();
    }

    /// Asks for another selection, but spaces selections out if there are many targets. For events about single
    /// targets.
    pub(super) fn look_soon(&mut self, now: Mono, void: bool) {
        let many = self.targets.len().saturating_sub(FEW);
        let apart = APART.saturating_mul(u32::try_from(many).unwrap_or(u32::MAX));
        let due = self.selected_at.map_or(now, |at| at + apart);
        self.void |= void && self.selecting.is_some();
        if due <= now || self.all_settled() {
            self.again = true;
        } else {
            self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
        }
    }

    /// Returns whether the rollout goes forward or back.
    pub(super) fn direction(&self) -> Direction {
        match self.back {
            Some(_) => Direction::Back,
            None => Direction::Forward,
        }
    }

    /// Returns the targets of the present direction.
    pub(super) fn on_the_way(&self) -> &Arc<Vec<Target>> {
        self.back.as_ref().unwrap_or(&self.targets)
    }

    /// Returns the wait after a health check that started at `asked`. After the end of a bake its evidence arrives
    /// with a short delay: the first checks follow quickly, the later ones at growing intervals of at most `every`.
    pub(super) fn until_next_look(&mut self, asked: Timestamp, every: Duration) -> Duration {
        let since = self
            .selection
            .waits
            .iter()
            .filter_map(|wait| match wait.until {
                Until::Healthy { since } => Some(since),
                _ => None,
            });
        let awaited = since.max().filter(|since| *since <= asked);
        if self.awaited != awaited {
            (self.awaited, self.looks) = (awaited, 0);
        }
        if awaited.is_none() {
            return every;
        }
        let soon = Duration::from_secs(1 << self.looks.min(16));
        self.looks += 1;
        soon.min(every)
    }

    /// Whether the state lets pins move.
    pub(super) fn is_moving(&self) -> bool {
        matches!(
            self.rollout.state,
            State::Running | State::RollingBack { .. }
        )
    }

    /// Whether health is checked in this state.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.rollout.state, State::Running | State::Paused)
    }

    /// Removes a target from the rollout. The present selection is dropped because its places have changed.
    pub(super) fn drop_target(&mut self, place: usize) {
        let target = Arc::make_mut(&mut self.targets).remove(place);
        let row = self.rows.remove(place);
        self.moved -= usize::from(row.is_some());
        self.waiting -= usize::from(target.is_waiting());
        self.settled -= usize::from(target.settled().is_some());
        self.selection = Selection::default();
    }

    /// Sets the progress of a target.
    pub(super) fn set_progress(&mut self, place: usize, progress: Progress) {
        let forward = self.back.is_none();
        if let Some(target) = Arc::make_mut(&mut self.targets).get_mut(place) {
            let before = std::mem::replace(&mut target.progress, progress);
            if forward {
                self.count(before, progress);
            }
            self.got_on(progress);
        }
    }

    /// Resets the stall deadline: a move or a settling is progress.
    fn got_on(&mut self, progress: Progress) {
        if !matches!(progress, Progress::Drifted { .. }) {
            self.rollout.idle = None;
        }
    }

    /// Marks a target as settled. Returns the number of this settling.
    pub(super) fn settle(&mut self, place: usize, at: Timestamp) -> u64 {
        self.order += 1;
        if let Some(target) = Arc::make_mut(&mut self.targets).get_mut(place) {
            target.order = self.order;
        }
        self.set_progress(place, Progress::Updated { at });
        self.order
    }

    /// Sets the record of a target.
    pub(super) fn set_row(&mut self, place: usize, row: TargetRecord) {
        self.order = self.order.max(row.order);
        if let Some(target) = Arc::make_mut(&mut self.targets).get_mut(place) {
            target.order = row.order;
        }
        if let Some(slot) = self.rows.get_mut(place) {
            self.moved += usize::from(slot.is_none());
            *slot = Some(row);
        }
    }

    /// Removes the record of a target. Returns whether there was one.
    pub(super) fn clear_row(&mut self, place: usize) -> bool {
        let row = self.rows.get_mut(place).and_then(Option::take);
        self.moved -= usize::from(row.is_some());
        row.is_some()
    }

    /// Notes that an asset belongs to another group now. Returns whether it was inherited from an earlier rollout.
    pub(super) fn leaves(&mut self, asset: &AssetId) -> bool {
        if self.place(asset).is_some() {
            self.away.insert(asset.clone());
        }
        self.inherited.remove(asset).is_some()
    }

    /// Sets the progress of a target that goes back.
    pub(super) fn set_back(&mut self, place: usize, progress: Progress) {
        let back = self.back.as_mut().map(Arc::make_mut);
        if let Some(target) = back.and_then(|back| back.get_mut(place)) {
            let before = std::mem::replace(&mut target.progress, progress);
            self.count(before, progress);
            self.got_on(progress);
        }
    }

    fn count(&mut self, before: Progress, after: Progress) {
        let settled = |progress| usize::from(matches!(progress, Progress::Updated { .. }));
        let waits = |progress| usize::from(progress == Progress::Waiting);
        self.waiting = self.waiting + waits(after) - waits(before);
        self.settled = self.settled + settled(after) - settled(before);
    }

    /// Turns to the way back. All targets in `back` wait.
    pub(super) fn goes_back(&mut self, back: Vec<Target>) {
        self.back_places = vec![None; self.targets.len()];
        for (at, target) in back.iter().enumerate() {
            if let Some(place) = self.place(&target.asset) {
                self.back_places[place] = Some(at);
            }
        }
        (self.waiting, self.settled) = (back.len(), 0);
        self.back = Some(Arc::new(back));
    }

    /// During a rollback: the places of waiting targets that were in flight or drifted on the way forward.
    pub(super) fn unsettled(&self) -> Vec<u32> {
        let back = self.back.iter().flat_map(|back| back.iter());
        let unsettled = |target: &Target| {
            let place = self.place(&target.asset);
            let forward = place.and_then(|place| self.targets.get(place));
            target.is_waiting() && forward.is_some_and(Target::is_under_way)
        };
        let places = (0..).zip(back).filter(|(_, target)| unsettled(target));
        places.map(|(place, _)| place).collect()
    }

    /// R19: returns `places` of the present direction and those of all targets that have to move with them.
    pub(super) fn closed(&self, places: Vec<u32>) -> Vec<u32> {
        let Some(back) = &self.back else {
            return self.closure.close(places);
        };
        let moved = |place: &u32| self.place(&back.get(*place as usize)?.asset);
        let forward = places.iter().filter_map(moved).map(|place| place as u32);
        let all = self.closure.close_back(forward).into_iter();
        let back = all.filter_map(|place| *self.back_places.get(place as usize)?);
        let mut closed: Vec<u32> = back.map(|place| place as u32).collect();
        closed.sort_unstable();
        closed
    }

    /// Describes why targets move that were not selected, and what ties them to those that were, or that are under way:
    /// `1 wanted, 5 moved, tied by edges or checks of ...`. `None`: only selected targets move, or the rollout goes back.
    pub(super) fn drawn(&self, selected: &[u32], moves: &[u32]) -> Option<String> {
        let (wanted, drawn): (Vec<u32>, Vec<u32>) =
            moves.iter().partition(|place| selected.contains(place));
        if self.back.is_some() || drawn.is_empty() {
            return None;
        }
        let under_way = |place: u32| {
            let target = self.targets.get(place as usize);
            target.is_some_and(Target::is_under_way)
        };
        let takes = |place: u32| moves.binary_search(&place).is_ok() || under_way(place);
        let ties = self.closure.ties(takes, drawn.iter().copied());
        let before = ties.iter().map(|(taker, _)| *taker);
        let before: BTreeSet<u32> = before.filter(|taker| under_way(*taker)).collect();
        let name = |place: u32| self.targets.get(place as usize).map(|it| &it.asset);
        let named = |(taker, place): &(u32, u32)| {
            Some(format!("`{}` and `{}`", name(*taker)?, name(*place)?))
        };
        let some: Vec<String> = ties.iter().filter_map(named).take(TIES).collect();
        let more = ties.len().saturating_sub(some.len());
        let rest = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (wanted, moved) = (wanted.len() + before.len(), moves.len() + before.len());
        Some(format!(
            "{wanted} wanted, {moved} moved, tied by edges or checks of {}{rest}",
            some.join(", ")
        ))
    }

    /// Returns the place of `asset` in `back`. `None`: it does not go back.
    pub(super) fn back_place(&self, asset: &AssetId) -> Option<usize> {
        *self.back_places.get(self.place(asset)?)?
    }

    /// Whether `asset` has gone back and is in sync there.
    pub(super) fn is_back(&self, asset: &AssetId) -> bool {
        let back = self.back.iter().zip(self.back_place(asset));
        let mut target = back.map(|(back, place)| &back[place]);
        target.any(|target| target.settled().is_some())
    }

    /// Whether all targets of a rollback have been sent back.
    pub(super) fn is_sent_back(&self) -> bool {
        self.back.is_some() && self.waiting == 0
    }

    /// Whether all targets of the present direction are settled.
    pub(super) fn all_settled(&self) -> bool {
        self.settled == self.on_the_way().len()
    }

    /// Whether any target has started: a pin has moved, or there was none to move.
    pub(super) fn has_begun(&self) -> bool {
        self.has_moved() || self.waiting < self.on_the_way().len()
    }

    /// Whether any pin has moved.
    pub(super) fn has_moved(&self) -> bool {
        self.moved > 0
    }
}
