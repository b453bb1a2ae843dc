//! The loop that keeps production equal to intent: pin, diff, check and push for every asset, for ever.
//!
//! Most teams use it through the crate `control-plane`. It is used alone by services that seal incarnations in their
//! own way. The decisions are made in [`kernel`], which is pure. [`shell`] owns a partition, passes events to the
//! kernel and performs its effects.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use annealing_enforcer::{Enforcer, Settle, store::{Batch, MemoryStore, Store, incarnations::Incarnations}};
//! use control_plane_runtime::TokioRuntime;
//! use plugin_sdk::testing::{self, InMemoryProduction};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Seal some intent in a store.
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let intent = testing::incarnation(1, [testing::asset("job/eu"), testing::asset("job/us")]);
//! let partition = intent.id().partition.clone();
//! Incarnations::new(store.clone(), partition.clone()).seal(&intent, None, Batch::new()).await?;
//!
//! // Build an enforcer with one plugin. Production is empty.
//! let enforcer = Enforcer::builder(TokioRuntime::current(), partition, store)
//!     .asset_plugin::<testing::Thing>(InMemoryProduction::new())
//!     .build()?;
//! let handle = enforcer.handle();
//! let running = tokio::spawn(enforcer.run(std::future::pending()));
//!
//! // Wait until production matches the intent.
//! handle.wait_settled(Settle::All(intent.no()), Duration::from_secs(10)).await?;
//! assert_eq!(handle.status().await?.unsettled, 0);
//! # running.abort();
//! # Ok(())
//! # }
//! ```

pub mod config;
pub mod kernel;
pub mod registry;
pub mod shell;

pub use config::{Config, TypeConfig};
pub use kernel::{Command, Explanation, Interventions, Named, Outcome, Prospect, Reason, Status};
pub use registry::Registry;
pub use shell::{
    AskError, BuildError, DeadEnd, Enforcer, EnforcerBuilder, Error, Explained, Handle, Plan,
    Planner, Plugin, ProcessLease, Settle,
};

/// The store from which an enforcer reads intent and in which it keeps its records.
pub use control_plane_store as store;
