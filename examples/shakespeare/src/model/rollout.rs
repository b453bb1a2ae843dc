//! How slowly edits reach production: the manifest's section `rollout`, what is wrong with one, and the policy that it
//! stands for.

use std::fmt::Display;

use control_plane::{
    model::rollout::{self as policy, Amount, Emergency, FirstTurnup, OnUnhealthy, RolloutPolicy},
    prelude::{AssetView, Problems},
};
use serde::{Deserialize, Serialize};

/// The longest bake, in seconds: two weeks. Whoever means longer holds.
const LONGEST_BAKE: u64 = 14 * 24 * 3600;
/// The longest text that a person gives as a reason, in bytes.
const LONGEST_REASON: usize = 500;

/// How slowly the clusters follow what is written. What is left out asks for no caution of its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollout {
    /// The clusters, one after the other. Those not listed follow by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The first few assets, before the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// How many assets in all after each wave. Everything that is left comes last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<Wave>,
    /// Seconds that each cluster, and the whole at its end, has to stay settled and healthy.
    #[serde(default)]
    pub bake: u64,
    /// How many assets at most are on their way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// How many assets of one cluster at most are on their way, or out of sync, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// Why nothing more moves, until this is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// What is done when what was updated is unhealthy.
    #[serde(default)]
    pub on_unhealthy: OnUnhealthy,
    /// It cannot wait: everything at once, whatever monitoring says. Who says so, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emergency: Option<Emergency>,
}

/// The first few assets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// How many.
    pub count: u32,
    /// Seconds that they have to stay settled and healthy.
    #[serde(default)]
    pub bake: u64,
}

/// A part of the assets: `count` or `percent` of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wave {
    /// How many are updated when it is over, those before it included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// The same in per cent of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Seconds that they have to stay settled and healthy.
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

/// Something in the section that cannot be meant: the path of the field in it, and why.
pub(super) type Wrong = (Vec<Step>, String);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Field(&'static str),
    Item(usize),
}

use Step::{Field, Item};

impl Rollout {
    /// The policy that it stands for. A cluster's first turnup is at once: nobody is served yet.
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

    /// Everything that cannot be meant, where `cluster` says which clusters there are.
    pub(super) fn wrong(&self, cluster: impl Fn(&str) -> bool) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        for (at, name) in self.domains.iter().enumerate() {
            let path = vec![Field("domains"), Item(at)];
            if self.domains[..at].contains(name) {
                wrong.push((path, format!("`{name}` stands twice")));
            } else if !cluster(name) {
                wrong.push((path, format!("there is no cluster `{name}`")));
            }
        }
        if let Some(canary) = &self.canary {
            at_least_one(&[Field("canary"), Field("count")], canary.count, &mut wrong);
            short_enough(&[Field("canary"), Field("bake")], canary.bake, &mut wrong);
        }
        self.wrong_waves(&mut wrong);
        short_enough(&[Field("bake")], self.bake, &mut wrong);
        for (name, limit) in [
            ("max_in_flight", self.max_in_flight),
            ("max_unavailable", self.max_unavailable),
        ] {
            if let Some(limit) = limit {
                at_least_one(&[Field(name)], limit, &mut wrong);
            }
        }
        if let Some(why) = &self.hold {
            a_reason(&[Field("hold")], why, &mut wrong);
        }
        if let Some(Emergency { who, why }) = &self.emergency {
            a_reason(&[Field("emergency"), Field("who")], who, &mut wrong);
            a_reason(&[Field("emergency"), Field("why")], why, &mut wrong);
        }
        wrong
    }

    fn wrong_waves(&self, wrong: &mut Vec<Wrong>) {
        let mut before: Option<Amount> = None;
        for (at, wave) in self.waves.iter().enumerate() {
            let here = [Field("waves"), Item(at)];
            let of = |name| [&here[..], &[Field(name)]].concat();
            short_enough(&of("bake"), wave.bake, wrong);
            let rises = match (before, wave.upto()) {
                (_, None) => {
                    let message = "say either `count` or `percent`".to_owned();
                    wrong.push((here.to_vec(), message));
                    continue;
                }
                (_, Some(Amount::Percent(percent))) if percent > 100 => {
                    let message = format!("{percent} per cent are more than all of it");
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
                let message = "each wave is at least 1, and more than the one before it";
                wrong.push((of(name), message.to_owned()));
            }
        }
    }
}

/// An emergency is stopped by a hold like anything else: whoever wrote both cannot mean both.
pub(super) fn check(policy: &RolloutPolicy, view: &AssetView<'_>, problems: &mut Problems) {
    if policy.hold.is_some() && policy.emergency.is_some() {
        let problem = view.problem("an emergency on hold goes nowhere: take one of them away");
        problems.push(problem.field("payload.hold"));
    }
}

fn at_least_one(path: &[Step], number: u32, wrong: &mut Vec<Wrong>) {
    if number == 0 {
        let message = "0: nothing would ever move; use 1 or more, or leave it out";
        wrong.push((path.to_vec(), message.to_owned()));
    }
}

fn short_enough(path: &[Step], bake: u64, wrong: &mut Vec<Wrong>) {
    if bake > LONGEST_BAKE {
        let message = format!("{bake}: bake {LONGEST_BAKE} seconds at most; to wait longer, hold");
        wrong.push((path.to_vec(), message));
    }
}

/// Whoever stops or hurries a rollout says something that people can read later.
fn a_reason(path: &[Step], text: &str, wrong: &mut Vec<Wrong>) {
    let mut say = |message: &dyn Display| wrong.push((path.to_vec(), message.to_string()));
    if text.trim().is_empty() {
        say(&"say it in words, or leave it out");
    } else if text.len() > LONGEST_REASON {
        say(&format_args!(
            "{} bytes: use {LONGEST_REASON} at most",
            text.len()
        ));
    } else if text.chars().any(char::is_control) {
        say(&"use one line, without control characters");
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Field(name) => write!(f, ".{name}"),
            Item(at) => write!(f, "[{at}]"),
        }
    }
}
