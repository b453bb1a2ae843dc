//! The targets of a live rollout: their progress, their stored records, and the way back.

use jiff::Timestamp;
use plugin_sdk::{Direction, Pin, Progress, Target, TargetList};
use prodspec_model::AssetId;

use super::{back::Back, closure::Closure, tally::Tally};
use crate::{policy::share_domains, record::TargetRecord};

/// The targets, sorted by id. The place of a target is its position in this order; it changes only when a target is
/// removed. Only selections name targets by their place on the way back; everything else names them by asset.
#[derive(Debug)]
pub(in crate::kernel) struct Targets {
    all: TargetList,
    /// The stored record of each target, by place. `None`: its pin has not moved.
    rows: Vec<Option<TargetRecord>>,
    /// The number of records.
    moved: usize,
    tally: Tally,
    /// The number of settlings so far.
    order: u64,
    closure: Closure,
    /// The way back. `None`: the rollout goes forward.
    back: Option<Back>,
}

impl Targets {
    /// Creates targets that have not moved. `order` is the number of settlings so far.
    pub(in crate::kernel) fn new(mut targets: Vec<Target>, closure: Closure, order: u64) -> Self {
        share_domains(&mut targets);
        Self {
            rows: vec![None; targets.len()],
            moved: 0,
            tally: Tally::of(&targets),
            order,
            closure,
            all: targets.into(),
            back: None,
        }
    }

    /// Returns all targets, sorted by id.
    pub(in crate::kernel) fn all(&self) -> &TargetList {
        &self.all
    }

    /// Returns all targets, each with its record if its pin has moved.
    pub(in crate::kernel) fn with_rows(
        &self,
    ) -> impl Iterator<Item = (&Target, Option<&TargetRecord>)> {
        self.all.iter().zip(self.rows.iter().map(Option::as_ref))
    }

    /// Returns the targets whose pins have moved, with their records.
    pub(in crate::kernel) fn held(&self) -> impl Iterator<Item = (&AssetId, &TargetRecord)> {
        self.with_rows()
            .filter_map(|(target, row)| Some((&target.asset, row?)))
    }

    /// Returns the target at a place.
    pub(in crate::kernel) fn get(&self, place: usize) -> Option<&Target> {
        self.all.get(place)
    }

    /// Returns the record of the target at a place. `None`: its pin has not moved.
    pub(in crate::kernel) fn row(&self, place: usize) -> Option<&TargetRecord> {
        self.rows.get(place)?.as_ref()
    }

    /// Returns the place of `asset` among the targets. `None`: it is no target.
    pub(in crate::kernel) fn place(&self, asset: &AssetId) -> Option<usize> {
        let found = self.all.binary_search_by(|t| t.asset.cmp(asset));
        found.ok()
    }

    /// Whether the target at a place is updated and in sync.
    pub(in crate::kernel) fn is_updated(&self, place: usize) -> bool {
        let target = self.get(place);
        target.is_some_and(|target| target.settled().is_some())
    }

    /// Returns the number of settlings so far.
    pub(in crate::kernel) fn order(&self) -> u64 {
        self.order
    }

    /// Returns whether the rollout goes forward or back.
    pub(in crate::kernel) fn direction(&self) -> Direction {
        match self.back {
            Some(_) => Direction::Back,
            None => Direction::Forward,
        }
    }

    /// Returns the targets of the present direction.
    pub(in crate::kernel) fn on_the_way(&self) -> &TargetList {
        self.back.as_ref().map_or(&self.all, Back::targets)
    }

    /// Sets the progress of a target on the way forward. Returns whether there is one at this place.
    pub(super) fn set_progress(&mut self, place: usize, progress: Progress) -> bool {
        let Some(before) = self.all.set_progress(place, progress) else {
            return false;
        };
        self.tally.change(before, progress);
        true
    }

