//! The rollout that is under way: its record, its targets and how far each is, and what was asked last.

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

/// With more targets than this, selections are that much further apart for each: one costs in the number of targets, and
/// as many may settle one by one.
const FEW: usize = 1000;
/// How many of the edges that tie others to what was selected are named.
const TIES: usize = 5;

const APART: Duration = Duration::from_micros(10);

/// A rollout under way.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) rollout: Rollout,
    /// What time it would have been when its owners began to watch it, had this one watched it all the time.
    base: Timestamp,
    /// When to write down next how long it was watched.
    pub(super) remember_at: Option<Mono>,
    /// When it is flagged, if nothing moves or settles until then.
    pub(super) stall_at: Option<Mono>,
    pub(super) from: Option<Incarnation>,
    pub(super) to: Incarnation,
    /// Sorted by id.
    pub(super) targets: Arc<Vec<Target>>,
    /// Beside each target, from the moment its pin moves.
    pub(super) rows: Vec<Option<TargetRecord>>,
    /// On the way back: those that moved, in the order in which they go back.
    pub(super) back: Option<Arc<Vec<Target>>>,
    /// Of each target: where among those.
    back_places: Vec<Option<usize>>,
    /// Of the way it goes: how many wait, and how many are settled.
    waiting: usize,
    settled: usize,
    moved: usize,
    /// How often targets have settled.
    pub(super) order: u64,
    /// Group assets whose content failed before, or that wait for such a one: they stay where they are.
    pub(super) left_out: Vec<AssetId>,
    /// Targets that left the group before they were moved, and that nobody has said are back: another rollout may hold them.
    pub(super) away: BTreeSet<AssetId>,
    /// What is remembered of assets that a rollout before this one moved, whose pins it took over.
    pub(super) inherited: BTreeMap<AssetId, TargetRecord>,
    pub(super) closure: Closure,
    /// What was selected last, and what it waits for.
    pub(super) selection: Selection,
    pub(super) selecting: Option<u64>,
    pub(super) selected_at: Option<Mono>,
    /// Something changed since the last selection was asked for, and whether it makes the answer void.
    pub(super) again: bool,
    pub(super) void: bool,
    /// When to look again though nothing happened.
    pub(super) wake: Option<Mono>,
    pub(super) judging: Option<(u64, Now)>,
    pub(super) judge_at: Option<Mono>,
    /// When the last look that was answered was asked for.
    pub(super) judged: Option<Timestamp>,
    /// The end of the bake whose evidence is looked for, and how often it was.
    awaited: Option<Timestamp>,
    looks: u32,
    /// Pins move for the cause `Emergency`.
    pub(super) emergency: bool,
    /// Something that it holds is another group's by now.
    pub(super) keeps_others: bool,
}

impl Live {
    /// A rollout whose targets have not moved, at this time.
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

