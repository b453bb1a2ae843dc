//! The judge of a demo: plays a session with a whole service and judges it from outside, by the client's log, the process
//! table, the cells' journals, and the answers of cells and database. Reports of the control plane itself are evidence
//! only where the report is the tested feature.
//!
//! - [`play`]: plays the steps of a demo in a directory of its own. [`trials`]: steps that every demo can play.
//! - [`Session`]: what a step gets: the [`Town`] with its control plane, the dice, the manifest and the client.
//! - [`Intent`]: what a demo's manifest wants of production, as plain data.
//! - [`broken`]: expectations. [`observe`]: production as it is. [`evidence`]: the journals of the cells.
//! - [`prints`]: the journal of the press. `executions`: executions of workflows, as commands show them.
//! - [`Pressure`]: whether a balancer keeps the limit that it reports.

pub mod broken;
mod dice;
pub mod evidence;
mod excuses;
mod executions;
pub mod observe;
pub mod play;
mod pressure;
pub mod prints;
mod rollouts;
mod session;
mod spans;
mod table;
mod town;
pub mod trials;
mod wanted;

pub use broken::Held;
pub use dice::Dice;
pub use pressure::Pressure;
pub use session::Session;
pub use spans::{Span, at_once, spans};
pub use town::{Town, digest_in, sweep};
pub use wanted::{Intent, Pace, Wanted, WantedCluster};
