//! What does not hold, in words: a demo's judgement is read by people.

use std::{fmt::Display, time::Duration};

/// Something that was promised does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(pub(super) String);

/// Whether a promise holds.
pub(super) type Held<T = ()> = Result<T, Broken>;

/// It does not hold, for this reason.
pub(super) fn broken<T>(why: impl Display) -> Held<T> {
    Err(Broken(why.to_string()))
}

/// It holds if `good`.
pub(super) fn ensure(good: bool, why: impl FnOnce() -> String) -> Held {
    if good { Ok(()) } else { Err(Broken(why())) }
}

macro_rules! from_error {
    ($($error:ty),*) => { $(
        impl From<$error> for Broken {
            fn from(error: $error) -> Self {
                Self(error.to_string())
            }
        }
    )* };
}

from_error!(
    std::io::Error,
    rusqlite::Error,
    serde_json::Error,
    crate::production::client::Error
);

/// Something must hold within this long, on a busy machine too.
const DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks.
const REST: Duration = Duration::from_millis(40);

/// Looks until it holds. Production announces nothing to strangers, so it is looked at again and again.
pub(super) async fn until<T>(what: &str, look: impl AsyncFn() -> Held<T>) -> Held<T> {
    let mut last = Broken("never looked".into());
    let looking = async {
        loop {
            match look().await {
                Ok(found) => return found,
                Err(why) => last = why,
            }
            tokio::time::sleep(REST).await;
        }
    };
    match tokio::time::timeout(DEADLINE, looking).await {
        Ok(found) => Ok(found),
        Err(_) => broken(format_args!("not within {DEADLINE:?}: {what}: {last}")),
    }
}
