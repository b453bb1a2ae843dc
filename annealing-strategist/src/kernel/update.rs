//! Select and update: asks which targets may move, moves them, and sees them settle.

use std::collections::BTreeSet;

use jiff::Timestamp;
use plugin_sdk::{
    Cause, Direction, IncarnationReader, Now, Pin, PinStatus, Progress, SelectRequest, Selection,
    SyncState, Target, Until,
};
use prodspec_model::{AssetId, Incarnation, rollout::RolloutPolicy};

use super::{
    Bug, Call, Effects, Kernel, Record, Step,
    state::{live::Live, targets::Targets},
};
use crate::record::TargetRecord;

/// Maximum number of ties that are named when a selection moves more targets than were selected.
const TIES: usize = 5;

impl Kernel {
    /// Advances the live rollout as far as it can go now.
    pub(super) fn progress(&mut self, now: Now, out: &mut Effects) {
        self.look_at_health(now, out);
        let ignored = self.planted(Bug::IgnorePause);
        let Some(live) = &mut self.live else { return };
        live.selecting.time_passed(now.mono);
        let moves = live.is_moving() || (ignored && !live.state().has_ended());
        if moves && live.selecting.take_due() {
            self.select(now, out);
        }
    }

    fn select(&mut self, now: Now, out: &mut Effects) {
        let request = match self.request(now) {
            Ok(request) => request,
            Err(why) => return self.hold(now, why, Until::Person),
        };
        let call = self.call();
        let urgent = request.policy.emergency.clone();
        let Some(live) = &mut self.live else { return };
        live.selecting.ask(call, now.mono);
        let is_news = live.hear_emergency(urgent.is_some());
        out.calls.push(Call::Select(call, Box::new(request)));
        if let Some(word) = urgent.filter(|_| is_news) {
            let what = format!("emergency declared by {}: {}", word.who, word.why);
            live.note(self.clock.at(now), what, None);
            self.hurry(now, out);
        }
    }

    /// In an emergency, targets in flight go on for the cause `Emergency`.
    fn hurry(&mut self, now: Now, out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let mut step = Step::default();
        step.records.push(live.record());
        let under_way = live
            .targets()
            .all()
            .iter()
            .filter(|target| target.is_under_way());
        let under_way: Vec<AssetId> = under_way.map(|target| target.asset.clone()).collect();
        let goes = Pin::At(live.to().no(), Cause::Emergency);
        for asset in under_way {
            self.pin(now, &asset, goes, &mut step);
        }
        out.steps.push(step);
    }

    /// Builds the request for a selection.
    pub(super) fn request(&self, now: Now) -> Result<SelectRequest, String> {
        let Some(live) = &self.live else {
            return Err("no rollout is under way".to_owned());
        };
        let policy = match self.group.rollout_policy() {
            // R22: a missing or unreadable policy does not block a rollback.
            Err(_) if live.is_going_back() => RolloutPolicy::default(),
            // The rollout governs no target any more: those that it has moved settle and are let go.
            Err(_) if self.is_abandoned(live) => RolloutPolicy::default(),
            policy => policy?,
        };
        let mut health = live.rollout().health.clone();
        if let Some(health) = &mut health {
            if self.planted(Bug::OldVerdict) {
                health.as_of = Timestamp::MAX;
            }
            if self.planted(Bug::UnknownIsHealthy)
                && health.judgement == plugin_sdk::Judgement::Unknown
            {
                (health.judgement, health.as_of) = (plugin_sdk::Judgement::Healthy, Timestamp::MAX);
            }
            if self.planted(Bug::IgnoreUnhealthy) {
                health.judgement = plugin_sdk::Judgement::Healthy;
            }
        }
        Ok(SelectRequest {
            rollout: live.id(),
            policy_asset: self.group.policy().clone(),
            policy: policy.into(),
            from: live.from().map(|from| from.id().clone()),
            to: live.to().id().clone(),
            direction: live.targets().direction(),
            targets: live.targets().on_the_way().clone(),
            health,
            promoted: live.rollout().promoted,
            now: self.clock.at(now),
            reader: IncarnationReader::new(live.to().clone()),
        })
    }

