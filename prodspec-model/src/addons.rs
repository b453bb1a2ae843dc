//! Addons that the framework itself understands. Teams define their own addons in addition.

use std::sync::LazyLock;

use memchr::memmem;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    asset::Asset,
    id::AssetId,
    message::Message,
    reference::{AssetRef, DanglingRef},
    snapshot::Snapshot,
};

/// The dependencies of an asset: edges from this consumer to its providers. Generators usually write this addon.
///
/// ```
/// use prodspec_model::{AssetId, addons::{DependsOn, Edge}};
/// let database = AssetId::new("db/eu")?;
/// let depends = DependsOn::on([Edge::capacity(database.clone(), "qps"), Edge::version(database)]);
/// # assert_eq!(depends.edges.len(), 2);
/// # Ok::<(), prodspec_model::id::InvalidId>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.DependsOn")]
#[schemars(deny_unknown_fields)]
pub struct DependsOn {
    /// The dependency edges of this asset, in no particular order.
    pub edges: Vec<Edge>,
}

impl DependsOn {
    /// The dependencies given by these edges.
    pub fn on(edges: impl IntoIterator<Item = Edge>) -> Self {
        let edges = edges.into_iter().collect();
        Self { edges }
    }

    /// Returns the edges that `asset` declares. None if it has no such addon, or one that cannot be read: validators
    /// report that before an incarnation is sealed. An edge whose need this version does not know, because a newer
    /// version sealed it, is one of order.
    pub fn edges_of(asset: &Asset) -> Vec<Edge> {
        #[derive(Deserialize)]
        struct Tolerant {
            #[serde(deserialize_with = "edges")]
            edges: Vec<Edge>,
        }
        if let Ok(depends) = asset.addon::<Self>() {
            return depends.map(|depends| depends.edges).unwrap_or_default();
        }
        let json = asset.addon_json(Self::TYPE);
        let depends = json.and_then(|json| serde_json::from_str::<Tolerant>(json).ok());
        depends.map(|depends| depends.edges).unwrap_or_default()
    }
}

impl Message for DependsOn {
    const TYPE: &'static str = "prodspec.v1.DependsOn";
}

/// One dependency edge, from the consumer (the asset that carries it) to the provider.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename = "prodspec.v1.Edge")]
#[schemars(deny_unknown_fields)]
pub struct Edge {
    /// The asset that provides what the consumer needs.
    pub provider: AssetRef,
    /// The capacity, version or order that the consumer needs.
    pub need: Need,
}

impl Edge {
    /// The consumer takes capacity of `provider` in `unit`, such as `qps` or `qps/eu`.
    pub fn capacity(provider: AssetId, unit: impl Into<String>) -> Self {
        Self::to(provider, Need::Capacity { unit: unit.into() })
    }

    /// The consumer needs a provider whose version is not older than its own.
    pub fn version(provider: AssetId) -> Self {
        Self::to(provider, Need::Version)
    }

    /// The consumer is pushed only while `provider` is settled.
    pub fn order(provider: AssetId) -> Self {
        Self::to(provider, Need::Order)
    }

    fn to(provider: AssetId, need: Need) -> Self {
        let provider = AssetRef::to(provider);
        Self { provider, need }
    }
}

/// Reads edges. An edge whose need is not known, because a newer program version wrote it, is one of order: the consumer
/// is pushed only while its provider is settled, which is the strictest need. For `deserialize_with` on fields of records.
///
/// # Errors
/// When an edge names no provider.
pub fn edges<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Edge>, D::Error> {
    let read = |value: Value| {
        Edge::deserialize(&value).or_else(|wrong| {
            let provider = serde_json::from_value(value["provider"]["$asset"].clone());
            provider.map(Edge::order).map_err(|_| wrong)
        })
    };
    let all = Vec::<Value>::deserialize(from)?.into_iter().map(read);
    all.collect::<Result<_, _>>()
        .map_err(serde::de::Error::custom)
}

/// The kind of a dependency. Enforcement compares the values observed in production, not the values in intent.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Need {
    /// The sum of all consumers' capacity in `unit` must fit the provider's capacity in `unit`.
    Capacity {
        /// The unit of capacity that both assets report, such as `qps` or `qps/eu`.
        unit: String,
    },
    /// The provider's observed version must be at least the consumer's observed version, at every instant.
    Version,
    /// The consumer is pushed only while the provider is settled.
    Order,
}

/// The failure domains that a change of this asset can harm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImpactedDomains {
    /// A change can harm every failure domain.
    Global,
    /// A change can harm the named failure domains only.
    Domains(Vec<String>),
}

impl Message for ImpactedDomains {
    const TYPE: &'static str = "prodspec.v1.ImpactedDomains";
}

