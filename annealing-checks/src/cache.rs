//! The answer of a source, shared by checks: the first one calls the source, and the others wait for its answer. Only evidence
//! is shared; no layer counts anything that decides admission.

use std::{fmt, sync::Arc};

use futures::lock::Mutex;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{BoxError, CheckRequest, Mono, with_causes};

/// An answer or an error, with both clock readings of the request that caused it.
pub(crate) struct Answer<T> {
    wall: Timestamp,
    mono: Mono,
    pub(crate) result: Result<Arc<T>, Arc<str>>,
}

/// Calls a source once for all checks that can use its answer.
pub(crate) struct Cache<S: ?Sized, T> {
    /// The source. Read it only in the call given to [`Cache::answer`].
    pub(crate) source: Box<S>,
    /// The last answer. Locked while the source is called; if the calling check is dropped, the next one calls the
    /// source.
    last: Mutex<Option<Answer<T>>>,
}

impl<S: ?Sized, T> Cache<S, T> {
    pub(crate) fn new(source: Box<S>) -> Self {
        let last = Mutex::new(None);
        Self { source, last }
    }

    /// The answer for `request`: the last one if it is still `good`, else that of `call`. Errors are kept too, so that a
    /// failed source is not called once for every asset.
    pub(crate) async fn answer(
        &self,
        request: &CheckRequest,
        good: impl FnOnce(&Answer<T>) -> bool,
        call: impl Future<Output = Result<T, BoxError>>,
    ) -> Answer<T> {
        let mut last = self.last.lock().await;
        if let Some(answer) = last.as_ref().filter(|it| good(it)) {
            return answer.clone();
        }
        let result = call.await;
        let answer = Answer {
            wall: request.now,
            mono: request.mono,
            result: result
                .map(Arc::new)
                .map_err(|error| with_causes(&*error).into()),
        };
        last.insert(answer).clone()
    }
}

impl<T> Answer<T> {
    /// The time since the source was called. Negative if `mono` is earlier.
    pub(crate) fn passed(&self, mono: Mono) -> SignedDuration {
        let ahead = |duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        ahead(mono.since(self.mono)).saturating_sub(ahead(self.mono.since(mono)))
    }

    /// The age of evidence from `as_of` for a request at `mono`. Negative if it is from the future. The wall clock gives its
    /// age at the call, and the monotonic clock the time since then: a jump of the wall clock in between does not change it.
    pub(crate) fn age(&self, as_of: Timestamp, mono: Mono) -> SignedDuration {
        let then = self.wall.duration_since(as_of);
        then.saturating_add(self.passed(mono))
    }
}

impl<T> Clone for Answer<T> {
    fn clone(&self) -> Self {
        Self {
            result: self.result.clone(),
            ..*self
        }
    }
}

impl<S: ?Sized, T> fmt::Debug for Cache<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}
