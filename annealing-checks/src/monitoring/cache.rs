//! The cache of a signal source: the first check calls the source, and the others wait for its answer. Only evidence is
//! shared; no layer counts anything that decides admission.

use std::{fmt, sync::Arc, time::Duration};

use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{CheckRequest, Mono, SignalSource, Signals, with_causes};

/// The answer of the source, or its error.
pub(super) type Answer = Result<Heard, Arc<str>>;

/// The answer of the source, with its age at the time of a request.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) signals: Arc<Signals>,
    /// Age of the signals. Negative if they are from the future.
    pub(super) age: SignedDuration,
}

/// An answer, with both clock readings of the request that caused it.
struct Asked {
    wall: Timestamp,
    mono: Mono,
    answer: Result<Arc<Signals>, Arc<str>>,
}

/// Calls a source at most once per `ttl`.
pub(super) struct Cache {
    source: Box<dyn SignalSource>,
    /// The last answer. Locked while the source is called; if the calling check is dropped, the next one calls the
    /// source.
    last: Mutex<Option<Asked>>,
}

impl Cache {
    pub(super) fn new(source: impl SignalSource) -> Self {
        Self {
            source: Box::new(source),
            last: Mutex::new(None),
        }
    }

    /// The signals for `request`: the last answer, if it is less than `ttl` away by the monotonic clock, else a new
    /// one. Errors are cached too, so that a failed source is not called once for every asset.
    pub(super) async fn answer(&self, request: &CheckRequest, ttl: Duration) -> Answer {
        let mut last = self.last.lock().await;
        if let Some(asked) = &*last
            && passed(asked.mono, request.mono).unsigned_abs() < ttl
        {
            return asked.heard_by(request.mono);
        }
        let answer = self.source.firing().await;
        let asked = Asked {
            wall: request.now,
            mono: request.mono,
            answer: answer
                .map(Arc::new)
                .map_err(|error| with_causes(&*error).into()),
        };
        let heard = asked.heard_by(request.mono);
        *last = Some(asked);
        heard
    }
}

impl Asked {
    /// The answer as of `mono`. The wall clock gives the age of the signals when they were requested, and the monotonic
    /// clock the time since then. So a jump of the wall clock in between does not change the age.
    fn heard_by(&self, mono: Mono) -> Answer {
        let signals = self.answer.clone()?;
        let born = self.wall.duration_since(signals.as_of);
        let age = born.saturating_add(passed(self.mono, mono));
        Ok(Heard { signals, age })
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// The time from one moment to another. Negative if `to` is earlier.
fn passed(from: Mono, to: Mono) -> SignedDuration {
    let ahead = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    ahead(to.since(from)).saturating_sub(ahead(from.since(to)))
}
