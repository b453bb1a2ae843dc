//! What engines remember, as plain data under readable keys. Engines meet here and never depend on each other.

mod asset;
mod decision;
mod people;

pub use asset::{AssetRecord, Floor, OpenPush, Orphaned, PinRecord, Settled};
pub use decision::{Decision, Decisions, Outcome, Trigger};
pub use people::{Approval, Override, Pause, Scope};