    /// Whether the policy is gone and the group governs none of the rollout's targets any more.
    fn is_abandoned(&self, live: &Live) -> bool {
        let mut targets = live.targets().all().iter();
        let gone = self.group.latest().asset(self.group.policy()).is_none();
        gone && !targets.any(|target| self.governs(self.group.latest(), &target.asset))
    }

    /// Selects nothing, for a reason of the kernel itself, and tries again later.
    pub(super) fn hold(&mut self, now: Now, why: String, until: Until) {
        let again = now.mono + self.config.select_again;
        if let Some(live) = &mut self.live {
            live.selecting.hold(why, until, again);
        }
    }

    pub(super) fn selected(
        &mut self,
        now: Now,
        call: u64,
        answer: Result<Selection, String>,
        out: &mut Effects,
    ) {
        let counts = self.planted(Bug::VoidSelection);
        let ignored = self.planted(Bug::IgnorePause);
        let early = self.planted(Bug::CompletesEarly);
        let (soon, never) = (self.planted(Bug::BackTooSoon), self.planted(Bug::NeverBack));
        let Some(live) = &mut self.live else { return };
        let Some(void) = live.selecting.answered(call) else {
            return;
        };
        if (void && !counts && !ignored) || !(live.is_moving() || ignored) {
            live.selecting.look_again(false);
            return;
        }
        match answer {
            Ok(selection) => {
                self.move_pins(now, &selection, out);
                let going_back = self.live.as_ref().is_some_and(|live| live.is_going_back());
                let done = |live: &Live| live.targets().all_settled();
                let done = self.live.as_ref().is_some_and(done);
                let early = match going_back {
                    true => soon,
                    false => early,
                };
                let open = match going_back {
                    true => !never,
                    false => selection.waits.is_empty(),
                };
                if (done || early) && open {
                    self.arrived(now, out);
                } else {
                    self.wait_for(now, selection, out);
                }
            }
            Err(why) => self.hold(now, format!("the selection failed: {why}"), Until::Retry),
        }
    }

