//! Rollout policies: how slowly the assets of a policy group follow intent.
//!
//! A policy is the payload of a modelled-only asset and is edited like any other asset.

use std::{collections::BTreeMap, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use serde_json::Value;

use crate::{filter::Filter, id::AssetId, message::Message, reference::AssetRef, tolerant};

/// The rollout policy of one policy group: the assets that name it with
/// [`RolloutPolicyRef`](crate::addons::RolloutPolicyRef).
///
/// Every part is optional. A part that is left out adds no caution of its kind.
///
/// ```
/// use prodspec_model::rollout::{Amount::Percent, OnStall, RolloutPolicy};
/// use std::time::Duration;
///
/// let policy = RolloutPolicy::default()
///     .domains(["eu", "us"])
///     .canary(1, Duration::from_secs(1800))
///     .wave(Percent(10), Duration::from_secs(600))
///     .max_in_flight(5)
///     .on_stall(Duration::from_secs(3600), OnStall::RollBack);
/// # assert_eq!(policy.canary.map(|canary| canary.bake_secs), Some(1800));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename = "prodspec.v1.RolloutPolicy")]
#[schemars(deny_unknown_fields)]
pub struct RolloutPolicy {
    /// How the assets of the group are updated. A way that this program version does not know is read as
    /// [`Update::Pins`].
    #[serde(deserialize_with = "update", skip_serializing_if = "Update::is_pins")]
    pub update: Update,
    /// Failure domains, in the order in which they are updated, one at a time. Domains that are not listed follow,
    /// sorted by name; targets without a domain, and targets that can harm every domain, come last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The first few targets, updated before all others. `None`: no canary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// The waves, each with the total number of targets that are updated at its end. The remaining targets follow after
    /// the last wave.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Wave>,
    /// Seconds for which each domain, and at the end all targets, must stay settled and healthy.
    pub bake_secs: u64,
    /// Maximum number of targets that are being updated at once. `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Maximum number of targets of one failure domain that are being updated or out of sync at once. `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// For rollbacks: seconds after which a target that has not gone back yet is no longer counted under the two limits
    /// above. One unreachable target then does not keep others at the failed content. 600 by default; it should be
    /// longer than a push takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_secs: Option<u64>,
    /// The reason why no further target is selected while this field is set. `None`: selection goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// The action when the updated targets are unhealthy.
    pub on_unhealthy: OnUnhealthy,
    /// Seconds without progress after which a rollout is flagged. Without progress means: no target moves or settles,
    /// and the rollout waits neither for a point in time nor for an operator. 1,800 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_secs: Option<u64>,
    /// The action, in addition to the flag, after `progress_secs` without progress.
    pub on_stall: OnStall,
    /// How the first rollout of a group proceeds, before the group has anything in production.
    pub first_turnup: FirstTurnup,
    /// Skips domains, canary, waves and bake times, and moves pins for the cause `Emergency`. The limits still apply.
    /// `None`: no emergency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emergency: Option<Emergency>,
}

fn update<'de, D: Deserializer<'de>>(from: D) -> Result<Update, D::Error> {
    tolerant::known_or(from, |_| Update::Pins)
}

impl RolloutPolicy {
    /// Sets how the assets of the group are updated.
    #[must_use]
    pub fn update(mut self, update: Update) -> Self {
        self.update = update;
        self
    }

    /// Sets the order in which failure domains are updated, one at a time.
    #[must_use]
    pub fn domains<D: Into<String>>(mut self, domains: impl IntoIterator<Item = D>) -> Self {
        self.domains = domains.into_iter().map(Into::into).collect();
        self
    }

    /// Updates `count` targets first. They have to stay settled and healthy for `bake`, in whole seconds.
    #[must_use]
    pub fn canary(mut self, count: u32, bake: Duration) -> Self {
        let bake_secs = bake.as_secs();
        self.canary = Some(Canary { count, bake_secs });
        self
    }

    /// Adds a wave, at whose end `upto` targets are updated. They have to stay settled and healthy for `bake`, in whole
    /// seconds.
    #[must_use]
    pub fn wave(mut self, upto: Amount, bake: Duration) -> Self {
        let bake_secs = bake.as_secs();
        self.waves.push(Wave { upto, bake_secs });
        self
    }

    /// Sets how long each domain, and at the end all targets, must stay settled and healthy, in whole seconds.
    #[must_use]
    pub fn bake(mut self, bake: Duration) -> Self {
        self.bake_secs = bake.as_secs();
        self
    }

    /// Sets the maximum number of targets that are being updated at once.
    #[must_use]
    pub fn max_in_flight(mut self, max: u32) -> Self {
        self.max_in_flight = Some(max);
        self
    }

    /// Sets the maximum number of targets of one failure domain that are being updated or out of sync at once.
    #[must_use]
    pub fn max_unavailable(mut self, max: u32) -> Self {
        self.max_unavailable = Some(max);
        self
    }

    /// Sets the action when the updated targets are unhealthy.
    #[must_use]
    pub fn on_unhealthy(mut self, action: OnUnhealthy) -> Self {
        self.on_unhealthy = action;
        self
    }

    /// Sets how long a target that goes back counts against limits, in whole seconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience_secs = Some(patience.as_secs());
        self
    }

    /// Sets the time without progress after which the rollout is flagged, in whole seconds, and the action then.
    #[must_use]
    pub fn on_stall(mut self, after: Duration, action: OnStall) -> Self {
        self.progress_secs = Some(after.as_secs());
        self.on_stall = action;
        self
    }

    /// Sets how the first rollout of the group proceeds.
    #[must_use]
    pub fn first_turnup(mut self, first: FirstTurnup) -> Self {
        self.first_turnup = first;
        self
    }

    /// Selects no further target, for this reason.
    #[must_use]
    pub fn hold(mut self, why: impl Into<String>) -> Self {
        self.hold = Some(why.into());
        self
    }

    /// Declares an emergency: `who` gives the command, for the reason `why`.
    #[must_use]
    pub fn emergency(mut self, who: impl Into<String>, why: impl Into<String>) -> Self {
        let (who, why) = (who.into(), why.into());
        self.emergency = Some(Emergency { who, why });
        self
    }
}

