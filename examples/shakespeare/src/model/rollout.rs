//! How slowly edits reach production: the manifest's section `rollout` and each of `policies`, their validation, and the
//! policies made from them.

use std::fmt::Display;

use control_plane::{
    model::rollout::{
        self as policy, Amount, Emergency, FirstTurnup, OnUnhealthy, RolloutPolicy, Update,
    },
    prelude::{AssetView, Problems},
};
use serde::{Deserialize, Serialize};

/// Maximum bake, in seconds: two weeks. For longer waits there is `hold`.
const LONGEST_BAKE: u64 = 14 * 24 * 3600;
/// Maximum length of a reason or name in the section, in bytes.
const LONGEST_REASON: usize = 500;

/// The section `rollout`, and each of `policies`: how slowly the clusters follow. Each field that is missing adds no delay or limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    /// How the clusters follow: as a whole, by the pins of their assets (the default), or by changes that edit their fields
    /// one after the other. Used of the section `rollout` only.
    #[serde(default, skip_serializing_if = "Update::is_pins")]
    pub update: Update,
    /// Order of the clusters, updated one after the other. Clusters that are not listed follow, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// A few assets that are updated first. None means no canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Waves after the canary. The remaining assets follow after the last wave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Wave>,
    /// Bake of each cluster and of the whole rollout, in seconds. Default 0.
    #[serde(default)]
    pub bake: u64,
    /// Maximum number of assets in flight at once. None means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Maximum number of assets of one cluster that are in flight or out of sync at once. None means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// Reason for a hold: no further asset is updated while this field is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// Reaction to an unhealthy update: roll back (the default) or stop.
    #[serde(default)]
    pub on_unhealthy: OnUnhealthy,
    /// Emergency: update everything at once and ignore alerts. Contains who decided this, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emergency: Option<Emergency>,
}

/// The canary: a few assets that are updated before the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// Number of assets in the canary, at least 1.
    pub count: u32,
    /// Bake of the canary, in seconds. Default 0.
    #[serde(default)]
    pub bake: u64,
}

/// A wave: a part of the assets, given as `count` or as `percent`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// Number of assets that are updated at the end of this wave, including earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The same number, as a percentage of all assets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Bake of the wave, in seconds. Default 0.
    #[serde(default)]
    pub bake: u64,
}

impl Wave {
    fn upto(&self) -> Option<Amount> {
        match (self.count, self.percent) {
            (Some(count), None) => Some(Amount::Count(count)),
            (None, Some(percent)) => Some(Amount::Percent(percent)),
            _ => None,
        }
    }
}

/// A problem of the section: the path of the field inside the section, such as `waves[1].count`, and the message.
pub(super) type Wrong = (String, String);

impl Rollout {
    /// Makes the policy. The first turnup of a cluster is at once, because the cluster serves no requests yet.
    pub(super) fn policy(&self) -> RolloutPolicy {
        let canary = |canary: &Canary| policy::Canary {
            count: canary.count,
            bake_secs: canary.bake,
        };
        let wave = |wave: &Wave| {
            Some(policy::Wave {
                upto: wave.upto()?,
                bake_secs: wave.bake,
            })
        };
        RolloutPolicy {
            update: self.update,
            domains: self.domains.clone(),
            canary: self.canary.as_ref().map(canary),
            waves: self.waves.iter().filter_map(wave).collect(),
            bake_secs: self.bake,
            max_in_flight: self.max_in_flight,
            max_unavailable: self.max_unavailable,
            patience_secs: None,
            hold: self.hold.clone(),
            on_unhealthy: self.on_unhealthy,
            progress_secs: None,
            on_stall: policy::OnStall::Flag,
            first_turnup: FirstTurnup::AtOnce,
            emergency: self.emergency.clone(),
        }
    }