    /// Sets the progress of a target on the way back. Returns whether it goes back.
    pub(super) fn set_back(&mut self, asset: &AssetId, progress: Progress) -> bool {
        let place = self.back_place(asset);
        let back = self.back.as_mut().zip(place);
        back.is_some_and(|(back, place)| back.set_progress(place, progress))
    }

    /// Notes that a target has settled at the time `at`, when the rollout had been watched for `watched`. Returns the
    /// record to store, if its pin has moved.
    pub(super) fn settle(
        &mut self,
        place: usize,
        at: Timestamp,
        watched: std::time::Duration,
    ) -> Option<TargetRecord> {
        self.order += 1;
        self.all.set_order(place, self.order);
        self.set_progress(place, Progress::Updated { at });
        let row = self.rows.get_mut(place)?.as_mut()?;
        (row.updated_at, row.order) = (Some(watched), self.order);
        Some(row.clone())
    }

    /// Sets the record of a target.
    pub(in crate::kernel) fn set_row(&mut self, place: usize, row: TargetRecord) {
        self.order = self.order.max(row.order);
        self.all.set_order(place, row.order);
        if let Some(slot) = self.rows.get_mut(place) {
            self.moved += usize::from(slot.is_none());
            *slot = Some(row);
        }
    }

    /// Corrects the pin to which a target goes back. Returns the record to store. `None`: the pin of the target has not
    /// moved, or it was there.
    pub(in crate::kernel) fn set_was(&mut self, place: usize, was: Pin) -> Option<TargetRecord> {
        let row = self.rows.get_mut(place)?.as_mut();
        let row = row.filter(|row| !row.was.same_place(&was))?;
        row.was = was;
        Some(row.clone())
    }

    /// Removes the record of a target. Returns whether there was one.
    pub(in crate::kernel) fn clear_row(&mut self, place: usize) -> bool {
        let row = self.rows.get_mut(place).and_then(Option::take);
        self.moved -= usize::from(row.is_some());
        row.is_some()
    }

    /// Removes a target on the way forward. The places after it change.
    pub(super) fn remove(&mut self, place: usize) -> Target {
        let target = self.all.edit().remove(place);
        let row = self.rows.remove(place);
        self.moved -= usize::from(row.is_some());
        self.tally.remove(target.progress);
        target
    }

    /// Adds targets on the way forward. The places after them change.
    pub(super) fn add(&mut self, targets: Vec<Target>) {
        for target in targets {
            if let Err(place) = self.all.binary_search_by(|t| t.asset.cmp(&target.asset)) {
                self.tally.add(target.progress);
                self.all.edit().insert(place, target);
                self.rows.insert(place, None);
            }
        }
    }

    /// Turns to the way back: the targets that moved wait to be sent back, the last one first.
    pub(super) fn turn_back(&mut self, only_settled: bool, first_first: bool) {
        let mut moved: Vec<_> = self
            .with_rows()
            .filter(|(target, _)| !only_settled || target.settled().is_some())
            .filter_map(|(target, row)| Some((row?, target)))
            .collect();
        moved.sort_by_key(|(row, _)| row.moved_at);
        if !first_first {
            moved.reverse();
        }
        let waits = |(_, target): &(_, &Target)| Target {
            progress: Progress::Waiting,
            ..(*target).clone()
        };
        let back = moved.iter().map(waits).collect();
        self.back = Some(Back::new(back, &self.all));
    }

    /// During a rollback: the places of waiting targets that were in flight or drifted on the way forward.
    pub(in crate::kernel) fn unsettled(&self) -> Vec<u32> {
        let Some(back) = &self.back else {
            return Vec::new();
        };
        let under_way = self.all.iter().enumerate();
        let under_way = under_way.filter(|(_, target)| target.is_under_way());
        let places = under_way.filter_map(|(forward, _)| back.place(forward));
        let waits = |at: &usize| back.targets().get(*at).is_some_and(Target::is_waiting);
        let mut places: Vec<u32> = places.filter(waits).map(|at| at as u32).collect();
        places.sort_unstable();
        places
    }

