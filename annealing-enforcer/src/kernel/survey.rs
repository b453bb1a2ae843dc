//! Surveys: one observation of each consumer of a shared capacity that has no recent finding (R16).
//!
//! After a takeover the checks of all consumers of one provider ask for its usage at once. If each check observed all
//! other consumers, the number of observations would grow with the square of the number of consumers. Instead, the
//! first question starts a survey, later questions join it, and all are answered when it ends.

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::{Now, Shared};
use prodspec_model::AssetId;

use super::{Kernel, event::Effects, observe::Asker};

/// The surveys under way, by capacity.
pub(super) type Surveys = BTreeMap<Arc<Shared>, Survey>;

/// One survey under way.
#[derive(Debug)]
pub(super) struct Survey {
    /// Number of observations that have not ended.
    left: usize,
    /// Tickets of the questions to answer, each with the asset whose own use is left out.
    tickets: Vec<(u64, AssetId)>,
}

impl Kernel {
    /// Answers a check's question about the use of `shared` by all consumers except `but`. If findings are missing, the
    /// answer waits for a survey. Consumers whose observation fails stay unknown in the answer.
    pub(super) fn ask_usage(
        &mut self,
        now: Now,
        (ticket, shared, but): (u64, Shared, AssetId),
        out: &mut Effects,
    ) {
        let usage = self.usage(now, &shared, &but);
        if usage.unknown.is_empty() {
            out.usages.push((ticket, usage));
            return;
        }
        if let Some(survey) = self.observations.surveys.get_mut(&shared) {
            survey.tickets.push((ticket, but));
            return;
        }
        let slots = self.unknown_consumers(now, &shared, &but);
        let shared = Arc::new(shared);
        let survey = Survey {
            // One more than the slots: answers that come at once must not end the survey before all have started.
            left: slots.len() + 1,
            tickets: vec![(ticket, but)],
        };
        self.observations.surveys.insert(shared.clone(), survey);
        for slot in slots {
            self.observe_slot(now, Asker::Survey(shared.clone()), slot, out);
        }
        self.surveyed(now, &shared, out);
    }

    /// Notes that one observation of a survey has ended, with or without a finding. After the last one, answers all
    /// questions.
    pub(super) fn surveyed(&mut self, now: Now, shared: &Arc<Shared>, out: &mut Effects) {
        let Some(survey) = self.observations.surveys.get_mut(shared) else {
            return;
        };
        survey.left -= 1;
        if survey.left > 0 {
            return;
        }
        let ended = self.observations.surveys.remove(shared);
        for (ticket, but) in ended.into_iter().flat_map(|survey| survey.tickets) {
            let usage = self.usage(now, shared, &but);
            out.usages.push((ticket, usage));
        }
    }
}
