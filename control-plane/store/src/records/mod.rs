//! What engines remember, as plain data under readable keys. Engines meet here and never depend on each other.

mod asset;
mod decision;
mod open;
mod people;
mod rollout;
mod stopped;

pub use asset::{AssetRecord, Floor, Orphaned, PinRecord, Settled, Taken, Unhealthy};
pub use decision::{AllowedBy, Decision, Decisions, Outcome, Trigger, excerpt};
pub use open::{OpenPush, Owned, ReliedOn};
pub use people::{Approval, By, Ended, Override, Pause, Scope, Used};
pub use rollout::{GroupHead, Standing, StandingPin, Stands};
pub use stopped::Stopped;

use crate::Record as _;

/// Whether `key` is of a record of history: it tells what was done and decides nothing. A backend that finds one
/// unreadable sets it aside and goes on.
///
/// ```
/// use plane_store::records::is_history;
/// assert!(is_history("decisions/shakespeare/job/eu"));
/// assert!(!is_history("asset/shakespeare/job/eu"));
/// ```
pub fn is_history(key: &str) -> bool {
    key.strip_prefix(Decisions::KIND)
        .is_some_and(|rest| rest.starts_with('/'))
}
