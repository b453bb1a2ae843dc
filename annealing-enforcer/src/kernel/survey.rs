//! Surveys: one observation of each consumer of a shared capacity that has no recent finding (R16).
//!
//! After a takeover the checks of all consumers of one provider ask for its usage at once. If each check observed all
//! other consumers, the number of observations would grow with the square of the number of consumers. Instead, the
//! first question starts a survey, later questions join it, and all are answered when it ends.

use std::sync::Arc;

use plugin_sdk::{Now, Shared};
use prodspec_model::AssetId;

use super::{Kernel, event::Effects, state::observations::Asker};

impl Kernel {
    /// Answers a check's question about the use of `shared` by all consumers except `but`. If findings are missing, the
    /// answer waits for a survey. Consumers whose observation fails stay unknown in the answer.
    pub(super) fn ask_usage(
        &mut self,
        now: Now,
        ticket: u64,
        shared: Shared,
        but: AssetId,
        out: &mut Effects,
    ) {
        let usage = self.usage(now, &shared, &but);
        if usage.unknown.is_empty() {
            out.usages.push((ticket, usage));
            return;
        }
        let Err((ticket, but)) = self.observations.join_survey(&shared, (ticket, but)) else {
            return;
        };
        let slots = self.unknown_consumers(now, &shared, &but);
        let shared = Arc::new(shared);
        // One more than the slots: answers that come at once must not end the survey before all have started.
        let left = slots.len() + 1;
        self.observations
            .start_survey(shared.clone(), left, (ticket, but));
        for slot in slots {
            self.observe_slot(now, Asker::Survey(shared.clone()), slot, out);
        }
        self.surveyed(now, &shared, out);
    }

    /// Notes that one observation of a survey has ended, with or without a finding. After the last one, answers all
    /// questions.
    pub(super) fn surveyed(&mut self, now: Now, shared: &Arc<Shared>, out: &mut Effects) {
        for (ticket, but) in self.observations.surveyed(shared) {
            let usage = self.usage(now, shared, &but);
            out.usages.push((ticket, usage));
        }
    }
}
