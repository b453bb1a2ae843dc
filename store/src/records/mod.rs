//! Records that engines keep, as plain data under readable keys. Engines share data only through them and never depend
//! on each other.

mod asset;
mod change;
mod decision;
mod field;
mod open;
mod people;
mod rollout;
mod stopped;

pub use asset::{AssetRecord, Floor, MovedRecord, Orphaned, Settled, Taken, Unhealthy};
pub use change::ChangeRecord;
pub use decision::{AllowedBy, Decision, Decisions, Outcome, Trigger, excerpt};
pub use field::{HeldField, Ledger, Overwritten};
pub use open::{OpenPush, Owned, ReliedOn};
pub use people::{Approval, Ended, Override, Pause, Scope, Used};
pub use stopped::Stopped;

use crate::Record as _;

/// Whether `key` belongs to a record of history, which reports past actions and decides nothing. A backend that finds
/// such a record unreadable sets it aside and continues.
///
/// ```
/// use control_plane_store::records::is_history;
/// assert!(is_history("decisions/shakespeare/job/eu"));
/// assert!(!is_history("asset/shakespeare/job/eu"));
/// ```
pub fn is_history(key: &str) -> bool {
    key.strip_prefix(Decisions::KIND)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
