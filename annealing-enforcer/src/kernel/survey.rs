//! Surveys: one look at all consumers of a shared capacity about which nothing young is known (R16).
//!
//! After a takeover all consumers of one provider ask for its usage at once. If each of their checks observed all others,
//! that would be as many observations as there are consumers, squared. So the first question starts a survey, the others
//! join it, and all are answered when it has ended.

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::{Now, Shared};
use prodspec_model::AssetId;

use super::{Kernel, event::Effects, observe::Asker};

/// The surveys under way, by the capacity that they are about.
pub(super) type Surveys = BTreeMap<Arc<Shared>, Survey>;

/// One survey under way.
#[derive(Debug)]
pub(super) struct Survey {
    /// The number of observations that have not ended.
    left: usize,
    /// Tickets to answer, each with the asset whose own use is left out.
    tickets: Vec<(u64, AssetId)>,
}

impl Kernel {
    /// A check asks what the consumers of `shared` use, `but` left out. Answered once every consumer was looked at about
    /// which nothing young was known; consumers that cannot be compared stay unknown.
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
            // One more than there are slots, so that answers that are there at once do not end it before all have started.
            left: slots.len() + 1,
            tickets: vec![(ticket, but)],
        };
        self.observations.surveys.insert(shared.clone(), survey);
        for slot in slots {
            self.observe_slot(now, Asker::Survey(shared.clone()), slot, out);
        }
        self.surveyed(now, &shared, out);
    }

    /// One observation of a survey has ended, whatever it found.
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
