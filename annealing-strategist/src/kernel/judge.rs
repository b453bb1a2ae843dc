//! R21, validate: looks at the updated part's health again and again, and takes the verdicts in.

use jiff::Timestamp;
use plugin_sdk::{
    Finding, Health, HealthRequest, IncarnationReader, Judgement, Now, Progress, Target,
};
use prodspec_model::{AssetId, addons::DependsOn, rollout::FirstTurnup};

use super::{Bug, Call, Effects, Kernel, Record, Step, live::Live, verdict::reasons};

impl Kernel {
    /// Asks about health, when it is time.
    pub(super) fn look_at_health(&mut self, now: Now, out: &mut Effects) {
        let validated = self.is_validated();
        let Some(live) = &mut self.live else { return };
        if !validated {
            live.judge_at = None;
            return;
        }
        if live.judging.is_some() {
            return;
        }
        match live.judge_at {
            // The first look is as far from the first move as looks are from each other.
            None => live.judge_at = Some(now.mono + self.config.validate_every),
            Some(at) if at <= now.mono => {
                let at = self.clock.at(now);
                let call = self.call();
                let Some(request) = self.health_request(now) else {
                    return;
                };
                if let Some(live) = &mut self.live {
                    live.judging = Some((call, now));
                }
                out.calls.push(Call::Judge(call, at, Box::new(request)));
            }
            Some(_) => {}
        }
    }

    /// Whether there is something whose health matters.
    fn is_validated(&self) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        let gradual = || {
            let policy = self.policy().unwrap_or_default();
            policy.first_turnup == FirstTurnup::Gradual
        };
        live.is_watched() && live.has_begun() && (live.from.is_some() || gradual())
    }

    fn health_request(&self, now: Now) -> Option<HealthRequest> {
        let live = self.live.as_ref()?;
        let settled = live.targets.iter().filter_map(plugin_sdk::Target::settled);
        let since_of = |progress| match progress {
            Progress::InFlight { since } | Progress::Drifted { since } => Some(since),
            _ => None,
        };
        let first = live.targets.iter().filter_map(|t| since_of(t.progress));
        let since = settled.max().or_else(|| first.min())?;
        let moved = live.targets.iter().filter(|target| !target.is_waiting());
        let (updated, under_way): (Vec<&Target>, Vec<&Target>) =
            moved.partition(|target| target.settled().is_some());
        let ids = |targets: Vec<&Target>| targets.iter().map(|it| it.asset.clone()).collect();
        Some(HealthRequest {
            rollout: live.rollout.id,
            from: live.from.as_ref().map(|from| from.id().clone()),
            to: live.to.id().clone(),
            stage: live.rollout.stage.clone(),
            neighbours: self.neighbours(live),
            updated: ids(updated),
            under_way: ids(under_way),
            // Production's signals know nothing of our clock.
            since: self.clock.on_the_wall(now, since),
            now: now.wall,
            reader: IncarnationReader::new(live.to.clone()),
        })
    }

    /// Who may be hurt by what was updated: the group's other assets in the same failure domains, and whoever an edge ties
    /// to what was updated.
    fn neighbours(&self, live: &Live) -> Vec<AssetId> {
        let domains = |asset: &AssetId| {
            live.to
                .asset(asset)
                .map(|a| crate::policy::target_of(&a).domains)
        };
        let moved = || live.targets.iter().filter(|target| !target.is_waiting());
        let hit: std::collections::BTreeSet<_> = moved()
            .flat_map(|target| target.domains.iter().cloned())
            .collect();
        let everywhere = moved().any(|target| target.domains.is_empty());
        let members = live.to.snapshot().referrers(self.policy.as_str());
        let near = members.into_iter().filter(|asset| {
            everywhere || domains(asset).is_some_and(|of| of.iter().any(|d| hit.contains(d)))
        });
        let tied = moved().flat_map(|target| {
            let asset = live.to.asset(&target.asset);
            let addon = asset.and_then(|asset| asset.addon::<DependsOn>().ok().flatten());
            let edges = addon.map(|addon| addon.edges).unwrap_or_default();
            let consumers = live.to.snapshot().referrers(target.asset.as_str());
            edges
                .into_iter()
                .map(|edge| edge.provider.id)
                .chain(consumers)
                .collect::<Vec<_>>()
        });
        let mut all: Vec<AssetId> = near.chain(tied).collect();
        all.sort();
        all.dedup();
        all.retain(|id| {
            let target = live.place(id).map(|place| &live.targets[place]);
            target.is_none_or(|target| target.is_waiting()) && *id != self.policy
        });
        all
    }

    pub(super) fn judged(
        &mut self,
        now: Now,
        call: u64,
        answer: Result<Health, String>,
        out: &mut Effects,
    ) {
        let every = self.config.validate_every;
        let ignored = self.planted(Bug::IgnoreUnhealthy);
        let Some(live) = &mut self.live else { return };
        let Some((_, when)) = live.judging.filter(|(asked, _)| *asked == call) else {
            return;
        };
        let (clock, asked) = (self.clock, self.clock.at(when));
        live.judging = None;
        live.judged = Some(asked);
        live.judge_at = Some(now.mono + every);
        if !live.is_watched() {
            return;
        }
        let of_ours = |mut health: Health| {
            health.as_of = clock.off_the_wall(when, health.as_of);
            health
        };
        let mut health = answer.map_or_else(|why| unknown(asked, why), of_ours);
        // A verdict is no younger than the question.
        health.as_of = health.as_of.min(asked);
        let at = self.clock.at(now);
        let bad = (health.judgement == Judgement::Unhealthy && !ignored).then(|| reasons(&health));
        let deadline = self.config.unknown_deadline;
        let news = live.rollout.hear(at, health, deadline);
        if news {
            let record = Record::Rollout(Box::new(live.rollout.clone()));
            out.steps.push(Step {
                records: vec![record],
                ..Step::default()
            });
        }
        live.look_again(bad.is_some());
        if let Some(why) = bad {
            self.fail(now, why, out);
        }
    }
}

fn unknown(as_of: Timestamp, why: String) -> Health {
    Health::found(
        as_of,
        Finding {
            validator: "validation".into(),
            judgement: Judgement::Unknown,
            summary: why,
            evidence: serde_json::Value::Null,
        },
    )
}