    /// How long it was watched by this time.
    pub(super) fn watched(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.base)).unwrap_or_default()
    }

    /// What time it was, as this owner counts, when it was watched for so long.
    pub(super) fn time_of(&self, watched: Duration) -> Timestamp {
        self.base.checked_add(watched).unwrap_or(Timestamp::MAX)
    }

    /// Whether anything about it takes time that must not be lost.
    pub(super) fn is_timed(&self) -> bool {
        (self.is_watched() || self.is_moving()) && self.has_begun()
    }

    /// The targets whose pins have moved, with what is remembered of each.
    pub(super) fn held(&self) -> impl Iterator<Item = (&AssetId, &TargetRecord)> {
        let all = self.targets.iter().zip(&self.rows);
        all.filter_map(|(target, row)| Some((&target.asset, row.as_ref()?)))
    }

    /// Where in the targets `asset` is.
    pub(super) fn place(&self, asset: &AssetId) -> Option<usize> {
        let found = self.targets.binary_search_by(|t| t.asset.cmp(asset));
        found.ok()
    }

    /// Selects again. `void`: what is being selected now does not count.
    pub(super) fn look_again(&mut self, void: bool) {
        self.again = true;
        self.void |= void && self.selecting.is_some();
    }

    /// The same for what happens to one target after the other.
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

    /// Which way it goes.
    pub(super) fn direction(&self) -> Direction {
        match self.back {
            Some(_) => Direction::Back,
            None => Direction::Forward,
        }
    }

    /// The targets of the way it goes.
    pub(super) fn on_the_way(&self) -> &Arc<Vec<Target>> {
        self.back.as_ref().unwrap_or(&self.targets)
    }

    /// How long it is from a look at health, asked for then, to the next one. Once a bake is over its evidence comes a
    /// little later: it is looked for soon, and then less and less often.
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

    /// Whether pins may move.
    pub(super) fn is_moving(&self) -> bool {
        matches!(
            self.rollout.state,
            State::Running | State::RollingBack { .. }
        )
    }

    /// Whether health is watched.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.rollout.state, State::Running | State::Paused)
    }

    /// Of these there is one less: it stays where it is. What was selected counts places no more.
    pub(super) fn drop_target(&mut self, place: usize) {
        let target = Arc::make_mut(&mut self.targets).remove(place);
        let row = self.rows.remove(place);
        self.moved -= usize::from(row.is_some());
        self.waiting -= usize::from(target.is_waiting());
        self.settled -= usize::from(target.settled().is_some());
        self.selection = Selection::default();
    }

    /// Changes how far a target is.
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

    /// Whatever moves or settles is progress.
    fn got_on(&mut self, progress: Progress) {
        if !matches!(progress, Progress::Drifted { .. }) {
            self.rollout.idle = None;
        }
    }

    /// A target has settled. Says which settling that is.
    pub(super) fn settle(&mut self, place: usize, at: Timestamp) -> u64 {
        self.order += 1;
        if let Some(target) = Arc::make_mut(&mut self.targets).get_mut(place) {
            target.order = self.order;
        }
        self.set_progress(place, Progress::Updated { at });
        self.order
    }

    /// Remembers what a target went through.
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

    /// Forgets what a target went through. Says whether there was anything.
    pub(super) fn clear_row(&mut self, place: usize) -> bool {
        let row = self.rows.get_mut(place).and_then(Option::take);
        self.moved -= usize::from(row.is_some());
        row.is_some()
    }

    /// An asset is another group's from here on. Says whether it was to go back to where a rollout before this one took it
    /// from.
    pub(super) fn leaves(&mut self, asset: &AssetId) -> bool {
        if self.place(asset).is_some() {
            self.away.insert(asset.clone());
        }
        self.inherited.remove(asset).is_some()
    }

    /// The same for one that goes back.
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

    /// From here on these, all of which wait, go back.
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

    /// On the way back: those that wait and were on their way forward, or have drifted since.
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

    /// R19: `places` of its way, with whomever those that go there wait for.
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

    /// Says that more go forward than were wanted, and what ties them: `1 wanted, 5 moved, tied by ...`.
    pub(super) fn drawn(&self, wanted: &[u32], moved: &[u32]) -> Option<String> {
        if self.back.is_some() || wanted.is_empty() || moved.len() <= wanted.len() {
            return None;
        }
        let drawn = moved
            .iter()
            .copied()
            .filter(|place| !wanted.contains(place));
        let ties = self.closure.ties(moved, drawn);
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
        let (wanted, moved) = (wanted.len(), moved.len());
        Some(format!(
            "{wanted} wanted, {moved} moved, tied by edges of {}{rest}",
            some.join(", ")
        ))
    }

    /// Where among those that go back `asset` is.
    pub(super) fn back_place(&self, asset: &AssetId) -> Option<usize> {
        *self.back_places.get(self.place(asset)?)?
    }

    /// Whether `asset` has gone back, and is in sync there.
    pub(super) fn is_back(&self, asset: &AssetId) -> bool {
        let back = self.back.iter().zip(self.back_place(asset));
        let mut target = back.map(|(back, place)| &back[place]);
        target.any(|target| target.settled().is_some())
    }

    /// Whether everything that goes back has been sent.
    pub(super) fn is_sent_back(&self) -> bool {
        self.back.is_some() && self.waiting == 0
    }

    /// Whether every target of its way is settled.
    pub(super) fn all_settled(&self) -> bool {
        self.settled == self.on_the_way().len()
    }

    /// Whether any target has had its turn: a pin moved, or there was none to move.
    pub(super) fn has_begun(&self) -> bool {
        self.has_moved() || self.waiting < self.on_the_way().len()
    }

    /// Whether any pin has moved.
    pub(super) fn has_moved(&self) -> bool {
        self.moved > 0
    }
}