    /// Returns the target `asset` on the way back. `None`: it does not go back.
    pub(in crate::kernel) fn back(&self, asset: &AssetId) -> Option<&Target> {
        let place = self.back_place(asset)?;
        self.back.as_ref()?.targets().get(place)
    }

    fn back_place(&self, asset: &AssetId) -> Option<usize> {
        self.back.as_ref()?.place(self.place(asset)?)
    }

    /// Whether `asset` has gone back and is in sync there.
    pub(in crate::kernel) fn is_back(&self, asset: &AssetId) -> bool {
        let back = self.back(asset);
        back.is_some_and(|target| target.settled().is_some())
    }

    /// Returns which targets move with which.
    pub(in crate::kernel) fn closure(&self) -> &Closure {
        &self.closure
    }

    /// Replaces the closure after the places have changed.
    pub(in crate::kernel) fn set_closure(&mut self, closure: Closure) {
        self.closure = closure;
    }

    /// R19: notes that the target at the place `waiting` waits for the one at `other`. Returns whether that is new.
    pub(in crate::kernel) fn tie(&mut self, waiting: usize, other: usize) -> bool {
        let (taker, taken) = match self.direction() {
            Direction::Forward => (waiting, other),
            Direction::Back => (other, waiting),
        };
        self.closure.add(taker as u32, taken as u32)
    }

    /// R19: returns `places` of the present direction and those of all targets that have to move with them.
    pub(in crate::kernel) fn closed(&self, places: Vec<u32>) -> Vec<u32> {
        let Some(back) = &self.back else {
            return self.closure.close(places);
        };
        let moved = |place: &u32| self.place(&back.targets().get(*place as usize)?.asset);
        let forward = places.iter().filter_map(moved).map(|place| place as u32);
        let all = self.closure.close_back(forward).into_iter();
        let places = all.filter_map(|place| back.place(place as usize));
        let mut closed: Vec<u32> = places.map(|place| place as u32).collect();
        closed.sort_unstable();
        closed
    }

    /// Whether all targets of a rollback have been sent back.
    pub(in crate::kernel) fn is_sent_back(&self) -> bool {
        let back = self.back.as_ref();
        back.is_some_and(|back| back.tally().none_waits())
    }

    /// Whether all targets of the present direction are settled.
    pub(in crate::kernel) fn all_settled(&self) -> bool {
        self.present().all_settled()
    }

    /// Whether any target has started: a pin has moved, or there was none to move.
    pub(in crate::kernel) fn has_begun(&self) -> bool {
        self.has_moved() || self.present().any_has_started()
    }

    /// Whether any pin has moved.
    pub(in crate::kernel) fn has_moved(&self) -> bool {
        self.moved > 0
    }