impl Message for RolloutPolicy {
    const TYPE: &'static str = "prodspec.v1.RolloutPolicy";
}

/// The canary of a rollout: the first few targets, updated before all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Canary")]
#[schemars(deny_unknown_fields)]
pub struct Canary {
    /// Number of targets in the canary, at least 1.
    pub count: u32,
    /// Seconds for which the targets must stay settled and healthy. 0 by default.
    #[serde(default)]
    pub bake_secs: u64,
}

/// One wave of a rollout: a part of the targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Wave")]
#[schemars(deny_unknown_fields)]
pub struct Wave {
    /// Number of targets that are updated at the end of the wave, including the targets of earlier waves.
    pub upto: Amount,
    /// Seconds for which the targets must stay settled and healthy. 0 by default.
    #[serde(default)]
    pub bake_secs: u64,
}

/// A number of targets, absolute or relative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// An absolute number of targets.
    Count(u32),
    /// Per cent of all targets (1 to 100), rounded up to whole targets.
    Percent(u8),
}

impl Amount {
    /// The number of targets that this amount means, given `all` targets. Never more than `all`.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => all.min(count as usize),
            Self::Percent(percent) => all
                .saturating_mul(usize::from(percent.min(100)))
                .div_ceil(100),
        }
    }
}

