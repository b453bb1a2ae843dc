//! What a resource holds, as production reads it.

use prodspec_model::{
    Asset,
    addons::{DependsOn, Need},
};

use crate::intent::{Bad, Payload, number};

/// The content of one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// Tells contents apart.
    pub mark: u64,
    /// What it provides.
    pub own: u64,
    /// Of whom it uses how much.
    pub uses: Option<(usize, u64)>,
    /// Whose version has to be at least its own.
    pub schema: Option<usize>,
    /// What runs.
    pub version: u64,
    /// How it serves.
    pub bad: Bad,
}

impl Content {
    /// What `asset` says. An asset that cannot be read says nothing.
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
        let edges = asset.addon::<DependsOn>().ok().flatten();
        for edge in edges.map(|depends| depends.edges).unwrap_or_default() {
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
