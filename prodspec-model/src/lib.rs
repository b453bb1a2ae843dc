//! The data types of Prodspec: ids, payloads and addons, assets, partitions, incarnations.
//!
//! The crate has no async code, no IO and no clock. All types are plain values.
//!
//! ```
//! use prodspec_model::{Asset, AssetId, Message};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct FrontendJob { cluster: String, replicas: u32 }
//! impl Message for FrontendJob { const TYPE: &'static str = "shakespeare.v1.FrontendJob"; }
//!
//! let asset = Asset::builder(AssetId::new("job/eu")?)
//!     .payload(&FrontendJob { cluster: "eu".into(), replicas: 2 })?
//!     .build()?;
//! assert_eq!(asset.payload_json(), r#"{"cluster":"eu","replicas":2}"#);
//! assert_eq!(asset.payload::<FrontendJob>()?.replicas, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod addons;
pub mod asset;
pub mod canonical;
mod digest;
pub mod id;
pub mod incarnation;
pub mod message;
pub mod reference;
pub mod rollout;
pub mod snapshot;

pub use asset::{Asset, AssetBuilder, Provenance};
pub use digest::Digest;
pub use id::{AssetId, IncarnationId, IncarnationNo, PartitionId, TypeName};
pub use incarnation::{Incarnation, Revision, SourceName};
pub use message::Message;
pub use reference::{AssetRef, ExternalRef};
pub use snapshot::{Change, Snapshot};
