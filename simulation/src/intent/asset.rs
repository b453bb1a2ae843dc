//! Builds assets from wishes: payload, edges and addons.

use plugin_sdk::Capacity;
use prodspec_model::{
    Asset, AssetId, AssetRef, PartitionId, TypeName,
    addons::{DependsOn, Edge, Moved, Need, PhysicalCluster, RolloutPolicyRef, Turndown},
};
use serde::{Deserialize, Serialize};

use super::{CLUSTERS, Plan, policy_id};

/// Kind of an asset: how its provider treats pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The provider refuses calls with old tokens.
    Guarded,
    /// The provider cannot distinguish old tokens from new ones.
    Advisory,
    /// A guarded provider whose pushes answer that they are in progress.
    Gradual,
    /// The asset is only modelled and has no plugin.
    Concept,
}

impl Kind {
    /// The kinds that are enforced by a plugin.
    pub const ENFORCED: [Self; 3] = [Self::Guarded, Self::Advisory, Self::Gradual];

    /// Name of the asset type of this kind.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Guarded => "simulation.v1.Guarded",
            Self::Advisory => "simulation.v1.Advisory",
            Self::Gradual => "simulation.v1.Gradual",
            Self::Concept => "simulation.v1.Concept",
        }
    }
}

/// How production behaves with a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Bad {
    /// The content is good: the resource serves without errors.
    #[default]
    Not,
    /// The resource answers with errors.
    Errors,
    /// The resource answers with errors, and pushes fail because its own health check fails.
    Unhealthy,
    /// The resource answers with errors, and diffs always find a difference.
    NeverSettles,
}

/// Payload of every asset in the simulation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Payload {
    /// Number of the asset itself.
    pub number: usize,
    /// Number of the provider that the asset uses; `None` without one.
    pub parent: Option<usize>,
    /// Capacity that the asset provides to consumers.
    pub own: u64,
    /// Capacity that the asset uses of its provider.
    pub uses: u64,
    /// Version that is meant to run.
    pub version: u64,
    /// Revision: changing it changes the content without any effect.
    pub rev: u64,
    /// Whether the validators accept the asset.
    pub valid: bool,
    /// How production behaves with this content.
    #[serde(default)]
    pub bad: Bad,
    /// The concept that the asset refers to; `None` for concepts themselves.
    pub concept: Option<AssetRef>,
}

impl Payload {
    /// The capacity that the asset provides and uses, by unit.
    pub fn capacity(&self) -> Capacity {
        let own = (unit(self.number), self.own);
        let uses = self.parent.map(|parent| (unit(parent), self.uses));
        [Some(own), uses].into_iter().flatten().collect()
    }
}

/// Id of the simulation's only partition.
#[allow(clippy::expect_used, reason = "the id is a valid constant")]
pub fn partition() -> PartitionId {
    PartitionId::new("simulated").expect("the constant is a valid partition id")
}

/// The id of asset number `at`, unless it was renamed; see [`Plan::id`].
#[allow(clippy::expect_used, reason = "digits form a valid id")]
pub fn id(at: usize) -> AssetId {
    AssetId::new(&format!("asset/{at:02}")).expect("digits form a valid asset id")
}

impl Plan {
    /// The id of asset number `at` in this plan. Both ids of a renamed asset end with its number, and production has one
    /// resource for both.
    #[allow(clippy::expect_used, reason = "digits form a valid id")]
    pub fn id(&self, at: usize) -> AssetId {
        match self.wishes[at].renamed {
            false => id(at),
            true => AssetId::new(&format!("asset/renamed/{at:02}"))
                .expect("digits form a valid asset id"),
        }
    }
}

/// The number at the end of an id; `usize::MAX` if there is none.
pub fn number(id: &str) -> usize {
    id.rsplit('/')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(usize::MAX)
}

/// The edges of asset number `at` to its providers.
fn edges(plan: &Plan, at: usize) -> Vec<Edge> {
    let capacity = plan.uses(at).map(|(parent, _)| Edge {
        provider: AssetRef::to(plan.id(parent)),
        need: Need::Capacity { unit: unit(parent) },
    });
    let version = plan.wishes[at].schema.map(|schema| Edge {
        provider: AssetRef::to(plan.id(schema)),
        need: Need::Version,
    });
    let order = plan.order(at).map(|before| Edge {
        provider: AssetRef::to(plan.id(before)),
        need: Need::Order,
    });
    capacity.into_iter().chain(version).chain(order).collect()
}

/// Builds asset number `at` as `plan` wants it.
#[allow(clippy::expect_used, reason = "all parts are built here and valid")]
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
    let edges = edges(plan, at);
    let name = TypeName::new(wish.kind.type_name()).expect("the constant is a valid type name");
    let payload = serde_json::to_value(payload).expect("the payload is valid JSON");
    let mut builder = Asset::builder(plan.id(at))
        .payload_value(name, &payload)
        .expect("the payload is valid");
    if !edges.is_empty() {
        builder = builder
            .addon(&DependsOn { edges })
            .expect("the edges are valid");
    }
    if wish.renamed {
        builder = builder
            .addon(&Moved::from(id(at)))
            .expect("the old id is valid");
    }
    if wish.pool {
        let cluster = CLUSTERS[wish.cluster].to_owned();
        builder = builder
            .addon(&PhysicalCluster { cluster })
            .expect("the cluster is valid");
    }
    if let Some(group) = wish.group {
        let policy = AssetRef::to(policy_id(group));
        builder = builder
            .addon(&RolloutPolicyRef { policy })
            .expect("the policy reference is valid");
    }
    if wish.turndown {
        let turndown = Turndown {
            reason: "not needed".into(),
            approved_by: "an operator".into(),
        };
        builder = builder.addon(&turndown).expect("the turndown is valid");
    }
    builder.build().expect("the asset is complete")
}

/// The unit of the capacity that asset number `at` provides.
pub fn unit(at: usize) -> String {
    format!("u{at:02}")
}
