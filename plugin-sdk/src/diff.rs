//! Diffs: the comparison of one asset's intent with production. A diff is the only way in which the enforcer sees
//! production.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use prodspec_model::{Asset, Digest, canonical};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    intent::{AssetIntent, about_one_asset},
    run::{FencingToken, Run},
};

/// Asks a plugin to compare one asset's intent with production.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DiffRequest {
    /// The asset to compare, and the incarnation whose content is compared with production.
    #[serde(flatten)]
    pub intent: AssetIntent,
    /// Fencing token of the owner that asks. Diffs carry it too, so that a provider learns of a new owner before the
    /// owner's first push. Token 0 belongs to a plan, which owns nothing: never refuse it.
    pub token: FencingToken,
    /// Identifies this call. Providers use its number to refuse late calls.
    pub run: Run,
}

impl DiffRequest {
    /// Makes a request as the enforcer and plans do; tests of plugins use it too.
    pub fn new(intent: AssetIntent, token: FencingToken, run: Run) -> Self {
        Self { intent, token, run }
    }

    about_one_asset!();
}

/// The state of an asset in production that matters to other assets. The plugin chooses the units; both ends of an edge
/// use the same units.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Observed {
    /// Serving capacity per unit, as it is in production now. While the capacity changes, report the smallest value for
    /// assets that rely on it, and the largest for assets that it relies on. Report [`Diff::InProgress`] when one
    /// number cannot express both.
    pub capacity: BTreeMap<String, u64>,
    /// The version that runs, comparable with `>=` among assets that depend on each other. `None`: nothing runs, or the
    /// type has no version.
    pub version: Option<u64>,
}

impl Observed {
    /// Adds the serving capacity in one unit, such as `qps`.
    #[must_use]
    pub fn capacity(mut self, unit: impl Into<String>, amount: u64) -> Self {
        self.capacity.insert(unit.into(), amount);
        self
    }

    /// Sets the version that runs. `None`: nothing runs.
    #[must_use]
    pub fn version(mut self, version: impl Into<Option<u64>>) -> Self {
        self.version = version.into();
        self
    }
}

/// The result of comparing intent and production.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "diff", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Diff {
    /// Production matches intent; a push has nothing to do.
    InSync {
        /// The state of the asset in production.
        observed: Observed,
        /// Time of the next diff, even if nothing changes before: for intent that depends on time. `None`: at the next
        /// drift scan.
        look_again_at: Option<Timestamp>,
    },
    /// Production differs from intent; a push would change it.
    Differs {
        /// The change that a push would make.
        change: Box<Change>,
        /// The state of the asset in production.
        observed: Observed,
    },
    /// Work on this asset is under way in production. The asset is not in sync, and is not pushed now.
    InProgress {
        /// Time until the next diff.
        check_again_in: Duration,
    },
    /// The resource is marked as belonging to another system. It is reported and never pushed.
    Foreign {
        /// Name of the system that the resource belongs to.
        owner: String,
    },
}

impl Diff {
    /// Production matches intent. Nothing is observed, and the next diff is that of the drift scan.
    pub fn in_sync() -> Self {
        Self::InSync {
            observed: Observed::default(),
            look_again_at: None,
        }
    }

    /// A push would make this change. Nothing is observed.
    pub fn differs(change: Change) -> Self {
        Self::Differs {
            change: Box::new(change),
            observed: Observed::default(),
        }
    }

    /// Work on the asset is under way; the next diff comes after `check_again_in`.
    pub fn in_progress(check_again_in: Duration) -> Self {
        Self::InProgress { check_again_in }
    }

    /// The resource belongs to another system, `owner`.
    pub fn foreign(owner: impl Into<String>) -> Self {
        Self::Foreign {
            owner: owner.into(),
        }
    }

    /// Sets the state of the asset in production, for results that carry one: in sync, and differs.
    #[must_use]
    pub fn observed(mut self, state: Observed) -> Self {
        if let Self::InSync { observed, .. } | Self::Differs { observed, .. } = &mut self {
            *observed = state;
        }
        self
    }

    /// Sets the wall-clock time of the next diff, for a result that is in sync.
    #[must_use]
    pub fn look_again_at(mut self, time: Timestamp) -> Self {
        if let Self::InSync { look_again_at, .. } = &mut self {
            *look_again_at = Some(time);
        }
        self
    }

