//! One answer for many: the first check asks the source, the others wait for its answer. Evidence is shared, and nothing
//! that decides admission is counted here.

use std::{fmt, sync::Arc, time::Duration};

use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{CheckRequest, Mono, with_causes};

use super::{SignalSource, Signals};

/// What the source said, or how it failed.
pub(super) type Answer = Result<Heard, Arc<str>>;

/// What the source said, and how old it is at the moment of a request.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) signals: Arc<Signals>,
    /// Negative if the signals are from the future.
    pub(super) age: SignedDuration,
}

/// An answer, with both clocks of the request that brought it.
struct Asked {
    wall: Timestamp,
    mono: Mono,
    answer: Result<Arc<Signals>, Arc<str>>,
}

/// Asks a source at most once per `ttl`.
pub(super) struct Cache {
    source: Box<dyn SignalSource>,
    /// Held while the source is asked. A check that gives up lets the next one ask.
    last: Mutex<Option<Asked>>,
}

impl Cache {
    pub(super) fn new(source: impl SignalSource) -> Self {
        Self {
            source: Box::new(source),
            last: Mutex::new(None),
        }
    }

    /// What fires, asked less than `ttl` away from `request` by the monotonic clock. Failures are shared too: a source
    /// that is down is not asked once for every asset.
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
    /// The wall clock says how old the signals were when they were asked for, and the monotonic clock how much older
    /// they are by now: a wall clock that jumps in between makes them neither younger nor older.
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

/// The time from one moment to another; negative if the other is earlier.
fn passed(from: Mono, to: Mono) -> SignedDuration {
    let ahead = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
    ahead(to.since(from)).saturating_sub(ahead(from.since(to)))
}
