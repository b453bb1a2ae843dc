//! Workflows as data: machines with states, guarded actions and declared outcomes.
//!
//! A step of a workflow is a *machine*: a few states, and in a state at most one *action*. The action is enabled while
//! its *guard* holds, and a guard speaks about the states of other machines. That is all that orders steps: no graph of
//! steps, no special rules for failures or clean-up. Answers of functions may add machines to a running execution, which
//! is why machines are data of this crate; workflows are built and run by `annealing-workflow`.
//!
//! ```
//! use plugin_sdk::workflow::{Machine, all, any, cancelled, is, not};
//!
//! let machines = [
//!     Machine::calls("load", "load-texts"),
//!     Machine::calls("posters", "print-posters").retry_limit(3),
//!     Machine::asks("go", "Open the season?", ["yes", "no"])
//!         .when(all([is("load", "done"), is("posters", "done")])),
//!     // A cancel after the yes neither stops it nor undoes it.
//!     Machine::calls("publish", "publish").cleans_up().when(is("go", "yes")),
//!     Machine::calls("undo", "unload-texts").cleans_up().when(all([
//!         is("load", "done"),
//!         any([
//!             is("posters", "failed"),
//!             is("publish", "failed"),
//!             is("go", "no"),
//!             all([cancelled(), not(is("go", "yes"))]),
//!         ]),
//!     ])),
//! ];
//! # assert_eq!(machines[2].states().map(|state| state.as_str()).collect::<Vec<_>>(), ["waiting", "no", "yes"]);
//! ```

mod action;
mod guard;
mod machine;
mod name;
#[cfg(test)]
mod tests;

pub use action::{Action, DEADLINE, RETRY_LIMIT, Task};
pub use guard::{Guard, States, all, any, cancelled, is, not};
pub use machine::Machine;
pub use name::{InvalidName, MAX_NAME, MachineName, StateName, WorkflowName};

/// Maximum number of machines of an execution, added ones included.
pub const MAX_MACHINES: usize = 1_000;

/// Maximum number of states of one machine.
pub const MAX_STATES: usize = 64;

/// Maximum size of a definition in canonical JSON, in bytes: 256 KiB.
pub const MAX_DEFINITION: usize = 256 << 10;

/// Maximum size of the input of an action in canonical JSON, in bytes: 64 KiB.
pub const MAX_INPUT: usize = 64 << 10;
/// Maximum number of assets that the edits of one action may change.
pub const MAX_BLAST_RADIUS: u32 = 4_000;
