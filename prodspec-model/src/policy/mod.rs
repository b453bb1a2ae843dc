//! Policies that are intent: payloads of modelled-only assets, read by checks and by health at each look.

mod approval;
mod calendar;
mod capacity;
mod counter;
mod exception;
mod field;
mod health;
mod limit;
mod monitoring;
mod span;
mod threshold;

pub use approval::ApprovalPolicy;
pub use calendar::{CalendarPolicy, FreezePolicy};
pub use capacity::{CapacityPolicy, Peak, Usage, Without};
pub use counter::Counter;
pub use exception::Exception;
pub use field::AssetField;
pub use health::{Alerts, Count, Direction, HealthPolicy, HealthRule, Worse};
pub use limit::{BlastRadiusPolicy, RatePolicy};
pub use monitoring::{AlertPolicy, OverloadPolicy};
pub use threshold::{Threshold, Unit};

use crate::message::Message;

/// The types of the policies that are checks: they hold pushes back, and count at the newest incarnation.
pub const CHECKS: &[&str] = &[
    AlertPolicy::TYPE,
    ApprovalPolicy::TYPE,
    BlastRadiusPolicy::TYPE,
    CalendarPolicy::TYPE,
    CapacityPolicy::TYPE,
    FreezePolicy::TYPE,
    OverloadPolicy::TYPE,
    RatePolicy::TYPE,
];
