//! What engines remember, as plain data under readable keys. Engines meet here and never depend on each other.

mod asset;
mod decision;
mod people;
mod rollout;

pub use asset::{AssetRecord, Floor, OpenPush, Orphaned, PinRecord, Settled, Taken, Unhealthy};
pub use decision::{Decision, Decisions, Outcome, Trigger, excerpt};
pub use people::{Approval, Override, Pause, Scope};
pub use rollout::{GroupHead, Standing, StandingPin, Stands};
