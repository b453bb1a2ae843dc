//! Failed expectations of a demo, as text for people.

use std::{fmt::Display, time::Duration};

use crate::production::{client, database, press};

/// An expectation that does not hold, with its explanation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(
    /// Reason why the expectation does not hold, for people.
    pub String,
);

/// The result of an expectation: it holds, or the reason why not.
pub type Held<T = ()> = Result<T, Broken>;

/// Returns a failed expectation with this reason.
///
/// # Errors
/// Always; it is a shorthand for a failure.
pub fn broken<T>(why: impl Display) -> Held<T> {
    Err(Broken(why.to_string()))
}

/// Returns a failed expectation with the reason `why` unless `good` is true.
///
/// # Errors
/// When `good` is false.
pub fn ensure(good: bool, why: impl FnOnce() -> String) -> Held {
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
    serde_json::Error,
    client::Error,
    database::Error,
    press::client::Error
);

/// Maximum time until an expectation must hold, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const REST: Duration = Duration::from_millis(40);

/// Calls `look` repeatedly until it succeeds, for at most a minute. Production sends no notifications.
///
/// # Errors
/// The last failed look, when none succeeds in time.
pub async fn until<T>(what: &str, look: impl AsyncFn() -> Held<T>) -> Held<T> {
    let mut last = Broken("no look was completed".into());
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
        Err(_) => broken(format_args!(
            "waited {DEADLINE:?} in vain until {what}: {last}"
        )),
    }
}
