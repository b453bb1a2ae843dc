//! Select and update: asks which targets may move, moves them, and sees them settle.

use jiff::Timestamp;
use plugin_sdk::{
    Cause, Direction, IncarnationReader, Now, Pin, PinStatus, Progress, SelectRequest, Selection,
    SyncState, Until,
};
use prodspec_model::{AssetId, Incarnation, rollout::RolloutPolicy};

use super::{Bug, Call, Effects, Kernel, Record, Step, live::Live, moving::Moving};
use crate::record::TargetRecord;

impl Kernel {
    /// Advances the live rollout as far as it can go now.
    pub(super) fn progress(&mut self, now: Now, out: &mut Effects) {
        self.look_at_health(now, out);
        let ignored = self.planted(Bug::IgnorePause);
        let Some(live) = &mut self.live else { return };
        if live.wake.is_some_and(|wake| wake <= now.mono) {
            live.wake = None;
            live.look_again(false);
        }
        let moves = live.is_moving() || (ignored && !live.rollout.state.has_ended());
        if moves && live.selecting.is_none() && std::mem::take(&mut live.again) {
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
        live.selecting = Some(call);
        live.selected_at = Some(now.mono);
        live.emergency &= urgent.is_some();
        out.calls.push(Call::Select(call, Box::new(request)));
        if let Some(word) = urgent.filter(|_| !live.emergency && live.back.is_none()) {
            live.emergency = true;
            let what = format!("emergency declared by {}: {}", word.who, word.why);
            live.rollout.note(self.clock.at(now), what, None);
            self.hurry(now, out);
        }
    }

    /// In an emergency, targets in flight go on for the cause `Emergency`.
    fn hurry(&mut self, now: Now, out: &mut Effects) {
        let Some(live) = &self.live else { return };
        let mut step = Step::default();
        step.records.push(live.rollout.record());
        let under_way = live.targets.iter().filter(|target| target.is_under_way());
        let under_way: Vec<AssetId> = under_way.map(|target| target.asset.clone()).collect();
        let goes = Pin::At(live.to.no(), Cause::Emergency);
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
        let policy = match self.policy() {
            // R22: a missing or unreadable policy does not block a rollback.
            Err(_) if live.back.is_some() => RolloutPolicy::default(),
            // The rollout governs no target any more: those that it has moved settle and are let go.
            Err(_) if self.is_abandoned(live) => RolloutPolicy::default(),
            policy => policy?,
        };
        let mut health = live.rollout.health.clone();
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
            rollout: live.rollout.id,
            policy_asset: self.policy.clone(),
            policy: policy.into(),
            from: live.from.as_ref().map(|from| from.id().clone()),
            to: live.to.id().clone(),
            direction: live.direction(),
            targets: live.on_the_way().clone(),
            health,
            promoted: live.rollout.promoted,
            now: self.clock.at(now),
            reader: IncarnationReader::new(live.to.clone()),
        })
    }

    /// Whether the policy is gone and the group governs none of the rollout's targets any more.
    fn is_abandoned(&self, live: &Live) -> bool {
        let mut targets = live.targets.iter();
        let gone = self.latest.asset(&self.policy).is_none();
        gone && !targets.any(|target| self.governs(&self.latest, &target.asset))
    }

    /// Selects nothing, for a reason of the kernel itself, and tries again later.
    pub(super) fn hold(&mut self, now: Now, why: String, until: Until) {
        let again = now.mono + self.config.select_again;
        if let Some(live) = &mut self.live {
            live.selection = Selection::default().waiting(why, until);
            live.wake = Some(again);
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
        let Some(live) = self.live.as_mut().filter(|l| l.selecting == Some(call)) else {
            return;
        };
        live.selecting = None;
        let void = std::mem::take(&mut live.void);
        if (void && !counts && !ignored) || !(live.is_moving() || ignored) {
            live.again = true;
            return;
        }
        match answer {
            Ok(selection) => {
                self.move_pins(now, &selection, out);
                let going_back = self.live.as_ref().is_some_and(|live| live.back.is_some());
                let done = self.live.as_ref().is_some_and(Live::all_settled);
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
        let way = live.on_the_way();
        let twice = self.planted(Bug::SelectTwice) && live.back.is_none();
        let held = live.back.is_none() && self.policy().is_ok_and(|policy| policy.hold.is_some());
        let waits = |&place: &u32| {
            way.get(place as usize)
                .is_some_and(|target| target.is_waiting() || twice)
        };
        // Targets that did not settle go back at once: they are in flight towards the failed content.
        let unsettled = live.unsettled().into_iter();
        let chosen = selection.now.iter().copied().chain(unsettled).filter(waits);
        let mut chosen: Vec<u32> = match self.planted(Bug::NotClosed) {
            true => chosen.collect(),
            false => {
                // Include targets that those in flight wait for: an earlier step may have left some out, or checks
                // have found them since. An operator's hold stops these too.
                let all = (0..).zip(way.iter()).filter(|_| !held);
                let under_way = all.filter(|(_, target)| target.is_under_way());
                let under_way = under_way.map(|(place, _)| place);
                let closed = live.closed(chosen.chain(under_way).collect());
                closed.into_iter().filter(waits).collect()
            }
        };
        if chosen.is_empty() {
            return;
        }
        // The rest of an earlier step was described with that step.
        let rest = live.cut && selection.now.is_empty();
        let drawn = live.drawn(&selection.now, &chosen).filter(|_| !rest);
        let more = chosen.len() > self.config.max_moves_per_step;
        chosen.truncate(self.config.max_moves_per_step);
        let mut step = Step::default();
        match live.direction() {
            Direction::Forward => self.forward(now, &chosen, &mut step),
            Direction::Back => self.back(now, &chosen, &mut step),
        }
        let at = self.clock.at(now);
        if let Some(live) = &mut self.live {
            live.again |= more;
            live.cut = more;
            if let Some(drawn) = drawn {
                live.rollout.note(at, drawn.clone(), None);
                live.rollout.drawn = Some(drawn);
                step.records.push(live.rollout.record());
            }
        }
        out.steps.push(step);
    }

    fn forward(&mut self, now: Now, chosen: &[u32], step: &mut Step) {
        let at = self.clock.at(now);
        for &place in chosen {
            let place = place as usize;
            let Some(live) = &self.live else { return };
            let Some(asset) = live.targets.get(place).map(|target| target.asset.clone()) else {
                continue;
            };
            // A target that the group no longer governs is not moved.
            if !self.governs(&self.latest, &asset) {
                let Some(live) = &mut self.live else { return };
                live.set_progress(place, Progress::Updated { at });
                live.again = true;
                continue;
            }
            let cause = match live.emergency {
                true => Cause::Emergency,
                false => Cause::Intent,
            };
            let goes = Pin::At(live.to.no(), cause);
            let modelled_only = self.is_modelled_only(&live.to, &asset);
            let order = match modelled_only {
                true => live.order + 1,
                false => 0,
            };
            let row = TargetRecord {
                policy: self.policy.clone(),
                rollout: live.rollout.id,
                moved_at: live.watched(at),
                updated_at: modelled_only.then(|| live.watched(at)),
                order,
                was: self.was(live, &asset),
                back_at: None,
            };
            step.records
                .push(Record::Target(asset.clone(), Some(row.clone())));
            self.pin(now, &asset, goes, step);
            let Some(live) = &mut self.live else { return };
            live.set_row(place, row);
            if live.rollout.moved_at.is_none() {
                live.rollout.moved_at = Some(now.wall);
                step.records.push(live.rollout.record());
            }
            // R20: an asset that is only modelled counts as updated once pinned.
            let progress = match modelled_only {
                true => Progress::Updated { at },
                false => Progress::InFlight { since: at },
            };
            live.set_progress(place, progress);
            live.again |= modelled_only;
        }
    }

    /// Returns where an asset goes back to: never to content with which an earlier rollout failed.
    fn was(&self, live: &Live, asset: &AssetId) -> Pin {
        let inherited = live.inherited.get(asset).map(|row| row.was);
        inherited.unwrap_or_else(|| self.pin_of(asset))
    }

    /// Takes in a late report from before an asset's pin moved forward: the asset goes back to the pin reported.
    pub(super) fn was_there(&mut self, asset: &AssetId, pin: Pin, out: &mut Effects) {
        let expected = self.expected.get(asset).and_then(Moving::next);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.place(asset) else {
            return;
        };
        if !expected.is_some_and(|pin| pin.is_at(live.to.no()))
            || live.inherited.contains_key(asset)
        {
            return;
        }
        let back = live.back_place(asset);
        let Some(row) = live.rows[place]
            .as_mut()
            .filter(|row| !row.was.same_place(&pin))
        else {
            return;
        };
        row.was = pin;
        let record = Record::Target(asset.clone(), Some(row.clone()));
        if let Some(back) = back {
            live.set_back(back, Progress::Waiting);
            live.look_again(true);
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
                    live.wake = Some(live.wake.map_or(at, |wake| wake.min(at)));
                }
                // A check since then found nothing newer, so that another one at once is useless.
                Until::Healthy { since } if live.judged.is_none_or(|at| at < since) => {
                    let at = clock.when(now, since);
                    live.judge_at = Some(live.judge_at.map_or(at, |judge| judge.min(at)));
                }
                _ => {}
            }
        }
        if selection.stage != live.rollout.stage {
            live.rollout.stage = selection.stage.clone();
            if let Some(stage) = &selection.stage {
                live.rollout.note(clock.at(now), stage.clone(), None);
            }
            out.steps.push(live.rollout.record().into());
        }
        live.selection = selection;
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
        if live.back.is_some() {
            return self.stood_back(now, asset, pin_status);
        }
        let Some(place) = live.place(asset) else {
            return;
        };
        let here = any || pin_status.pin.is_at(live.to.no());
        if live.rows[place].is_none() {
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
        let ours = self.governs(&self.latest, asset);
        let Some(live) = &mut self.live else { return };
        let Some(place) = live.place(asset) else {
            return;
        };
        if !live.clear_row(place) {
            return;
        }
        if let Some(back) = live.back_place(asset) {
            live.set_back(back, Progress::Updated { at });
        }
        let progress = match ours && live.back.is_none() {
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
            let ours = self.names(&self.latest, asset);
            let Some(live) = self.live.as_mut().filter(|_| ours) else {
                continue;
            };
            live.away.remove(asset);
            if let Some(place) = live.place(asset)
                && let Progress::Updated { .. } = live.targets[place].progress
                && live.rows[place].is_none()
                && live.back.is_none()
            {
                live.set_progress(place, Progress::Waiting);
                live.look_again(false);
            }
        }
    }

    /// R20: the target is in sync, found by a diff that started after its pin moved. After a drift its bake starts
    /// over.
    fn settled(&mut self, now: Now, place: usize, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        match live.targets[place].progress {
            Progress::InFlight { .. } | Progress::Drifted { .. } => {}
            _ => return,
        }
        let (order, watched) = (live.settle(place, at), live.watched(at));
        live.look_soon(now.mono, false);
        let Some(row) = live.rows[place].as_mut() else {
            return;
        };
        (row.updated_at, row.order) = (Some(watched), order);
        let record = Record::Target(live.targets[place].asset.clone(), Some(row.clone()));
        out.steps.push(record.into());
    }

    /// R19: checks report that the target at `place` waits for `others`. Those of the rollout move along.
    pub(super) fn takes(&mut self, place: usize, others: &[AssetId]) {
        let Some(live) = &mut self.live else { return };
        let back = live.back.is_some();
        for other in others {
            let Some(other) = live.place(other) else {
                continue;
            };
            let (taker, taken) = if back { (other, place) } else { (place, other) };
            live.again |= live.closure.add(taker as u32, taken as u32);
        }
    }

    fn drifted(&mut self, now: Now, place: usize) {
        let since = self.clock.at(now);
        let Some(live) = &mut self.live else { return };
        if let Progress::Updated { .. } = live.targets[place].progress {
            live.set_progress(place, Progress::Drifted { since });
            live.look_soon(now.mono, true);
        }
    }
}
