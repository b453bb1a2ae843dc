//! Wishes as assets: payload, edges, addons.

use plugin_sdk::Capacity;
use prodspec_model::{
    Asset, AssetId, AssetRef, PartitionId, TypeName,
    addons::{DependsOn, Edge, Need, PhysicalCluster, RolloutPolicyRef, Turndown},
};
use serde::{Deserialize, Serialize};

use super::{CLUSTERS, Plan, policy_id};

/// How an asset is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The provider refuses old tokens.
    Guarded,
    /// The provider cannot tell old tokens from new ones.
    Advisory,
    /// Guarded, and a push answers that it is in progress.
    Gradual,
    /// Not enforced at all.
    Concept,
}

impl Kind {
    /// Those with a plugin.
    pub const ENFORCED: [Self; 3] = [Self::Guarded, Self::Advisory, Self::Gradual];

    /// The name of the asset type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Guarded => "simulation.v1.Guarded",
            Self::Advisory => "simulation.v1.Advisory",
            Self::Gradual => "simulation.v1.Gradual",
            Self::Concept => "simulation.v1.Concept",
        }
    }
}

/// What production makes of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Bad {
    /// It serves as it should.
    #[default]
    Not,
    /// It answers with errors.
    Errors,
    /// It answers with errors, and its own health check fails whoever pushes it.
    Unhealthy,
    /// It answers with errors, and production never is as the content says.
    NeverSettles,
}

/// What every asset here holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payload {
    /// Which asset it is of.
    pub number: usize,
    /// Of whom it uses something.
    pub parent: Option<usize>,
    /// What it provides.
    pub own: u64,
    /// What it uses of its provider.
    pub uses: u64,
    /// What runs.
    pub version: u64,
    /// Content without effects.
    pub rev: u64,
    /// Whether validators let it pass.
    pub valid: bool,
    /// What production makes of it.
    #[serde(default)]
    pub bad: Bad,
    /// What it belongs to.
    pub concept: Option<AssetRef>,
}

impl Payload {
    /// What it has and uses, by unit.
    pub fn capacity(&self) -> Capacity {
        let own = (unit(self.number), self.own);
        let uses = self.parent.map(|parent| (unit(parent), self.uses));
        [Some(own), uses].into_iter().flatten().collect()
    }
}

/// The one partition.
#[allow(clippy::expect_used, reason = "a constant")]
pub fn partition() -> PartitionId {
    PartitionId::new("simulated").expect("a partition id")
}

/// The id of asset number `at`.
#[allow(clippy::expect_used, reason = "digits are always an id")]
pub fn id(at: usize) -> AssetId {
    AssetId::new(&format!("asset/{at:02}")).expect("an asset id")
}

/// The number of an asset.
pub fn number(id: &str) -> usize {
    id.rsplit('/')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(usize::MAX)
}

/// The asset that `plan` wants as number `at`.
#[allow(clippy::expect_used, reason = "all parts are made here, and valid")]
pub fn asset(plan: &Plan, at: usize) -> Asset {
    let wish = &plan.wishes[at];
    let uses = plan.uses(at);
    let payload = Payload {
        number: at,
        parent: uses.map(|(parent, _)| parent),
        own: plan.capacity(at),
        uses: uses.map_or(0, |(_, uses)| uses),
        version: wish.version,
        rev: wish.rev,
        valid: wish.valid,
        bad: wish.bad,
        concept: (at >= 2).then(|| AssetRef::to(id(at % 2))),
    };
    let mut edges = Vec::new();
    edges.extend(uses.map(|(parent, _)| Edge {
        provider: AssetRef::to(id(parent)),
        need: Need::Capacity { unit: unit(parent) },
    }));
    edges.extend(wish.schema.map(|schema| Edge {
        provider: AssetRef::to(id(schema)),
        need: Need::Version,
    }));
    edges.extend(plan.order(at).map(|before| Edge {
        provider: AssetRef::to(id(before)),
        need: Need::Order,
    }));
    let name = TypeName::new(wish.kind.type_name()).expect("a type name");
    let payload = serde_json::to_value(payload).expect("a payload is JSON");
    let mut builder = Asset::builder(id(at))
        .payload_value(name, &payload)
        .expect("a payload");
    if !edges.is_empty() {
        builder = builder.addon(&DependsOn { edges }).expect("edges");
    }
    if wish.pool {
        let cluster = CLUSTERS[wish.cluster].to_owned();
        builder = builder
            .addon(&PhysicalCluster { cluster })
            .expect("a cluster");
    }
    if let Some(group) = wish.group {
        let policy = AssetRef::to(policy_id(group));
        builder = builder
            .addon(&RolloutPolicyRef { policy })
            .expect("a policy");
    }
    if wish.turndown {
        let turndown = Turndown {
            reason: "not needed".into(),
            approved_by: "somebody".into(),
        };
        builder = builder.addon(&turndown).expect("an addon");
    }
    builder.build().expect("an asset")
}

/// The unit in which asset number `at` provides.
pub fn unit(at: usize) -> String {
    format!("u{at:02}")
}
