//! Diff: the only window on production.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use prodspec_model::{Asset, AssetId, Digest, IncarnationId, canonical};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    reader::IncarnationReader,
    run::{FencingToken, Run},
};

/// Compare one asset's intent with production.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiffRequest {
    /// Which asset.
    pub asset: AssetId,
    /// At which incarnation.
    pub incarnation: IncarnationId,
    /// Who asks. Sent with diffs too, so that a provider hears of a new owner before its first push. Token 0 is a plan's,
    /// which owns nothing: it is never fenced.
    pub token: FencingToken,
    /// Which call this is.
    pub run: Run,
    /// Reads `incarnation`; travels beside the data.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

/// What production has, as far as other assets care. Units are the plugin's own; both ends of an edge use the same.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Observed {
    /// Serving capacity per unit, as it is in production now. While it changes: the smallest for those who rely on
    /// it, the largest for those it relies on; report [`Diff::InProgress`] when one number cannot say it.
    pub capacity: BTreeMap<String, u64>,
    /// The version that runs, comparable with `>=` among assets that depend on each other.
    pub version: Option<u64>,
}

/// How intent and production compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "diff", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Diff {
    /// Nothing to do.
    InSync {
        /// What production has.
        observed: Observed,
        /// Look again then, though nothing changed: for intent that falls due by time.
        look_again_at: Option<Timestamp>,
    },
    /// A push would change something.
    Differs {
        /// What it would change.
        change: Box<Change>,
        /// What production has.
        observed: Observed,
    },
    /// Work on this asset is under way in production; neither in sync nor to be pushed now.
    InProgress {
        /// When to look again.
        check_again_in: Duration,
    },
    /// The resource is marked as another system's. Reported, never pushed.
    Foreign {
        /// Whose it is.
        owner: String,
    },
}

impl Diff {
    /// In sync, with nothing that others care about.
    pub fn in_sync() -> Self {
        Self::InSync {
            observed: Observed::default(),
            look_again_at: None,
        }
    }

    /// How much capacity in `unit` production has of the asset, and how much it has after a push, if one is to come.
    /// `None`: the diff does not tell.
    pub fn capacity(&self, unit: &str) -> Option<(u64, Option<u64>)> {
        let of = |observed: &Observed| observed.capacity.get(unit).copied().unwrap_or_default();
        match self {
            Self::InSync { observed, .. } => Some((of(observed), None)),
            Self::Differs { change, observed } => {
                let now = of(observed);
                let soon = change.effects.capacity.get(unit);
                Some((now, Some(soon.map_or(now, |(_, to)| *to))))
            }
            Self::InProgress { .. } | Self::Foreign { .. } => None,
        }
    }
}

/// What a push would change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// One line for people.
    pub summary: String,
    /// Field by field.
    pub fields: Vec<FieldChange>,
    /// What other assets care about.
    pub effects: Effects,
    /// Over the asset's content and the change without volatile fields: what approvals and overrides are bound to.
    pub digest: Digest,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Where, such as `tasks.replicas`.
    pub path: String,
    /// In production.
    pub from: Value,
    /// In intent.
    pub to: Value,
    /// Differs from look to look (times, counters): shown, but not part of the digest.
    #[serde(default)]
    pub volatile: bool,
}

/// The effects of a change that other assets care about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// Serving capacity per unit, from and to. A resource that does not exist has 0.
    pub capacity: BTreeMap<String, (u64, u64)>,
    /// Version, from and to. `None` where nothing runs.
    pub version: Option<(Option<u64>, Option<u64>)>,
    /// Loses something that cannot be had back: needs an approval bound to the change's digest.
    pub destructive: bool,
}

impl Change {
    /// A change of `asset`, its digest computed from the asset's content, the stable fields and the effects.
    pub fn new(
        asset: &Asset,
        summary: impl Into<String>,
        fields: Vec<FieldChange>,
        effects: Effects,
    ) -> Self {
        let stable: Vec<_> = fields.iter().filter(|field| !field.volatile).collect();
        // Values of JSON and integers always have canonical JSON; depth beyond the limit falls back to the asset alone.
        let bytes = canonical::to_bytes(&(asset.digest(), stable, &effects))
            .unwrap_or_else(|_| asset.digest().0.to_vec());
        Self {
            summary: summary.into(),
            fields,
            effects,
            digest: Digest::of(&bytes),
        }
    }
}

impl FieldChange {
    /// `path` is `from` in production and `to` in intent.
    pub fn new(path: impl Into<String>, from: impl Into<Value>, to: impl Into<Value>) -> Self {
        Self {
            path: path.into(),
            from: from.into(),
            to: to.into(),
            volatile: false,
        }
    }
}
