//! R21, validate: checks the health of the updated targets repeatedly, and takes in the verdicts.

use jiff::Timestamp;
use plugin_sdk::{Finding, Health, Judgement, Now};
use prodspec_model::rollout::FirstTurnup;

use super::{Bug, Call, Effects, Kernel, planted, state::verdict::reasons};

impl Kernel {
    /// Asks for a verdict when it is time.
    pub(super) fn look_at_health(&mut self, now: Now, out: &mut Effects) {
        let validated = self.is_validated();
        let Some(live) = &mut self.live else { return };
        if !validated {
            live.judging.rest();
            return;
        }
        if !live.judging.is_due(now.mono, self.config.validate_every) {
            return;
        }
        let call = self.call();
        let Some(request) = self.health_request(now) else {
            return;
        };
        if let Some(live) = &mut self.live {
            live.judging.ask(call, now);
        }
        out.calls.push(Call::Judge(call, Box::new(request)));
    }

    /// Whether the live rollout has targets whose health has to be checked.
    fn is_validated(&self) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        let gradual = || {
            let policy = self.group.rollout_policy().unwrap_or_default();
            policy.first_turnup == FirstTurnup::Gradual
        };
        live.is_watched() && live.targets().has_begun() && (live.from().is_some() || gradual())
    }

    /// R102: judges anew, by evidence from now on. Another change that had moved targets of this one is back.
    pub(super) fn other_is_back(&mut self, now: Now, out: &mut Effects) {
        if let Some(live) = &mut self.live {
            live.evidence_counts_from(now.wall);
            out.steps.push(live.record().into());
        }
    }

    pub(super) fn judged(
        &mut self,
        now: Now,
        call: u64,
        answer: Result<Health, String>,
        out: &mut Effects,
    ) {
        let every = self.config.validate_every;
        let ignored = planted(Bug::IgnoreUnhealthy);
        let Some(live) = &mut self.live else { return };
        let Some(when) = live.judging.answered(call) else {
            return;
        };
        let (clock, asked) = (self.clock, self.clock.at(when));
        let awaited = live.selecting.awaited(asked);
        live.judging.plan(now.mono, asked, awaited, every);
        if !live.is_watched() {
            return;
        }
        let of_ours = |mut health: Health| {
            health.as_of = clock.from_wall(when, health.as_of);
            health
        };
        let mut health = answer.map_or_else(|why| unknown(asked, why), of_ours);
        // A verdict is no younger than the request for it.
        health.as_of = health.as_of.min(asked);
        let at = self.clock.at(now);
        let bad = (health.judgement == Judgement::Unhealthy && !ignored).then(|| reasons(&health));
        let deadline = self.config.unknown_deadline;
        let news = live.hear(at, health, deadline);
        if news {
            out.steps.push(live.record().into());
        }
        live.selecting.look_again(bad.is_some());
        if let Some(why) = bad {
            self.fail(now, why, out);
        }
    }
}

fn unknown(as_of: Timestamp, why: String) -> Health {
    Health::found(
        as_of,
        Finding::new(Judgement::Unknown, why).validator("validation"),
    )
}