    /// Returns all problems of the section. `cluster` returns true for names of existing clusters.
    pub(super) fn wrong(&self, cluster: impl Fn(&str) -> bool) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (at, name) in self.domains.iter().enumerate() {
            let path = format!("domains[{at}]");
            if self.domains[..at].contains(name) {
                wrong.push((path, format!("`{name}` is listed twice")));
            } else if !cluster(name) {
                wrong.push((path, format!("there is no cluster `{name}`")));
            }
        }
        if let Some(canary) = &self.canary {
            at_least_one("canary.count", canary.count, &mut wrong);
            short_enough("canary.bake", canary.bake, &mut wrong);
        }
        self.wrong_waves(&mut wrong);
        short_enough("bake", self.bake, &mut wrong);
        for (name, limit) in [
            ("max_in_flight", self.max_in_flight),
            ("max_unavailable", self.max_unavailable),
        ] {
            if let Some(limit) = limit {
                at_least_one(name, limit, &mut wrong);
            }
        }
        if let Some(why) = &self.hold {
            a_reason("hold", why, &mut wrong);
        }
        if let Some(Emergency { who, why }) = &self.emergency {
            a_reason("emergency.who", who, &mut wrong);
            a_reason("emergency.why", why, &mut wrong);
        }
        wrong
    }

    fn wrong_waves(&self, wrong: &mut Vec<Wrong>) {
        let mut before: Option<Amount> = None;
        for (at, wave) in self.waves.iter().enumerate() {
            let here = format!("waves[{at}]");
            let of = |name| format!("{here}.{name}");
            short_enough(&of("bake"), wave.bake, wrong);
            let rises = match (before, wave.upto()) {
                (_, None) => {
                    let message = "give exactly one of `count` and `percent`".to_owned();
                    wrong.push((here, message));
                    continue;
                }
                (_, Some(Amount::Percent(percent))) if percent > 100 => {
                    let message = format!("{percent}: use at most 100 percent");
                    wrong.push((of("percent"), message));
                    continue;
                }
                (Some(Amount::Count(before)), Some(Amount::Count(now))) => now > before,
                (Some(Amount::Percent(before)), Some(Amount::Percent(now))) => now > before,
                (_, Some(Amount::Count(now))) => now > 0,
                (_, Some(Amount::Percent(now))) => now > 0,
            };
            before = wave.upto();
            if !rises {
                let name = if wave.count.is_some() {
                    "count"
                } else {
                    "percent"
                };
                let message = "each wave must be at least 1, and larger than the wave before it";
                wrong.push((of(name), message.to_owned()));
            }
        }
    }
}

/// Refuses a policy with both an emergency and a hold: a hold stops emergencies too, so the two contradict each other.
pub(super) fn check(policy: &RolloutPolicy, view: &AssetView<'_>, problems: &mut Problems) {
    if policy.hold.is_some() && policy.emergency.is_some() {
        let problem = view.problem("a hold also stops an emergency: remove `hold` or `emergency`");
        problems.push(problem.field("payload.hold"));
    }
}

fn at_least_one(path: &str, number: u32, wrong: &mut Vec<Wrong>) {
    if number == 0 {
        let message = "0: no asset would ever be updated; use 1 or more, or leave it out";
        wrong.push((path.to_owned(), message.to_owned()));
    }
}

fn short_enough(path: &str, bake: u64, wrong: &mut Vec<Wrong>) {
    if bake > LONGEST_BAKE {
        let message =
            format!("{bake}: use at most {LONGEST_BAKE} seconds; to wait longer, use `hold`");
        wrong.push((path.to_owned(), message));
    }
}

/// Checks a reason or a name: it must be a text that people can read later.
fn a_reason(path: &str, text: &str, wrong: &mut Vec<Wrong>) {
    let mut say = |message: &dyn Display| wrong.push((path.to_owned(), message.to_string()));
    if text.trim().is_empty() {
        say(&"the text is empty: fill it in, or leave it out");
    } else if text.len() > LONGEST_REASON {
        say(&format_args!(
            "{} bytes: use at most {LONGEST_REASON}",
            text.len()
        ));
    } else if text.chars().any(char::is_control) {
        say(&"use one line, without control characters");
    }
}