    /// Moves the pins of the selected targets, as many as one step takes.
    pub(super) fn move_pins(&mut self, now: Now, selection: &Selection, out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let way = live.targets().on_the_way();
        let twice = self.planted(Bug::SelectTwice) && !live.is_going_back();
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
        let mut chosen: Vec<u32> = match self.planted(Bug::NotClosed) {
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
            let goes = Pin::At(live.to().no(), cause);
            let modelled_only = self.is_modelled_only(live.to(), &asset);
            let order = match modelled_only {
                true => live.targets().order() + 1,
                false => 0,
            };
            let row = TargetRecord {
                policy: self.group.policy().clone(),
                rollout: live.id(),
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

    /// Takes in a late report from before an asset's pin moved forward: the asset goes back to the pin reported.
    pub(super) fn was_there(&mut self, asset: &AssetId, pin: Pin, out: &mut Effects) {
        let expected = self.pins.next_move(asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.targets().place(asset) else {
            return;
        };
        if !expected.is_some_and(|pin| pin.is_at(live.to().no()))
            || live.inherited().contains_key(asset)
        {
            return;
        }
        let back = live.targets().back_place(asset);
        let Some(row) = live.targets_mut().set_was(place, pin) else {
            return;
        };
        let record = Record::Target(asset.clone(), Some(row));
        if let Some(back) = back {
            live.set_back(back, Progress::Waiting);
            live.selecting.look_again(true);
        }
        out.steps.push(record.into());
    }

    /// Whether an asset is only modelled, which means that it is not enforced.
    pub(super) fn is_modelled_only(&self, at: &Incarnation, asset: &AssetId) -> bool {
        let there = at.asset(asset);
        there.is_some_and(|asset| self.types.is_modelled_only(asset.type_str()))
    }

    /// Remembers the reasons to wait, and when to look again.
    pub(super) fn wait_for(&mut self, now: Now, selection: Selection, out: &mut Effects) {
        let clock = self.clock;
        let Some(live) = &mut self.live else { return };
        for wait in &selection.waits {
            match wait.until {
                Until::Time(time) => {
                    let at = clock.when(now, time);
                    live.selecting.look_at(at);
                }
                // A check since then found nothing newer, so that another one at once is useless.
                Until::Healthy { since } if live.judging.is_newer(since) => {
                    let at = clock.when(now, since);
                    live.judging.check_at(at);
                }
                _ => {}
            }
        }
        if live.enter_stage(clock.at(now), selection.stage.as_deref()) {
            out.steps.push(live.record().into());
        }
        live.selecting.keep(selection);
    }

    /// Takes in the pin status of a target.
    pub(super) fn stood(
        &mut self,
        now: Now,
        asset: &AssetId,
        pin_status: &PinStatus,
        out: &mut Effects,
    ) {
        let any = self.planted(Bug::UpdatedAtAnyPin);
        if pin_status.pin == Pin::Default {
            return self.left(now, asset, out);
        }
        let Some(live) = &mut self.live else { return };
        if live.is_going_back() {
            return self.stood_back(now, asset, pin_status);
        }
        let Some(place) = live.targets().place(asset) else {
            return;
        };
        let here = any || pin_status.pin.is_at(live.to().no());
        if live.targets().row(place).is_none() {
            return;
        }
        // Another actor has moved the pin: the target no longer has the new content.
        if !here {
            return self.drifted(now, place);
        }
        match &pin_status.state {
            SyncState::InSync { .. } => self.settled(now, place, out),
            SyncState::OutOfSync { waits_for, .. } => {
                self.drifted(now, place);
                self.takes(place, waits_for);
            }
            SyncState::Unhealthy { why } if live.is_watched() => {
                let why = format!("`{asset}` is unhealthy: {why}");
                match self.live.as_ref().is_some_and(|live| self.is_first(live)) {
                    true => self.leave_behind(now, place, why, out),
                    false => self.fail(now, why, out),
                }
            }
            _ => {}
        }
    }

    /// Enforcement has removed the pin of a target that had moved. If the target left its group, the rollout no
    /// longer waits for it. If another actor removed the pin, the target waits for its turn again.
    fn left(&mut self, now: Now, asset: &AssetId, out: &mut Effects) {
        let at = self.clock.at(now);
        let ours = self.governs(self.group.latest(), asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.targets().place(asset) else {
            return;
        };
        if !live.targets_mut().clear_row(place) {
            return;
        }
        if let Some(back) = live.targets().back_place(asset) {
            live.set_back(back, Progress::Updated { at });
        }
        let progress = match ours && !live.is_going_back() {
            true => Progress::Waiting,
            false => Progress::Updated { at },
        };
        live.set_progress(place, progress);
        live.look_soon(now.mono, false);
        out.steps.push(Record::Target(asset.clone(), None).into());
    }

    /// A target that had left the group is back in it, and waits for its turn again.
    pub(super) fn came_back(&mut self, assets: &[AssetId]) {
        for asset in assets {
            let ours = self.names(self.group.latest(), asset);
            let Some(live) = self.live.as_mut().filter(|_| ours) else {
                continue;
            };
            live.comes_back(asset);
            if let Some(place) = live.targets().place(asset)
                && is_updated(live, place)
                && live.targets().row(place).is_none()
                && !live.is_going_back()
            {
                live.set_progress(place, Progress::Waiting);
                live.selecting.look_again(false);
            }
        }
    }

    /// R20: the target is in sync, found by a diff that started after its pin moved. After a drift its bake starts
    /// over.
    fn settled(&mut self, now: Now, place: usize, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        let target = live.targets().get(place);
        let Some(target) = target.filter(|target| target.is_under_way()) else {
            return;
        };
        let asset = target.asset.clone();
        let row = live.settle(place, at);
        live.look_soon(now.mono, false);
        if let Some(row) = row {
            out.steps.push(Record::Target(asset, Some(row)).into());
        }
    }

    /// R19: checks report that the target at `place` waits for `others`. Those of the rollout move along.
    pub(super) fn takes(&mut self, place: usize, others: &[AssetId]) {
        let Some(live) = &mut self.live else { return };
        for other in others {
            let other = live.targets().place(other);
            if other.is_some_and(|other| live.targets_mut().tie(place, other)) {
                live.selecting.look_again(false);
            }
        }
    }

    fn drifted(&mut self, now: Now, place: usize) {
        let since = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        if is_updated(live, place) {
            live.set_progress(place, Progress::Drifted { since });
            live.look_soon(now.mono, true);
        }
    }
}

fn is_updated(live: &Live, place: usize) -> bool {
    let target = live.targets().get(place);
    target.is_some_and(|target| target.settled().is_some())
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
