//! Rollout policies: how slowly the assets of a group follow intent. Modelled-only assets, edited like any other.

use serde::{Deserialize, Serialize};

use crate::message::Message;

/// How the assets that refer to it with [`RolloutPolicyRef`](crate::addons::RolloutPolicyRef) are rolled out together.
/// Every part that is left out asks for no caution of its kind.
///
/// ```
/// use prodspec_model::rollout::{Canary, RolloutPolicy};
/// let policy = RolloutPolicy {
///     domains: vec!["eu".into(), "us".into()],
///     canary: Some(Canary { count: 1, bake_secs: 1800 }),
///     ..RolloutPolicy::default()
/// };
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RolloutPolicy {
    /// Failure domains, one after the other. Those not listed follow by name; targets of none, or of all, come last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The first few, before the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// How many in all after each wave; everything that is left comes last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Wave>,
    /// Seconds that every domain, and the whole at its end, has to stay settled and healthy.
    pub bake_secs: u64,
    /// How many targets at most are on their way at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// How many targets of one failure domain at most are on their way, or out of sync, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// On the way back: seconds after which what has not got there counts under neither limit any more, so that one that
    /// cannot be reached keeps nobody else with what failed. Ten minutes if not said; longer than a push takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_secs: Option<u64>,
    /// Why nothing more is to be selected, until this is taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// What is done when the updated part is unhealthy.
    pub on_unhealthy: OnUnhealthy,
    /// Seconds after which a rollout is flagged of which nothing moves or settles, and that waits neither for a time nor
    /// for a person. Half an hour if not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_secs: Option<u64>,
    /// What else is done then.
    pub on_stall: OnStall,
    /// How a group that never had anything in production gets there.
    pub first_turnup: FirstTurnup,
    /// No caution but limits: everything at once, under the cause `Emergency`. Who asks for it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emergency: Option<Emergency>,
}

impl Message for RolloutPolicy {
    const TYPE: &'static str = "prodspec.v1.RolloutPolicy";
}

/// The first few targets, before the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// How many targets.
    pub count: u32,
    /// Seconds that they have to stay settled and healthy.
    #[serde(default)]
    pub bake_secs: u64,
}

/// A part of the targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// How many are updated when the wave is over, those before it included.
    pub upto: Amount,
    /// Seconds that they have to stay settled and healthy.
    #[serde(default)]
    pub bake_secs: u64,
}

/// A number of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// So many.
    Count(u32),
    /// Of all targets, in per cent, rounded up.
    Percent(u8),
}

impl Amount {
    /// The number among `all`.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => all.min(count as usize),
            Self::Percent(percent) => all
                .saturating_mul(usize::from(percent.min(100)))
                .div_ceil(100),
        }
    }
}

/// What is done when the updated part is unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnhealthy {
    /// Everything goes back.
    #[default]
    RollBack,
    /// Nothing more is selected, until a person says so or newer intent is there.
    Stop,
}

/// What is done, beside flagging it, when a rollout makes no progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStall {
    /// Nothing: it goes on when it can.
    #[default]
    Flag,
    /// Nothing more is selected, until a person says so or newer intent is there.
    Stop,
    /// Everything goes back.
    RollBack,
}

/// How a group that never had anything in production gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirstTurnup {
    /// At once: nobody is served yet.
    #[default]
    AtOnce,
    /// Like any other rollout.
    Gradual,
}

/// A person's word that it cannot wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Emergency {
    /// Who.
    pub who: String,
    /// Why.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cent_are_rounded_up_and_never_more_than_all() {
        assert_eq!(Amount::Percent(1).of(3), 1);
        assert_eq!(Amount::Percent(50).of(3), 2);
        assert_eq!(Amount::Percent(200).of(3), 3);
        assert_eq!(Amount::Count(9).of(3), 3);
        assert_eq!(Amount::Percent(0).of(3), 0);
    }

    #[test]
    fn an_empty_policy_is_no_caution() {
        let policy: RolloutPolicy = serde_json::from_str("{}").unwrap();
        assert_eq!(policy, RolloutPolicy::default());
    }
}
