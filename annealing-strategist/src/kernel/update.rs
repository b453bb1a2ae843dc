//! R18, update: moves the pins of the selected targets, and of those that have to move with them (R19).

use std::collections::BTreeSet;

use plugin_sdk::{Cause, Direction, Now, Pin, Progress, Selection, Target};
use prodspec_model::AssetId;

use super::{
    Bug, Effects, Kernel, Record, Step, planted,
    state::{live::Live, targets::Targets},
};
use crate::record::TargetRecord;

/// Maximum number of ties that are named when a selection moves more targets than were selected.
const TIES: usize = 5;

impl Kernel {
    /// Moves the pins of the selected targets, as many as one step takes.
    pub(super) fn move_pins(&mut self, now: Now, selection: &Selection, out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let way = live.targets().on_the_way();
        let twice = planted(Bug::SelectTwice) && !live.is_going_back();
        let held = !live.is_going_back()
            && self
                .group
                .rollout_policy()
                .is_ok_and(|policy| policy.hold.is_some());
        let waits = |&place: &u32| {
            way.get(place as usize)
                .is_some_and(|target| target.is_waiting() || twice)
        };
        // Targets that did not settle go back at once: they are in flight towards the failed content.
        let unsettled = live.targets().unsettled().into_iter();
        let chosen = selection.now.iter().copied().chain(unsettled).filter(waits);
        let mut chosen: Vec<u32> = match planted(Bug::NotClosed) {
            true => chosen.collect(),
            false => {
                // Include targets that those in flight wait for: an earlier step may have left some out, or checks
                // have found them since. An operator's hold stops these too.
                let all = (0..).zip(way.iter()).filter(|_| !held);
                let under_way = all.filter(|(_, target)| target.is_under_way());
                let under_way = under_way.map(|(place, _)| place);
                let closed = live.targets().closed(chosen.chain(under_way).collect());
                closed.into_iter().filter(waits).collect()
            }
        };
        if chosen.is_empty() {
            return;
        }
        // The rest of an earlier step was described with that step.
        let rest = live.selecting.is_rest(selection);
        let drawn = drawn(live.targets(), &selection.now, &chosen).filter(|_| !rest);
        let more = chosen.len() > self.config.max_moves_per_step;
        chosen.truncate(self.config.max_moves_per_step);
        let mut step = Step::default();
        match live.targets().direction() {
            Direction::Forward => self.forward(now, &chosen, &mut step),
            Direction::Back => self.back(now, &chosen, &mut step),
        }
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.selecting.note_cut(more);
            if let Some(drawn) = drawn {
                live.note_drawn(at, drawn);
                step.records.push(live.record());
            }
        }
        out.steps.push(step);
    }

    fn forward(&mut self, now: Now, chosen: &[u32], step: &mut Step) {
        let at = self.clock.at(now);
        for &place in chosen {
            let place = place as usize;
            let Some(live) = &self.live else { return };
            let Some(asset) = live.targets().get(place).map(|target| target.asset.clone()) else {
                continue;
            };
            // A target that the group no longer governs is not moved.
            if !self.governs(self.group.latest(), &asset) {
                let Some(live) = &mut self.live else { return };
                live.set_progress(place, Progress::Updated { at });
                live.selecting.look_again(false);
                continue;
            }
            let cause = match live.is_emergency() {
                true => Cause::Emergency,
                false => Cause::Intent,
            };
            let newer = live.is_newer(&asset).then(|| self.group.latest().no());
            let goes = Pin::At(newer.unwrap_or(live.to().no()), cause);
            let modelled_only = self.is_modelled_only(live.contents(), &asset);
            let order = match modelled_only {
                true => live.targets().order() + 1,
                false => 0,
            };
            let row = TargetRecord {
                policy: self.group.policy().clone(),
                rollout: live.id(),
                to: newer,
                moved_at: live.watch.watched(at),
                updated_at: modelled_only.then(|| live.watch.watched(at)),
                order,
                was: self.was(live, &asset),
                back_at: None,
            };
            step.records
                .push(Record::Target(asset.clone(), Some(row.clone())));
            self.pin(now, &asset, goes, step);
            let Some(live) = &mut self.live else { return };
            live.targets_mut().set_row(place, row);
            if live.moves_at(now.wall) {
                step.records.push(live.record());
            }
            // R20: an asset that is only modelled counts as updated once pinned.
            let progress = match modelled_only {
                true => Progress::Updated { at },
                false => Progress::InFlight { since: at },
            };
            live.set_progress(place, progress);
            if modelled_only {
                live.selecting.look_again(false);
            }
        }
    }

    /// Returns where an asset goes back to: never to content with which an earlier rollout failed.
    fn was(&self, live: &Live, asset: &AssetId) -> Pin {
        let inherited = live.inherited().get(asset).map(|row| row.was);
        inherited.unwrap_or_else(|| self.pins.of(asset))
    }
}

/// Describes why targets move that were not selected, and what ties them to those that were, or that are under way:
/// `1 wanted, 5 moved, tied by edges or checks of ...`. `None`: only selected targets move, or the rollout goes back.
fn drawn(targets: &Targets, selected: &[u32], moves: &[u32]) -> Option<String> {
    let (wanted, drawn): (Vec<u32>, Vec<u32>) =
        moves.iter().partition(|place| selected.contains(place));
    if targets.direction() == Direction::Back || drawn.is_empty() {
        return None;
    }
    let under_way = |place: u32| {
        let target = targets.get(place as usize);
        target.is_some_and(Target::is_under_way)
    };
    let takes = |place: u32| moves.binary_search(&place).is_ok() || under_way(place);
    let ties = targets.closure().ties(takes, drawn.iter().copied());
    let before = ties.iter().map(|(taker, _)| *taker);
    let before: BTreeSet<u32> = before.filter(|taker| under_way(*taker)).collect();
    let name = |place: u32| targets.get(place as usize).map(|it| &it.asset);
    let named =
        |(taker, place): &(u32, u32)| Some(format!("`{}` and `{}`", name(*taker)?, name(*place)?));
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