    /// Returns the numbers of targets in the present direction.
    fn present(&self) -> Tally {
        self.back.as_ref().map_or(self.tally, Back::tally)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plugin_sdk::{Cause, RolloutId};
    use prodspec_model::IncarnationNo;

    use super::*;
    use crate::{
        kernel::tests::rig::{P, id, thing},
        policy::target_of,
    };

    fn targets(names: &[&str]) -> Targets {
        let targets = names.iter().map(|name| target_of(&thing(name, 1)));
        Targets::new(targets.collect(), Closure::default(), 0)
    }

    fn moved_at(seconds: u64) -> TargetRecord {
        TargetRecord {
            policy: id(P),
            rollout: RolloutId(1),
            to: None,
            moved_at: Duration::from_secs(seconds),
            updated_at: None,
            order: 0,
            was: Pin::Default,
            back_at: None,
        }
    }

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    /// Recounts everything that is counted as targets change.
    fn check(targets: &Targets) {
        assert_eq!(targets.tally, Tally::of(&targets.all));
        assert_eq!(targets.moved, targets.held().count());
        assert_eq!(targets.rows.len(), targets.all.len());
        if let Some(back) = &targets.back {
            assert_eq!(back.tally(), Tally::of(back.targets()));
            for (at, target) in back.targets().iter().enumerate() {
                assert_eq!(targets.back_place(&target.asset), Some(at));
            }
        }
    }

    #[test]
    fn r20_counts_agree_with_targets_and_records() {
        let mut targets = targets(&["a", "b", "c"]);
        check(&targets);
        assert!(!targets.has_begun());
        for place in 0..3 {
            targets.set_row(place, moved_at(place as u64));
            targets.set_progress(place, Progress::InFlight { since: AT });
            check(&targets);
        }
        assert!(targets.has_begun() && !targets.all_settled());
        for place in 0..3 {
            targets.settle(place, AT, Duration::from_secs(9));
            check(&targets);
        }
        assert!(targets.all_settled());
        assert!(targets.clear_row(1) && !targets.clear_row(1));
        check(&targets);
        assert_eq!(targets.remove(0).asset, id("a"));
        check(&targets);
        assert!(targets.all_settled() && targets.has_moved());
    }

    #[test]
    fn r20_settlings_are_numbered_after_those_that_are_stored() {
        let mut targets = targets(&["a", "b"]);
        let stored = TargetRecord {
            order: 7,
            ..moved_at(0)
        };
        targets.set_row(0, stored);
        targets.set_row(1, moved_at(1));
        let row = targets.settle(1, AT, Duration::from_secs(5)).unwrap();
        assert_eq!(
            (row.order, row.updated_at),
            (8, Some(Duration::from_secs(5)))
        );
        assert_eq!((targets.order(), targets.get(1).unwrap().order), (8, 8));
    }

    #[test]
    fn r22_targets_go_back_in_the_reverse_order_of_their_moves() {
        let mut targets = targets(&["a", "b", "c", "d"]);
        for (place, seconds) in [(0, 2), (1, 3), (3, 1)] {
            targets.set_row(place, moved_at(seconds));
            targets.set_progress(place, Progress::InFlight { since: AT });
        }
        targets.turn_back(false, false);
        check(&targets);
        let back = targets.on_the_way().iter().map(|it| it.asset.clone());
        assert_eq!(back.collect::<Vec<_>>(), [id("b"), id("a"), id("d")]);
        assert!(targets.back(&id("c")).is_none());
        assert_eq!(targets.unsettled(), [0, 1, 2]);
        for name in ["b", "a", "d"] {
            assert!(!targets.is_sent_back());
            assert!(targets.set_back(&id(name), Progress::Updated { at: AT }));
            check(&targets);
        }
        assert!(!targets.set_back(&id("c"), Progress::Waiting));
        assert!(targets.is_sent_back() && targets.all_settled());
        assert!(targets.is_back(&id("d")) && !targets.is_back(&id("c")));
    }

    #[test]
    fn r19_ties_are_reversed_on_the_way_back() {
        let mut targets = targets(&["a", "b"]);
        assert!(targets.tie(0, 1) && !targets.tie(0, 1));
        assert_eq!(targets.closed(vec![0]), [0, 1]);
        assert_eq!(targets.closed(vec![1]), [1]);
        targets.set_row(0, moved_at(1));
        targets.set_row(1, moved_at(2));
        targets.turn_back(false, false);
        assert_eq!(targets.closed(vec![0]), [0, 1], "`a` goes back with `b`");
        assert_eq!(targets.closed(vec![1]), [1], "`a` goes back alone");
    }

    #[test]
    fn r22_pin_to_go_back_to_is_corrected_once() {
        let mut targets = targets(&["a"]);
        let was = Pin::At(IncarnationNo(1), Cause::Intent);
        assert!(targets.set_was(0, was).is_none(), "it has not moved");
        targets.set_row(0, moved_at(1));
        assert_eq!(targets.set_was(0, was).map(|row| row.was), Some(was));
        assert!(targets.set_was(0, was).is_none());
    }
}
