//! One answer for many: the first who asks waits for the source, the others wait for the first. Evidence is shared, and
//! nothing that decides admission is counted here.

use std::{fmt, sync::Arc, time::Duration};

use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::with_causes;

use super::{SignalSource, Signals};

/// What the source said, or how it failed.
pub(super) type Answer = Result<Arc<Signals>, Arc<str>>;

/// Asks a source at most once per `ttl`.
pub(super) struct Cache {
    source: Box<dyn SignalSource>,
    /// Held while the source is asked. Whoever gives up lets the next one ask.
    last: Mutex<Option<(Timestamp, Answer)>>,
}

impl Cache {
    pub(super) fn new(source: impl SignalSource) -> Self {
        Self {
            source: Box::new(source),
            last: Mutex::new(None),
        }
    }

    /// What fires, asked less than `ttl` away from `now`. Failures are shared too: a source that is down is not asked
    /// once for every asset.
    pub(super) async fn at(&self, now: Timestamp, ttl: Duration) -> Answer {
        let mut last = self.last.lock().await;
        if let Some((asked, answer)) = &*last
            && apart(*asked, now) < ttl
        {
            return answer.clone();
        }
        let answer = self.source.firing().await;
        let answer = answer
            .map(Arc::new)
            .map_err(|error| with_causes(&*error).into());
        *last = Some((now, answer.clone()));
        answer
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// The time between two moments, whichever is first.
pub(super) fn apart(one: Timestamp, other: Timestamp) -> Duration {
    let apart: SignedDuration = one.duration_since(other);
    apart.unsigned_abs()
}
