//! The trouble of a run: the task that injects faults, and what each fault does to clocks, processes, the store and
//! production.

mod clock;
mod driver;
mod process;
mod store;

pub use driver::drive;
pub use store::go_away;
