#![doc = include_str!("../README.md")]
//!
//! Plugin traits and tower services convert both ways: see [`service`].

pub mod asset_type;
pub mod blobs;
mod by;
pub mod check;
mod claim;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod diff;
pub mod dispatch;
pub mod document;
pub mod edit;
pub mod error;
mod failure;
pub mod feed;
pub mod generate;
pub mod graph;
pub mod health;
pub mod intent;
pub mod metric;
pub mod observe;
pub mod operation;
pub mod pin;
pub mod port;
pub mod problem;
pub mod push;
pub mod reader;
pub mod replicas;
mod rollout;
pub mod run;
pub mod select;
pub mod service;
mod setters;
pub mod signal;
pub mod source;
mod sources;
pub mod standing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod time;
pub mod turndown;
pub mod validate;
pub mod workflow;

pub use asset_type::{AddonType, AssetType, AssetTypes, AssetView, Capacity};
pub use blobs::Blobs;
pub use by::By;
pub use check::{
    AWAITS_APPROVAL, Approved, CheckInfo, CheckName, CheckPlugin, CheckRequest, DEAD_END, Delay,
    Recheck, Verdict,
};
pub use claim::{Claim, Key, Quota, claims};
pub use diff::{Change, Diff, DiffRequest, Effects, FieldChange, Observed, Transition};
pub use dispatch::{Class, Dispatch, DispatchPlugin, DispatchRequest};
pub use document::{Document, FieldPath, Located};
pub use edit::{
    ChangeId, EditError, EditTemplate, EditableSource, FieldEdit, Holder, Proposal, SourceChange,
};
pub use error::{BoxError, with_causes};
pub use failure::Failure;
pub use feed::{Enforcement, Feed, FeedItem, Follow};
pub use generate::{Drafts, Entry, Generator, GeneratorInfo, Input};
pub use health::{Finding, Health, HealthRequest, HealthValidator, Judgement, Watched};
pub use intent::AssetIntent;
pub use metric::{
    Counter, Expression, MetricQuery, MetricReading, MetricSource, Quantity, SampleQuery,
    SampleSource, Series, Windows,
};
pub use observe::{Observation, PartitionView, Served, Serving, Shared, Usage};
pub use operation::{OperationFunction, Probe};
pub use pin::{Actuation, Actuator, GroupHead, Pin, RehearsedRollouts};
pub use port::Edits;
pub use problem::{Problem, Problems, Severity};
pub use push::{AssetPlugin, Guard, PushRequest, Pushed};
pub use reader::IncarnationReader;
pub use replicas::Replicas;
pub use rollout::RolloutId;
pub use run::{Cause, Causes, FencingToken, Run, Stamp};
pub use select::{
    Census, ChecksAhead, Direction, Domains, Progress, SelectRequest, Selection, Tally, Target,
    TargetList, TargetSelection, Until, Wait,
};
pub use signal::{Alert, SignalSource, Signals, Silence};
pub use source::{Delta, Reading, SourceOfTruth, Update};
pub use sources::Sources;
pub use standing::{Relation, Standing, SyncState};
pub use time::{Mono, Now};
pub use turndown::Turndown;
pub use validate::{Candidate, ExternalValidator, Validator};

/// The error type of asset plugins, as `plugin::Error`.
pub mod plugin {
    pub use crate::error::PluginError as Error;
}
