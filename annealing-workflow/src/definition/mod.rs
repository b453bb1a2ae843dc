//! Workflows as data: machines, their actions and guards, and the exploration of all states they can reach.
//!
//! A program writes a definition and builds it. `build` refuses names that are not there, states that are never reached,
//! and ends that are neither good nor bad, each with the place and, for an end, with a shortest way to it:
//!
//! ```
//! use annealing_workflow::definition::{Error, Outcome, Workflow};
//! use plugin_sdk::workflow::{Machine, all, any, cancelled, is, not};
//!
//! /// A new season. Texts are loaded and checked while posters are printed, a person decides, and what was loaded is
//! /// undone if the season does not open. `publish` cleans up too, so a cancel after the yes neither stops nor undoes it.
//! fn season() -> Result<Workflow, Error> {
//!     Workflow::new("season")
//!         .machine(Machine::calls("load", "load-texts"))
//!         .machine(Machine::calls("verify", "verify-texts").when(is("load", "done")))
//!         .machine(Machine::calls("posters", "print-posters").retry_limit(3))
//!         .machine(
//!             Machine::asks("go", "Open the season?", ["yes", "no"])
//!                 .when(all([is("verify", "done"), is("posters", "done")])),
//!         )
//!         .machine(Machine::calls("publish", "publish").cleans_up().when(is("go", "yes")))
//!         .machine(Machine::calls("undo", "unload-texts").cleans_up().when(all([
//!             is("load", "done"),
//!             any([
//!                 is("verify", "failed"),
//!                 is("posters", "failed"),
//!                 is("publish", "failed"),
//!                 is("go", "no"),
//!                 all([cancelled(), not(is("go", "yes"))]),
//!             ]),
//!         ])))
//!         .ends_well(is("publish", "done"))
//!         .ends_badly(any([is("go", "no"), is("undo", "done")]))
//!         .build()
//! }
//!
//! let season = season()?;
//! assert!(season.exploration().is_some_and(|it| it.complete));
//!
//! // Two machines can begin at once, the others wait for them.
//! let first = season.first();
//! let enabled: Vec<_> = season.enabled(&first).map(|it| season.machine(it).name.as_str()).collect();
//! assert_eq!(enabled, ["load", "posters"]);
//!
//! // Without an answer for "no" the definition is refused.
//! let error = Workflow::new("short")
//!     .machine(Machine::asks("go", "Open the season?", ["yes", "no"]))
//!     .ends_well(is("go", "yes"))
//!     .build()
//!     .unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "the workflow `short` is refused: it can end neither good nor bad, after `go` no: `ends_well` needs is(go, yes) but \
//!      `go` is `no`; add an action for this case, or name the end in `ends_well` or `ends_badly`",
//! );
//! # Ok::<(), Error>(())
//! ```

mod check;
mod clause;
mod condition;
mod data;
mod error;
mod explore;
mod gathers;
mod outcome;
mod plan;
mod position;
mod redefine;
#[cfg(test)]
mod tests;
mod workflow;

pub use clause::{FalseClause, GuardOf};
pub use data::Definition;
pub use error::{Error, Problem, StuckEnd, Transition};
pub use explore::{Exploration, MAX_EXPLORED};
pub use outcome::Outcome;
pub use position::{MachineNo, Position, StateNo};
pub use redefine::RedefineError;
pub use workflow::{LoadError, Workflow};
