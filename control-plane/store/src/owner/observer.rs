//! Tells the living from the dead by watching heartbeats move. Pure.

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::Mono;

use super::ProcessId;
use crate::Version;

/// What one process has seen of the heartbeats of others, by its own clock.
///
/// ```
/// use std::time::Duration;
/// use plane_store::{Version, owner::{Judged, Observer}};
/// use plugin_sdk::Mono;
/// let (mut observer, other) = (Observer::new(Duration::from_secs(15)), "other".into());
/// let at = |secs| Mono(0) + Duration::from_secs(secs);
/// assert_eq!(observer.judge(&other, Some(Version(1)), at(0)), Judged::Alive { until: at(15) });
/// assert_eq!(observer.judge(&other, Some(Version(2)), at(9)), Judged::Alive { until: at(24) });
/// assert_eq!(observer.judge(&other, Some(Version(2)), at(24)), Judged::Dead);
/// ```
#[derive(Debug)]
pub struct Observer {
    term: Duration,
    seen: BTreeMap<ProcessId, (Version, Mono)>,
}

/// What is known of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// It may be alive.
    Alive {
        /// When it counts as dead if its heartbeat does not move.
        until: Mono,
    },
    /// It has left, or its heartbeat has not moved for a term.
    Dead,
}

impl Observer {
    /// Judges by this `term`, which must be that of the processes observed.
    pub fn new(term: Duration) -> Self {
        Self {
            term,
            seen: BTreeMap::new(),
        }
    }

    /// Judges `process`, whose heartbeat was read at version `beat`. `now` must be read *after* the heartbeat was.
    pub fn judge(&mut self, process: &ProcessId, beat: Option<Version>, now: Mono) -> Judged {
        let Some(beat) = beat else {
            self.seen.remove(process);
            return Judged::Dead;
        };
        let since = match self.seen.get(process) {
            Some((version, since)) if *version == beat => *since,
            _ => {
                self.seen.insert(process.clone(), (beat, now));
                now
            }
        };
        if now.since(since) < self.term {
            let until = since + self.term;
            return Judged::Alive { until };
        }
        Judged::Dead
    }
}
