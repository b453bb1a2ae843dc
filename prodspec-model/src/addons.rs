//! Addons that the framework itself understands. Teams define their own beside these.

use serde::{Deserialize, Serialize};

use crate::{message::Message, reference::AssetRef};

/// What an asset needs of others: edges from this consumer to its providers. Usually generated, declared once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DependsOn {
    /// The edges, in no particular order.
    pub edges: Vec<Edge>,
}

impl Message for DependsOn {
    const TYPE: &'static str = "prodspec.v1.DependsOn";
}

/// One dependency edge, consumer (the asset that carries it) to provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Who provides.
    pub provider: AssetRef,
    /// What is needed.
    pub need: Need,
}

/// What a consumer needs of a provider. Compared on what production has, not on what intent says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum Need {
    /// The sum of all consumers' capacity in `unit` must fit the provider's capacity in `unit`.
    Capacity {
        /// The unit both ends report, such as `qps` or `qps/eu`.
        unit: String,
    },
    /// The provider's observed version must be at least the consumer's observed version, at every instant.
    Version,
    /// The consumer is pushed only while the provider is settled.
    Order,
}

/// The failure domains that a change of this asset can hurt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImpactedDomains {
    /// Every one.
    Global,
    /// These.
    Domains(Vec<String>),
}

impl Message for ImpactedDomains {
    const TYPE: &'static str = "prodspec.v1.ImpactedDomains";
}

/// The physical cluster that an asset lives in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhysicalCluster {
    /// The cluster's name.
    pub cluster: String,
}

impl Message for PhysicalCluster {
    const TYPE: &'static str = "prodspec.v1.PhysicalCluster";
}

/// Which policy asset governs the rollout of this asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RolloutPolicyRef {
    /// The policy.
    pub policy: AssetRef,
}

impl Message for RolloutPolicyRef {
    const TYPE: &'static str = "prodspec.v1.RolloutPolicyRef";
}

/// The resource is to be removed from production. The only way to ask for that: absence never means removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turndown {
    /// Why, for people and for the audit.
    pub reason: String,
    /// Who agreed that it may go.
    pub approved_by: String,
}

impl Message for Turndown {
    const TYPE: &'static str = "prodspec.v1.Turndown";
}

/// Whom to ask about an asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// A team, a rota or a person.
    pub owner: String,
}

impl Message for Owner {
    const TYPE: &'static str = "prodspec.v1.Owner";
}
