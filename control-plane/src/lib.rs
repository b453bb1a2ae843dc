#![doc = include_str!("../README.md")]

mod arrivals;
mod assembly;
mod attempt;
mod builder;
mod declared;
mod desk;
mod dry_run;
mod edit;
mod explain;
mod follow;
mod generate;
mod goals;
mod hand_over;
mod handle;
mod in_intent;
#[cfg(feature = "workflows")]
mod lanes;
mod line;
mod people;
mod plan;
mod plane;
mod port;
pub mod prelude;
mod retention;
mod roll_out;
pub mod rollout;
mod settled;
mod shared;
mod sought;
mod status;
mod trains;
#[cfg(not(feature = "workflows"))]
mod without_workflows;
#[cfg(feature = "workflows")]
pub mod workflow;

#[cfg(not(feature = "workflows"))]
use without_workflows::{self as lanes, self as workflow};

pub use annealing_strategist::By;
pub use builder::{BuildError, ControlPlaneBuilder};
pub use desk::{EditRefused, SourceEdit};
pub use dry_run::{DryRun, DryRunAsset, DryRunChange, Given, Outcome};
pub use edit::{EditDryRun, Edited};
pub use explain::{Asks, Explained};
pub use goals::{GoalView, Missing};
pub use handle::{Error, Handle};
pub use line::Line;
pub use people::Interventions;
pub use plane::ControlPlane;
pub use roll_out::{RollOutRefused, RollingOut};
pub use status::{AsIntended, GroupStatus, Obstacle, Status, WhyNot};
pub use trains::{StageView, TrainView, Trains};

/// The assets that a pause is about.
pub use control_plane_store::records::Scope as PauseScope;

/// The checks that the framework provides.
pub use annealing_checks as checks;
/// Enforcement: pin, diff, check, push.
pub use annealing_enforcer as enforcer;
/// Rollouts: select, update, validate, roll back.
pub use annealing_strategist as strategist;
/// Workflows and the functions that they call. Needs the feature `workflows`.
#[cfg(feature = "workflows")]
pub use annealing_workflow as workflows;
/// The traits that provide time and tasks, and their tokio implementation.
pub use control_plane_runtime as runtime;
/// The store trait, the records in a store, and the memory backend.
pub use control_plane_store as store;
/// The SQLite backend: a store in a directory, without a server. Needs the feature `sqlite`.
#[cfg(feature = "sqlite")]
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
    #[doc = include_str!("../../docs/change-a-payload.md")]
    struct ChangeAPayload;
    #[doc = include_str!("../../docs/check.md")]
    struct Check;
    #[doc = include_str!("../../docs/checks-as-intent.md")]
    struct ChecksAsIntent;
    #[doc = include_str!("../../docs/configuration.md")]
    struct Configuration;
    #[doc = include_str!("../../docs/choose-a-policy.md")]
    struct ChooseAPolicy;
    #[doc = include_str!("../../docs/dependencies.md")]
    struct Dependencies;
    #[doc = include_str!("../../docs/edit-intent.md")]
    struct EditIntent;
    #[cfg(unix)]
    #[doc = include_str!("../../docs/exec-source.md")]
    struct ExecSource;
    #[doc = include_str!("../../docs/freezes.md")]
    struct Freezes;
    #[doc = include_str!("../../docs/generator.md")]
    struct Generator;
    #[doc = include_str!("../../docs/operate.md")]
    struct Operate;
    #[doc = include_str!("../../docs/operation.md")]
    struct AnOperation;
    #[doc = include_str!("../../docs/policy-layer.md")]
    struct PolicyLayer;
    #[doc = include_str!("../../docs/roll-out-by-edits.md")]
    struct RollOutByEdits;
    #[doc = include_str!("../../docs/rollouts.md")]
    struct Rollouts;
    #[doc = include_str!("../../docs/schedule.md")]
    struct Schedule;
    #[doc = include_str!("../../docs/secrets.md")]
    struct Secrets;
    #[doc = include_str!("../../docs/trains.md")]
    struct Trains;
    #[doc = include_str!("../../docs/validator.md")]
    struct Validator;
    #[doc = include_str!("../../docs/virtual-time.md")]
    struct VirtualTime;
    #[doc = include_str!("../../docs/when-it-dies.md")]
    struct WhenItDies;
    #[doc = include_str!("../../docs/which-tool.md")]
    struct WhichTool;
    #[doc = include_str!("../../docs/workflow.md")]
    struct AWorkflow;
}
