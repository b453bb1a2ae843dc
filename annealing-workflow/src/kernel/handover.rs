//! The orderly end of an owner: calls in flight are waited for, and the rest is handed over to the next one.

use plugin_sdk::Now;

use super::{
    Lane,
    event::{Call, Effects},
    state::{Phase, StepId},
};
use crate::record::{Entry, What};

impl Lane {
    /// Lets no call begin any more. The attempts whose calls have not been made are taken back.
    pub(super) fn begin_drain(&mut self, now: Now) {
        self.draining = true;
        let held = self.held.iter().filter_map(|(_, call, made)| {
            let runs = matches!(made, Call::Run(..));
            self.calls.get(call).copied().filter(|_| runs)
        });
        for id in held.collect::<Vec<_>>() {
            self.take_back(now, id);
        }
    }

    /// Whether the owner ends and no call of a function or a probe is in flight.
    pub(crate) fn is_drained(&self) -> bool {
        self.draining && self.running == 0
    }

    /// Number of calls of functions and probes in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.running
    }

    /// Notes that the calls in flight are handed over. Their answers do not count any more.
    pub(super) fn hand_over(&mut self, now: Now, out: &mut Effects) {
        let calling = |id: &StepId| {
            let phase = self.step_of(*id).map(|step| &step.phase);
            matches!(phase, Some(Phase::Calling(_)))
        };
        let open: Vec<_> = self.calls.iter().map(|(no, id)| (*no, *id)).collect();
        let open: Vec<_> = open.into_iter().filter(|(_, id)| calling(id)).collect();
        for (call, id) in open {
            self.abandon(call, out);
            let Some((alarm, attempt)) = self
                .step_of(id)
                .map(|step| (step.alarm.time(), step.attempt))
            else {
                continue;
            };
            self.enter(now, id, Phase::HandedOver, alarm);
            self.changed(id);
            let execution = self.live.get(&id.execution);
            let machine = execution.map(|it| it.machine_name(id.machine).clone());
            let what = What::HandedOver { attempt };
            let at = now.wall;
            self.log
                .entry(id.execution)
                .or_default()
                .push(Entry { at, machine, what });
        }
        out.urgent = true;
    }
}
