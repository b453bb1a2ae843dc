//! Ends a rollout: all targets are updated, healthy and baked, or all are back.

use std::{collections::BTreeSet, time::Duration};

use plugin_sdk::{GroupHead, Now, SelectRequest, Selection, Until};
use prodspec_model::AssetId;

use super::{Bug, Effects, Kernel, Record, Step, planted, state::live::Live};
use crate::{
    policy::{Gate, gate_of_all},
    record::State,
};

impl Kernel {
    /// All targets are settled: ends the rollout if its last gate is open.
    pub(super) fn arrived(&mut self, now: Now, out: &mut Effects) {
        if self.live.as_ref().is_some_and(|live| live.is_going_back()) {
            return self.went_back(now, out);
        }
        match self.request(now) {
            Ok(request) => match self.last_gate(&request) {
                Gate::Open => match self.expects() {
                    Some(wait) => {
                        let whole = Selection::default().waiting(wait.why, wait.until);
                        self.wait_for(now, whole, out);
                    }
                    None => self.complete(now, out),
                },
                Gate::Shut(wait) => {
                    let whole = Selection::default()
                        .at_stage("the whole")
                        .waiting(wait.why, wait.until);
                    self.wait_for(now, whole, out);
                }
            },
            Err(why) => self.hold(now, why, Until::Person),
        }
    }

    fn last_gate(&self, request: &SelectRequest) -> Gate {
        if !request.is_cautious() || planted(Bug::CompletesEarly) {
            return Gate::Open;
        }
        gate_of_all(request, Duration::from_secs(request.policy.bake_secs))
    }

    /// Completes the rollout: all targets are updated, healthy and baked.
    fn complete(&mut self, now: Now, out: &mut Effects) {
        let at = self.clock.at(now);
        let Some(mut live) = self.live.take() else {
            return;
        };
        live.end(at, State::Completed);
        live.keep_verdict();
        let mut step = Step::default();
        step.records.push(live.record());
        let is_target = |asset: &AssetId| live.targets().place(asset).is_some();
        let records = &mut step.records;
        let rest = match planted(Bug::AnyEditReleases) {
            true => self.quarantine.release(|_| true, records),
            false => self.quarantine.mend(live.contents(), is_target, records),
        };
        self.pending.add(rest);
        self.release(&live, &mut step);
        let head = GroupHead::At(live.to().clone());
        step.head = Some(head.clone());
        self.group.move_head(head);
        self.drop_pins(live.to(), &mut step);
        out.steps.push(step);
        self.let_others_go(out);
        self.ended(live, out);
    }

    /// Forgets the records of the rollout's targets: it no longer holds them.
    pub(super) fn release(&self, live: &Live, step: &mut Step) {
        let all: BTreeSet<&AssetId> = live.moved().map(|(asset, _)| asset).collect();
        let forget = |asset: &AssetId| Record::Target(asset.clone(), None);
        step.records.extend(all.into_iter().map(forget));
    }

    /// Ends the live rollout, so that the next one may begin.
    pub(super) fn ended(&mut self, live: Live, out: &mut Effects) {
        let released: Vec<AssetId> = live
            .targets()
            .all()
            .iter()
            .map(|t| t.asset.clone())
            .collect();
        self.let_go(&released, out);
        out.released.extend(released);
        self.past.keep(live.into_rollout());
        self.pending.look();
    }
}
