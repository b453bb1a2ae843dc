//! R18, select: asks the selection stack which targets may move now, and takes in its answers.

use jiff::Timestamp;
use plugin_sdk::{Cause, IncarnationReader, Now, Pin, SelectRequest, Selection, Target, Until};
use prodspec_model::rollout::{Emergency, RolloutPolicy};

use super::{Bug, Call, Effects, Kernel, Step, planted, state::live::Live};
use crate::line::StoppedLine;

impl Kernel {
    /// Advances the live rollout as far as it can go now.
    pub(super) fn progress(&mut self, now: Now, out: &mut Effects) {
        self.look_at_health(now, out);
        let ignored = planted(Bug::IgnorePause);
        let Some(live) = &mut self.live else { return };
        live.selecting.time_passed(now.mono);
        let moves = live.is_moving() || (ignored && !live.state().has_ended());
        if moves && live.selecting.take_due() {
            self.select(now, out);
        }
    }

    /// The line was stopped, or goes on. The answer of a selection under way does not count.
    pub(super) fn line_changed(&mut self, now: Now, line: Option<StoppedLine>) {
        let on_this_clock = |line: StoppedLine| StoppedLine {
            until: self.clock.from_wall(now, line.until),
            ..line
        };
        self.group.set_line(line.map(on_this_clock));
        if let Some(live) = &mut self.live {
            live.selecting.look_again(true);
        }
    }

    /// The stop of the line if it holds for the live rollout.
    pub(super) fn stopped_line(&self, now: Now) -> Option<&StoppedLine> {
        let forward = self.live.as_ref().is_some_and(|live| !live.is_going_back());
        let line = self.group.stopped_line(self.clock.at(now));
        line.filter(|_| forward)
    }

    /// Selects nothing on the way forward while the line is stopped. Returns whether it is.
    fn stands_still(&mut self, now: Now) -> bool {
        let Some(line) = self.stopped_line(now) else {
            return false;
        };
        let (why, until) = (line.to_string(), line.until);
        self.hold(now, why, Until::Time(until));
        if let Some(live) = &mut self.live {
            live.selecting.look_at(self.clock.when(now, until));
        }
        true
    }

    fn select(&mut self, now: Now, out: &mut Effects) {
        let mut request = match self.request(now) {
            Ok(request) => request,
            Err(why) => return self.hold(now, why, Until::Person),
        };
        self.hear_emergency(now, request.policy.emergency.as_ref(), out);
        if self.stands_still(now) && !planted(Bug::IgnoreLine) {
            return;
        }
        request.not_now = std::mem::take(&mut self.not_now);
        self.asked_apart = !request.not_now.is_empty();
        let call = self.call();
        if let Some(live) = &mut self.live {
            live.selecting.ask(call, now.mono);
            out.calls.push(Call::Select(call, Box::new(request)));
        }
    }

    fn hear_emergency(&mut self, now: Now, urgent: Option<&Emergency>, out: &mut Effects) {
        let Some(live) = &mut self.live else { return };
        let is_news = live.hear_emergency(urgent.is_some());
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
        let goes = |target: &Target| live.goal(&target.asset);
        let under_way: Vec<_> = under_way
            .map(|target| (target.asset.clone(), goes(target)))
            .collect();
        for (asset, no) in under_way {
            self.pin(now, &asset, Pin::At(no, Cause::Emergency), &mut step);
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
            if planted(Bug::OldVerdict) {
                health.as_of = Timestamp::MAX;
            }
            if planted(Bug::UnknownIsHealthy) && health.judgement == plugin_sdk::Judgement::Unknown
            {
                (health.judgement, health.as_of) = (plugin_sdk::Judgement::Healthy, Timestamp::MAX);
            }
            if planted(Bug::IgnoreUnhealthy) {
                health.judgement = plugin_sdk::Judgement::Healthy;
            }
        }
        let (asset, to) = (self.group.policy().clone(), live.to().id().clone());
        let (targets, at) = (live.targets().on_the_way().clone(), self.clock.at(now));
        let mut request = SelectRequest::new(live.id(), asset, to, targets, at)
            .policy(policy)
            .from(live.from().map(|from| from.id().clone()))
            .direction(live.targets().direction());
        request.health = health;
        request.promoted = live.rollout().promoted;
        request.reader = IncarnationReader::new(live.contents().clone());
        Ok(request)
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
        self.wanted.clear();
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
        let counts = planted(Bug::VoidSelection);
        let ignored = planted(Bug::IgnorePause);
        let early = planted(Bug::CompletesEarly);
        let (soon, never) = (planted(Bug::BackTooSoon), planted(Bug::NeverBack));
        let Some(live) = &mut self.live else { return };
        let Some(void) = live.selecting.answered(call) else {
            return;
        };
        if (void && !counts && !ignored) || !(live.is_moving() || ignored) {
            live.selecting.look_again(false);
            return;
        }
        match answer {
            Ok(mut selection) => {
                if self.keep_apart(now, &mut selection) {
                    return self.select(now, out);
                }
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
                Until::Checks { again, .. } => {
                    let at = clock.when(now, again);
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
}
