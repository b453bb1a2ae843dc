//! The judge of the client's log, and the little that excuses a failed request. Balancers send what broke off elsewhere, so
//! frontends, clusters' balancers and whole cells may die and it costs the client nothing: only the one that it talks to.

use super::broken::{Held, broken};
use crate::{model::GLOBAL_CELL, production::load::Attempt};

/// A connection that has died is noticed within this long, in microseconds.
const NOTICED: u64 = 50_000;

/// What excuses a failed request.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    /// The version, and the cluster, whose errors are no failure of ours.
    defect: Option<(String, String)>,
    /// From when to when the global balancer was dying, in microseconds since 1970.
    deaths: Vec<(u64, u64)>,
}

/// Failures that were excused.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Excused {
    /// Errors of the version that has them.
    pub(super) errors: usize,
    /// In flight on the global balancer when it was killed.
    pub(super) lost: usize,
}

impl Excuses {
    /// This version's own errors in this cluster are meant.
    pub(super) fn errors_of(&mut self, version: &str, cluster: &str) {
        self.defect = Some((version.into(), cluster.into()));
    }

    /// The balancer of a cell died between these moments.
    pub(super) fn balancer_died(&mut self, cell: &str, from: u64, to: u64) {
        if cell == GLOBAL_CELL {
            self.deaths.push((from, to + NOTICED));
        }
    }

    /// No request failed but those that are excused.
    pub(super) fn judge(&self, log: &[Attempt]) -> Held<Excused> {
        let mut excused = Excused::default();
        for attempt in log.iter().filter(|attempt| attempt.failed()) {
            if self.is_meant(attempt) {
                excused.errors += 1;
            } else if self.is_lost(attempt) {
                excused.lost += 1;
            } else {
                return broken(format_args!("a request failed: {attempt:?}"));
            }
        }
        Ok(excused)
    }

    /// A whole answer of that very version: nothing between it and the client has failed.
    fn is_meant(&self, attempt: &Attempt) -> bool {
        let Some((version, cluster)) = &self.defect else {
            return false;
        };
        let there = |frontend: &String| {
            let name = frontend.strip_prefix(cluster.as_str());
            name.is_some_and(|name| name.starts_with('/'))
        };
        attempt.status.is_some_and(|status| status >= 500)
            && attempt.version.as_ref() == Some(version)
            && attempt.frontend.as_ref().is_some_and(there)
    }

    /// No answer of any kind: who is dead answers nothing.
    fn is_lost(&self, attempt: &Attempt) -> bool {
        let mut deaths = self.deaths.iter();
        attempt.status.is_none() && deaths.any(|(from, to)| attempt.in_flight_during(*from, *to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: Option<u16>) -> Attempt {
        Attempt {
            start_micros: 1_000,
            end_micros: 2_000,
            status,
            error: None,
            frontend: None,
            version: None,
            worked: None,
        }
    }

    #[test]
    fn only_the_death_of_the_global_balancer_excuses_a_request_and_no_answer_of_another() {
        let (broken_off, bad_gateway) = ([failed(None)], [failed(Some(502))]);
        let mut excuses = Excuses::default();
        excuses.balancer_died("eu", 500, 1_500);
        assert!(excuses.judge(&broken_off).is_err(), "it was to be retried");
        assert!(excuses.judge(&bad_gateway).is_err());
        excuses.balancer_died(GLOBAL_CELL, 500, 1_500);
        let lost = Excused { errors: 0, lost: 1 };
        assert_eq!(excuses.judge(&broken_off), Ok(lost));
        assert!(excuses.judge(&bad_gateway).is_err(), "somebody answered");
        let mut late = failed(None);
        late.start_micros = 1_501 + NOTICED;
        late.end_micros = late.start_micros + 10;
        assert!(excuses.judge(&[late]).is_err());
    }
}