/// A change of fields of sources for some assets, rolled out step by step. Its targets are assets of groups that are
/// updated by [edits](Update::Edits). Several changes of other fields may be live on the same assets.
///
/// It is requested by a call, or it is the payload of a modelled-only asset with the id `rollout/<name>`. Such a change
/// begins by itself, once for each content: edited while it is live, it waits for its end. If the asset is removed or turned
/// down, no further target is edited, and nothing is taken back.
///
/// ```
/// use prodspec_model::{AssetId, Filter, rollout::RollOut};
///
/// let policy = AssetId::new("policy/flags")?;
/// let flag = RollOut::new("dark-mode", policy)
///     .set("flags.dark_mode", true)
///     .on(Filter::types(["shakespeare.v1.FrontendJob"]));
/// assert_eq!(flag.set["flags.dark_mode"], true);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.RollOut")]
#[schemars(deny_unknown_fields)]
pub struct RollOut {
    /// The name of the change: 1 to 60 letters, digits, hyphens, dots and underscores.
    pub name: String,
    /// The policy asset that says how slowly the targets are updated.
    pub policy: AssetRef,
    /// The values by their fields, relative to the entry of the source that each target was made from.
    pub set: BTreeMap<String, Value>,
    /// The assets that are updated.
    #[serde(default)]
    pub on: Filter,
    /// Whether it enters no failure domain in which another change bakes, and no other one enters where it bakes. Of two
    /// changes that wait for a domain, the older one goes first.
    #[serde(default)]
    pub alone_while_baking: bool,
}

impl Message for RollOut {
    const TYPE: &'static str = "prodspec.v1.RollOut";
}

impl RollOut {
    /// A change that sets no field yet, of all assets, at the pace of `policy`.
    pub fn new(name: impl Into<String>, policy: AssetId) -> Self {
        Self {
            name: name.into(),
            policy: AssetRef::to(policy),
            set: BTreeMap::new(),
            on: Filter::default(),
            alone_while_baking: false,
        }
    }

    /// Sets a field, relative to the entry that each target was made from, such as `flags.dark_mode`.
    #[must_use]
    pub fn set(mut self, field: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set.insert(field.into(), value.into());
        self
    }

    /// Lets it bake in no failure domain together with another change.
    #[must_use]
    pub fn alone_while_baking(mut self) -> Self {
        self.alone_while_baking = true;
        self
    }

    /// Sets the assets that are updated.
    #[must_use]
    pub fn on(mut self, targets: Filter) -> Self {
        self.on = targets;
        self
    }
}

/// How the assets of a policy group are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// By their pins: the group stays at the incarnation that it completed last, and each newer one is rolled out.
    #[default]
    Pins,
    /// By edits of their sources: the group follows the newest incarnation, and changes edit fields of the targets that
    /// they have selected.
    Edits,
}

impl Update {
    /// Whether the assets are updated by their pins.
    pub fn is_pins(&self) -> bool {
        *self == Self::Pins
    }
}

/// The action when the updated targets are unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnUnhealthy {
    /// Roll all moved targets back.
    #[default]
    RollBack,
    /// Select no further target until an operator gives a command or newer intent is sealed.
    Stop,
}

/// The action, in addition to the flag, when a rollout makes no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnStall {
    /// No further action: the rollout goes on when it can.
    #[default]
    Flag,
    /// Select no further target until an operator gives a command or newer intent is sealed.
    Stop,
    /// Roll all moved targets back.
    RollBack,
}

/// How the first rollout of a group proceeds, before the group has anything in production.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirstTurnup {
    /// All targets at once: no user depends on the group yet.
    #[default]
    AtOnce,
    /// In stages, like any other rollout.
    Gradual,
}

/// The command of an operator to update a group without caution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "prodspec.v1.Emergency")]
#[schemars(deny_unknown_fields)]
pub struct Emergency {
    /// The operator who gives the command.
    pub who: String,
    /// The reason for the emergency.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_up_and_never_exceed_all_targets() {
        assert_eq!(Amount::Percent(1).of(3), 1);
        assert_eq!(Amount::Percent(50).of(3), 2);
        assert_eq!(Amount::Percent(200).of(3), 3);
        assert_eq!(Amount::Count(9).of(3), 3);
        assert_eq!(Amount::Percent(0).of(3), 0);
    }

    #[test]
    fn unknown_way_to_update_is_by_pins() {
        let read = |text| serde_json::from_str::<RolloutPolicy>(text).unwrap().update;
        assert_eq!(read(r#"{"update":"edits"}"#), Update::Edits);
        assert_eq!(read(r#"{"update":"swaps"}"#), Update::Pins);
    }

    #[test]
    fn empty_policy_is_the_default_policy() {
        let policy: RolloutPolicy = serde_json::from_str("{}").unwrap();
        assert_eq!(policy, RolloutPolicy::default());
    }
}