/// The physical cluster that an asset runs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.PhysicalCluster")]
#[schemars(deny_unknown_fields)]
pub struct PhysicalCluster {
    /// The name of the physical cluster.
    pub cluster: String,
}

impl PhysicalCluster {
    /// The physical cluster of this name.
    pub fn new(cluster: impl Into<String>) -> Self {
        let cluster = cluster.into();
        Self { cluster }
    }
}

impl Message for PhysicalCluster {
    const TYPE: &'static str = "prodspec.v1.PhysicalCluster";
}

/// The rollout policy of an asset. Assets that name the same policy form a policy group and are rolled out together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.RolloutPolicyRef")]
#[schemars(deny_unknown_fields)]
pub struct RolloutPolicyRef {
    /// The asset that holds the [`RolloutPolicy`](crate::rollout::RolloutPolicy).
    pub policy: AssetRef,
}

impl RolloutPolicyRef {
    /// Refers to the policy that the asset `policy` holds.
    pub fn to(policy: AssetId) -> Self {
        let policy = AssetRef::to(policy);
        Self { policy }
    }
}

impl Message for RolloutPolicyRef {
    const TYPE: &'static str = "prodspec.v1.RolloutPolicyRef";
}

/// Asks for the removal of the asset's resource from production.
///
/// This addon is the only way to ask for it: an asset that is missing from intent is never removed from production.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Turndown")]
#[schemars(deny_unknown_fields)]
pub struct Turndown {
    /// The reason for the removal, for operators and audit records.
    pub reason: String,
    /// The person who approved the removal.
    pub approved_by: String,
}

impl Turndown {
    /// Asks for the removal for this reason, which this person approved.
    pub fn new(reason: impl Into<String>, approved_by: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            approved_by: approved_by.into(),
        }
    }
}

impl Message for Turndown {
    const TYPE: &'static str = "prodspec.v1.Turndown";
}

/// Says that the asset was renamed: until now it had the id `from`. Its resource in production is the same.
///
/// Put it on the asset under its new id, in the edit that removes the old id. It may stay in the sources for as long as
/// you like: once the rename is done it has no effect. Renaming the resource itself is the task of the plugin.
///
/// ```
/// use prodspec_model::{Asset, AssetId, addons::Moved};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Job { tasks: u32 }
/// # impl prodspec_model::Message for Job { const TYPE: &'static str = "docs.v1.Job"; }
/// let moved = Moved::from(AssetId::new("job/eu")?);
/// let job = Asset::builder(AssetId::new("job/europe")?).payload(&Job { tasks: 3 })?.addon(&moved)?.build()?;
/// assert_eq!(Moved::source_of(&job), Some(AssetId::new("job/eu")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The id that the asset had before. It may dangle, because no asset has that id any more.
    pub from: DanglingRef,
}

static RENAMED: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(Moved::TYPE));

impl Moved {
    /// The asset had the id `from` before.
    pub fn from(from: AssetId) -> Self {
        let from = DanglingRef::to(from);
        Self { from }
    }

    /// The id that `asset` had before, as it says itself. `None`: it was not renamed, or its addon cannot be read:
    /// validators report that before an incarnation is sealed.
    pub fn source_of(asset: &Asset) -> Option<AssetId> {
        // Nearly no asset has the addon, and a search costs less than reading all addons.
        RENAMED.find(asset.canonical().as_bytes())?;
        let moved = asset.addon::<Self>().ok().flatten()?;
        Some(moved.from.id)
    }

    /// The assets of `snapshot` that had the id `from` before, as they say themselves, sorted by id. Validators refuse
    /// more than one. The cost is that of all references to `from`.
    pub fn successors(snapshot: &Snapshot, from: &str) -> Vec<Asset> {
        let referrers = snapshot.referrers(from).into_iter();
        let assets = referrers.filter_map(|id| snapshot.get(id.as_str()));
        let moved = |asset: &Asset| Self::source_of(asset).is_some_and(|id| id.as_str() == from);
        assets.filter(moved).collect()
    }

    /// The one asset of `snapshot` that had the id `from` before. `None`: none says so, or several do.
    pub fn successor(snapshot: &Snapshot, from: &str) -> Option<Asset> {
        let mut successors = Self::successors(snapshot, from);
        successors.pop().filter(|_| successors.is_empty())
    }
}

impl Message for Moved {
    const TYPE: &'static str = "prodspec.v1.Moved";
}

/// The contact for questions about an asset. (In the rest of the framework "owner" means the owner of a partition.)
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Owner")]
#[schemars(deny_unknown_fields)]
pub struct Owner {
    /// The name of a team, an on-call rota or a person.
    pub owner: String,
}

impl Owner {
    /// The contact of this name.
    pub fn new(owner: impl Into<String>) -> Self {
        let owner = owner.into();
        Self { owner }
    }
}

impl Message for Owner {
    const TYPE: &'static str = "prodspec.v1.Owner";
}
