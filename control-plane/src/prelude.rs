//! The items that most services need: `use control_plane::prelude::*`.

pub use crate::{
    AsIntended, BuildError, By, ControlPlane, Explained, Given, Handle, PauseScope, SourceEdit,
    Status,
};
pub use annealing_strategist::policy::{
    BakeLayer, CanaryLayer, HoldLayer, MaxInFlightLayer, MaxUnavailableLayer,
    OneDomainAtATimeLayer, WavesLayer,
};

#[cfg(feature = "calendar")]
pub use annealing_checks::CalendarLayer;
pub use annealing_checks::{
    BlastRadiusLayer, DependencySolverLayer, RateLayer, Scope, SerializeLayer, Succeeded,
    SucceededLayer, Types,
};
pub use annealing_enforcer::{Config, Plugin, Settle, TypeConfig};
pub use async_trait::async_trait;
pub use control_plane_store::{MemoryStore, Store};
#[cfg(feature = "sqlite")]
pub use control_plane_store_sqlite::SqliteStore;
pub use jiff::Timestamp;
pub use plugin_sdk::{
    AddonType, AssetPlugin, AssetType, AssetView, BoxError, Candidate, Cause, Causes, Change,
    CheckInfo, CheckPlugin, CheckRequest, Claim, Delay, Diff, DiffRequest, Document, Drafts,
    Effects, Failure, FieldChange, FieldEdit, FieldPath, Generator, GeneratorInfo, Health,
    HealthRequest, HealthValidator, Input, Judgement, Observed, Problem, Problems, PushRequest,
    Pushed, Quota, Reading, Recheck, SourceOfTruth, Transition, Turndown, Validator, Verdict,
    plugin,
    service::{AssetService, CheckLayer, HealthLayer},
};
#[cfg(all(feature = "files", unix))]
pub use prodspec_gen::Exec;
pub use prodspec_gen::{BlobDirectory, generators, validators};
#[cfg(feature = "files")]
pub use prodspec_gen::{JsonDirectory, JsonFile, TomlDirectory, TomlFile, YamlDirectory, YamlFile};
pub use prodspec_model::{
    Asset, AssetId, AssetRef, DanglingRef, ExternalRef, IncarnationId, IncarnationNo, Message,
    PartitionId, addons, rollout::RolloutPolicy,
};
pub use tower::ServiceBuilder;
