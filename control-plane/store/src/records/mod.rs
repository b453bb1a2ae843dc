//! What engines remember, as plain data under readable keys. Engines meet here and never depend on each other.

mod asset;
mod decision;
mod open;
mod people;
mod rollout;

pub use asset::{AssetRecord, Floor, Orphaned, PinRecord, Settled, Taken, Unhealthy};
pub use decision::{AllowedBy, Decision, Decisions, Outcome, Trigger, excerpt};
pub use open::{OpenPush, Owned, ReliedOn};
pub use people::{Approval, By, Ended, Override, Pause, Scope, Used};
pub use rollout::{GroupHead, Standing, StandingPin, Stands};
