//! Judges the client's log, and knows which failed requests are excused.
//!
//! Balancers repeat requests on another endpoint, so the death of a frontend, of a cluster's balancer or of a whole
//! cell must not fail any request. Only the death of the global balancer, to which the client connects, may.

use super::broken::{Held, broken};
use crate::production::{GLOBAL_CELL, load::Attempt};

/// Maximum time until a client notices that a connection has died, in microseconds.
const NOTICED: u64 = 50_000;

/// The causes that excuse a failed request.
#[derive(Debug, Default)]
pub(super) struct Excuses {
    /// Versions and clusters whose errors are expected.
    defects: Vec<(String, String)>,
    /// Time spans in which the global balancer was dying, in microseconds since 1970.
    deaths: Vec<(u64, u64)>,
}

/// The number of excused failures, by cause.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Excused {
    /// Error answers of the defective version.
    pub(super) errors: usize,
    /// Requests in flight on the global balancer when it was killed.
    pub(super) lost: usize,
}

impl Excuses {
    /// Excuses error answers of this version in this cluster.
    pub(super) fn errors_of(&mut self, version: &str, cluster: &str) {
        self.defects.push((version.into(), cluster.into()));
    }

    /// Records that the balancer of a cell died between these two times. Only the global balancer excuses requests.
    pub(super) fn balancer_died(&mut self, cell: &str, from: u64, to: u64) {
        if cell == GLOBAL_CELL {
            self.deaths.push((from, to + NOTICED));
        }
    }

    /// Expects that every failed request is excused. Returns the number of excused failures.
    pub(super) fn judge(&self, log: &[Attempt]) -> Held<Excused> {
        let mut excused = Excused::default();
        for attempt in log.iter().filter(|attempt| attempt.failed()) {
            if self.is_expected(attempt) {
                excused.errors += 1;
            } else if self.is_lost(attempt) {
                excused.lost += 1;
            } else {
                return broken(format_args!("a request failed: {attempt:?}"));
            }
        }
        Ok(excused)
    }

    /// Returns true for a complete error answer of a defective version, passed on by the balancers.
    fn is_expected(&self, attempt: &Attempt) -> bool {
        let defective = |(version, cluster): &(String, String)| {
            let frontend = attempt.frontend.as_ref();
            let name = frontend.and_then(|name| name.strip_prefix(cluster.as_str()));
            attempt.version.as_ref() == Some(version)
                && name.is_some_and(|name| name.starts_with('/'))
        };
        attempt.status.is_some_and(|status| status >= 500) && self.defects.iter().any(defective)
    }

    /// Returns true for a request without any answer while the global balancer was dying.
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
    fn only_the_death_of_the_global_balancer_excuses_a_request_without_an_answer() {
        let (broken_off, bad_gateway) = ([failed(None)], [failed(Some(502))]);
        let mut excuses = Excuses::default();
        excuses.balancer_died("eu", 500, 1_500);
        assert!(
            excuses.judge(&broken_off).is_err(),
            "the global balancer should have repeated the request"
        );
        assert!(excuses.judge(&bad_gateway).is_err());
        excuses.balancer_died(GLOBAL_CELL, 500, 1_500);
        let lost = Excused { errors: 0, lost: 1 };
        assert_eq!(excuses.judge(&broken_off), Ok(lost));
        assert!(excuses.judge(&bad_gateway).is_err(), "there was an answer");
        let mut late = failed(None);
        late.start_micros = 1_501 + NOTICED;
        late.end_micros = late.start_micros + 10;
        assert!(excuses.judge(&[late]).is_err());
    }
}
