//! A control plane to embed in a service: it generates intent from sources of truth and keeps production equal to it.
//!
//! This crate composes the other crates and makes no decisions of its own. [`ControlPlane::builder`] takes the parts
//! that a team writes: sources, generators, asset plugins, checks, rollout policies, health validators.
//! [`ControlPlane::run`] then generates, enforces and rolls out one partition until it is told to stop. Meanwhile a
//! [`Handle`] answers questions and takes commands of operators.
//!
//! ```
//! use control_plane::prelude::*;
//! # use serde::{Deserialize, Serialize};
//! # use std::{collections::BTreeMap, sync::Mutex, time::Duration};
//! # #[derive(Serialize, Deserialize)]
//! # struct FrontendJob { cluster: String }
//! # impl Message for FrontendJob { const TYPE: &'static str = "shakespeare.v1.FrontendJob"; }
//! # struct ShakespeareModel;
//! # impl Generator for ShakespeareModel {
//! #     fn info(&self) -> GeneratorInfo {
//! #         GeneratorInfo::per_document("model", "manifest.yaml").makes::<FrontendJob>()
//! #     }
//! #     fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
//! #         for document in input.documents() {
//! #             let job: FrontendJob = document.read()?;
//! #             let id = AssetId::new(&format!("job/{}", job.cluster))?;
//! #             out.asset(Asset::builder(id).payload(&job)?, document.provenance())?;
//! #         }
//! #         Ok(())
//! #     }
//! # }
//! # #[derive(Default)]
//! # struct FrontendJobs(Mutex<BTreeMap<AssetId, String>>);
//! # #[async_trait]
//! # impl AssetPlugin for FrontendJobs {
//! #     async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
//! #         let asset = request.reader.asset(&request.asset)?;
//! #         let there = self.0.lock().unwrap().get(&request.asset).cloned();
//! #         if there.as_deref() == Some(asset.payload_json()) { return Ok(Diff::in_sync()); }
//! #         let change = Change::new(&asset, "start it", vec![], Effects::default());
//! #         Ok(Diff::differs(change))
//! #     }
//! #     async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
//! #         let asset = request.reader.asset(&request.asset)?;
//! #         self.0.lock().unwrap().insert(request.asset, asset.payload_json().to_owned());
//! #         Ok(Pushed::Done)
//! #     }
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let (state, manifest) = (dir.path().join("state"), dir.path().join("manifest.yaml"));
//! # std::fs::write(&manifest, "cluster: eu")?;
//! let plane = ControlPlane::builder("shakespeare")
//!     .store(SqliteStore::open(state)?)
//!     .source(YamlFile::watch(manifest))
//!     .generator(ShakespeareModel)
//!     .validators(validators::standard())
//!     .asset_plugin::<FrontendJob>(FrontendJobs::default())
//!     .checks(|base| {
//!         ServiceBuilder::new()
//!             .layer(DependencySolverLayer::standard())
//!             .service(base)
//!     })
//!     .build()?;
//!
//! let handle = plane.handle();
//! let running = tokio::spawn(plane.run(std::future::pending()));
//! let settled = handle.settle(Duration::from_secs(30)).await?;
//! assert_eq!(settled.to_string(), "shakespeare@1");
//! # running.abort();
//! # Ok(())
//! # }
//! ```

mod builder;
mod dry_run;
mod explain;
mod generate;
mod handle;
mod people;
mod plan;
mod plane;
pub mod prelude;
mod retention;
pub mod rollout;
mod status;

pub use annealing_strategist::By;
pub use builder::{BuildError, ControlPlaneBuilder};
pub use dry_run::{DryRun, DryRunAsset, DryRunChange, Given, Outcome};
pub use explain::Explained;
pub use handle::{Error, Handle, Status};
pub use plane::ControlPlane;
pub use status::{AsIntended, GroupStatus, Obstacle, WhyNot};

/// The assets that a pause is about.
pub use control_plane_store::records::Scope as PauseScope;

/// The checks that the framework provides.
pub use annealing_checks as checks;
/// Enforcement: pin, diff, check, push.
pub use annealing_enforcer as enforcer;
/// Rollouts: select, update, validate, roll back.
pub use annealing_strategist as strategist;
/// The traits that provide time and tasks, and their tokio implementation.
pub use control_plane_runtime as runtime;
/// The store trait, the records in a store, and the memory backend.
pub use control_plane_store as store;
/// The SQLite backend: a store in a directory, without a server.
pub use control_plane_store_sqlite as store_sqlite;
/// The traits that a team implements, with their requests and responses.
pub use plugin_sdk as sdk;
/// Generation: from sources through generators and validators to a sealed incarnation.
pub use prodspec_gen as generation;
/// The data model: ids, payloads, addons, assets, incarnations.
pub use prodspec_model as model;

/// Compiles and runs the examples of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/asset-plugin.md")]
    struct AssetPlugin;
    #[doc = include_str!("../../docs/check.md")]
    struct Check;
    #[doc = include_str!("../../docs/dependencies.md")]
    struct Dependencies;
    #[doc = include_str!("../../docs/operate.md")]
    struct Operate;
    #[doc = include_str!("../../docs/policy-layer.md")]
    struct PolicyLayer;
    #[doc = include_str!("../../docs/rollouts.md")]
    struct Rollouts;
}
