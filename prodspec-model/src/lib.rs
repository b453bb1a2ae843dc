#![doc = include_str!("../README.md")]

pub mod addons;
pub mod asset;
pub mod canonical;
mod digest;
pub mod external;
mod filter;
pub mod goal;
pub mod id;
pub mod incarnation;
pub mod message;
pub mod operation;
pub mod policy;
#[cfg(feature = "protobuf")]
pub mod protobuf;
pub mod reference;
pub mod rollout;
pub mod snapshot;
pub mod tolerant;
pub mod train;

pub use asset::{Asset, AssetBuilder, Provenance};
pub use digest::Digest;
pub use external::ExternalRef;
pub use filter::Filter;
pub use id::{AssetId, IncarnationId, IncarnationNo, PartitionId, TypeName};
pub use incarnation::{Incarnation, Revision, SourceName};
pub use message::Message;
pub use reference::{AssetRef, DanglingRef};
pub use snapshot::{Change, Snapshot};
