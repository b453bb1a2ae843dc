//! The content of a resource, as production reads it from an asset.

use prodspec_model::{
    Asset,
    addons::{DependsOn, Need},
};

use crate::intent::{Bad, Payload, number};

/// The content of one resource in production.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// A number that differs between different contents.
    pub mark: u64,
    /// Capacity that the resource provides.
    pub own: u64,
    /// Number of the provider, and the used capacity; `None` without a provider.
    pub uses: Option<(usize, u64)>,
    /// Number of the schema: the asset whose version must be at least this version. `None` without one.
    pub schema: Option<usize>,
    /// Version that runs in production.
    pub version: u64,
    /// How well the content serves.
    pub bad: Bad,
}

impl Content {
    /// Reads the content of `asset`. An asset that cannot be read gives a content without capacity, edges and version.
    pub fn of(asset: &Asset) -> Self {
        let mut content = Self {
            mark: u64::from_le_bytes(asset.digest().0[..8].try_into().unwrap_or_default()),
            own: 0,
            uses: None,
            schema: None,
            version: 0,
            bad: Bad::Not,
        };
        let Ok(payload) = serde_json::from_str::<Payload>(asset.payload_json()) else {
            return content;
        };
        (content.own, content.version) = (payload.own, payload.version);
        content.bad = payload.bad;
        for edge in DependsOn::edges_of(asset) {
            let provider = number(edge.provider.id.as_str());
            match edge.need {
                Need::Capacity { .. } => content.uses = Some((provider, payload.uses)),
                Need::Version => content.schema = Some(provider),
                _ => {}
            }
        }
        content
    }
}