    /// The capacity in `unit` that production has of the asset now, and the capacity after a push, if a push is to
    /// come. `None` for [`Diff::InProgress`] and [`Diff::Foreign`], which carry no capacity.
    pub fn capacity(&self, unit: &str) -> Option<(u64, Option<u64>)> {
        let of = |observed: &Observed| observed.capacity.get(unit).copied().unwrap_or_default();
        match self {
            Self::InSync { observed, .. } => Some((of(observed), None)),
            Self::Differs { change, observed } => {
                let now = of(observed);
                let soon = change.effects.capacity.get(unit);
                Some((now, Some(soon.map_or(now, |it| it.to))))
            }
            Self::InProgress { .. } | Self::Foreign { .. } => None,
        }
    }
}

/// The change that a push would make to one asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Change {
    /// A one-line summary for operators.
    pub summary: String,
    /// The fields that differ, for display.
    pub fields: Vec<FieldChange>,
    /// The effects of the change that matter to other assets, and whether it is destructive.
    pub effects: Effects,
    /// Digest of the asset's content and of the change without volatile fields. Approvals and overrides are bound to
    /// it.
    pub digest: Digest,
}

/// One field in which production differs from intent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// Path of the field, such as `tasks.replicas`.
    pub path: String,
    /// The value of the field in production.
    pub from: Value,
    /// The value of the field in intent.
    pub to: Value,
    /// Whether the value differs from one diff to the next, as times and counters do. Volatile fields are shown but are
    /// not part of the digest.
    #[serde(default)]
    pub volatile: bool,
}

/// The effects of a change that matter to other assets and to approvals.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// Serving capacity per unit, before and after the push. A resource that does not exist has 0.
    pub capacity: BTreeMap<String, Transition<u64>>,
    /// Version before and after the push; `None` before or after: nothing runs. Without a transition the version does
    /// not change.
    pub version: Option<Transition<Option<u64>>>,
    /// Whether the change loses something that cannot be restored. A destructive change needs an approval bound to its
    /// digest.
    pub destructive: bool,
}

/// A value before and after a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition<T> {
    /// The value in production before the push.
    pub from: T,
    /// The value in production after the push.
    pub to: T,
}

impl Effects {
    /// The effects of a push that takes an asset from one state to another: each capacity and the version, as far as they
    /// change. They are not destructive.
    ///
    /// ```
    /// use plugin_sdk::{Effects, Observed, Transition};
    ///
    /// let before = Observed::default().capacity("qps", 100).version(3);
    /// let after = Observed::default().capacity("qps", 250).version(3);
    /// let effects = Effects::between(&before, &after);
    /// assert_eq!(effects.capacity["qps"], Transition { from: 100, to: 250 });
    /// assert_eq!(effects.version, None);
    /// ```
    pub fn between(before: &Observed, after: &Observed) -> Self {
        let of = |observed: &Observed, unit| observed.capacity.get(unit).copied().unwrap_or(0);
        let units = before.capacity.keys().chain(after.capacity.keys());
        let capacity = units.filter_map(|unit| {
            let (from, to) = (of(before, unit), of(after, unit));
            (from != to).then(|| (unit.clone(), Transition { from, to }))
        });
        let (from, to) = (before.version, after.version);
        Self {
            capacity: capacity.collect(),
            version: (from != to).then_some(Transition { from, to }),
            destructive: false,
        }
    }

    /// Adds the serving capacity in one unit before and after the push.
    #[must_use]
    pub fn capacity(mut self, unit: impl Into<String>, from: u64, to: u64) -> Self {
        self.capacity.insert(unit.into(), Transition { from, to });
        self
    }

    /// Sets the version before and after the push. `None`: nothing runs.
    #[must_use]
    pub fn version(mut self, from: impl Into<Option<u64>>, to: impl Into<Option<u64>>) -> Self {
        let (from, to) = (from.into(), to.into());
        self.version = Some(Transition { from, to });
        self
    }

    crate::setters! {
        /// Sets whether the change loses something that cannot be restored, so that it needs an approval.
        destructive: bool,
    }
}

impl Change {
    /// Makes a change of `asset`. The digest is computed from the asset's content, the fields that are not volatile and
    /// the effects.
    pub fn new(
        asset: &Asset,
        summary: impl Into<String>,
        fields: Vec<FieldChange>,
        effects: Effects,
    ) -> Self {
        let stable: Vec<_> = fields.iter().filter(|field| !field.volatile).collect();
        // JSON values and integers always have a canonical form. Values nested beyond the depth limit do not; then the
        // digest covers the asset's content alone.
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
    /// A field that is `from` in production and `to` in intent, and is not volatile.
    pub fn new(path: impl Into<String>, from: impl Into<Value>, to: impl Into<Value>) -> Self {
        Self {
            path: path.into(),
            from: from.into(),
            to: to.into(),
            volatile: false,
        }
    }
}
