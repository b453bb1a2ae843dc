//! Decides from heartbeats which processes are alive. Pure: it reads no store and no clock.

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::Mono;

use super::ProcessId;
use crate::Version;

/// The heartbeats of other processes as one process has seen them, with times of its own clock.
///
/// ```
/// use std::time::Duration;
/// use control_plane_store::{Version, owner::{Judged, Observer}};
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

/// Whether another process is alive, as far as its heartbeats show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// The process may be alive.
    Alive {
        /// Time from which the process counts as dead if its heartbeat does not move until then.
        until: Mono,
    },
    /// The process has left, or its heartbeat has not moved for a term.
    Dead,
}

impl Observer {
    /// Creates an observer. `term` must be the term of the observed processes.
    pub fn new(term: Duration) -> Self {
        Self {
            term,
            seen: BTreeMap::new(),
        }
    }

    /// Judges `process`, whose heartbeat was read at version `beat`; `None` means that it has no heartbeat. The caller
    /// must read the clock for `now` *after* it has read the heartbeat.
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
