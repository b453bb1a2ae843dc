//! The judgement of rows. Pure: equal rows have an equal outcome, on any process.

use std::collections::{BTreeMap, VecDeque};

use plugin_sdk::{Judgement, RolloutId};
use prodspec_model::{AssetId, Digest};
use serde::{Deserialize, Serialize};

use super::{
    history::History,
    row::{Row, Unit, Value, comparable, relative},
    rule::Rule,
};
use crate::health::statistics::{
    Martingale, combined, p_value, ratio_of_means, uniform, windows_for,
};

/// Minimum number of windows of a healthy unit.
const WINDOWS: u32 = 5;
/// Number of last windows in which the size of a difference is measured.
const RECENT: usize = 60;

/// An outcome, in numbers and in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) judgement: Judgement,
    pub(super) why: String,
    /// The evidence of all units together.
    pub(super) evidence: f64,
    /// Number of windows of the unit with the most evidence.
    pub(super) windows: u32,
}

impl Outcome {
    pub(super) fn new(judgement: Judgement, why: impl Into<String>) -> Self {
        Self {
            judgement,
            why: why.into(),
            evidence: 1.0,
            windows: 0,
        }
    }

    /// No verdict. The bounds and alerts of the policy decide.
    pub(super) fn not_judged(why: impl std::fmt::Display) -> Self {
        Self::new(Judgement::Healthy, format!("not judged: {why}"))
    }
}

/// The evidence of a rollout's windows so far. Pure: the same rows in the same order lead to the same outcome.
#[derive(Debug)]
pub(in crate::health) struct Evidence {
    rule: Rule,
    rollout: RolloutId,
    /// Number of rows that were taken in.
    taken: usize,
    units: BTreeMap<AssetId, Moved>,
    stages: Vec<Option<String>>,
    /// The moved units of the last window in which there was something to compare with, and that.
    last: Option<Compared>,
    /// Whether the units of that window were alike before the rollout. `None`: it was not examined yet.
    fit: Option<Result<(), String>>,
    /// The digest of all rows that were taken in.
    digest: Digest,
}

/// The moved units of a window, and those that they were compared with.
type Compared = (Vec<AssetId>, Vec<AssetId>);

/// The windows of one moved unit.
#[derive(Debug, Default)]
struct Moved {
    stage: usize,
    evidence: Martingale,
    missing: u32,
    /// The smallest number of units that it was compared with.
    control: usize,
    /// Its last values, and those of the units that it was compared with.
    values: VecDeque<(Option<f64>, Vec<Option<f64>>)>,
}

impl Evidence {
    pub(super) fn new(rule: Rule, rollout: RolloutId) -> Self {
        Self {
            rule,
            rollout,
            taken: 0,
            units: BTreeMap::new(),
            stages: Vec::new(),
            last: None,
            fit: None,
            digest: Digest::of(&[]),
        }
    }

    pub(super) fn is_by(&self, rule: &Rule) -> bool {
        self.rule == *rule
    }

    /// Takes in the rows that are new. Returns whether there are any.
    pub(super) fn take(&mut self, rows: &[Row], history: &History) -> bool {
        let new = &rows[self.taken.min(rows.len())..];
        for row in new.iter().filter(|row| !row.control.is_empty()) {
            self.add(row, history);
        }
        self.taken = rows.len();
        !new.is_empty()
    }

    /// Notes that the oldest of the rows that were taken in are not kept any more. They still count.
    pub(super) fn forget(&mut self, many: usize) {
        self.taken = self.taken.saturating_sub(many);
    }

    /// Adds the values of one window.
    fn add(&mut self, row: &Row, history: &History) {
        let rule = &self.rule;
        if self.stages.last() != Some(&row.stage) {
            self.stages.push(row.stage.clone());
        }
        let all: Vec<&Unit> = row.moved.iter().chain(&row.control).collect();
        let values: Vec<Option<Value>> = all.iter().map(|(_, value)| *value).collect();
        let means: Vec<Option<f64>> = match rule.than_past {
            true => all.iter().map(|(id, _)| history.mean(id)).collect(),
            false => vec![None; all.len()],
        };
        let text = serde_json::to_vec(row).unwrap_or_default();
        self.digest = Digest::of(&[&self.digest.0, &text[..]].concat());
        let seed = format!("{} {} {}", self.rollout, rule.name, Digest::of(&text));
        let ranked = comparable(&values, &means, rule, seed.as_bytes());
        let (_, control) = ranked.split_at(row.moved.len());
        let raw = values.iter().zip(&means);
        let raw =
            raw.map(|(value, mean)| relative(value.and_then(Value::number), *mean, rule.than_past));
        let raw: Vec<Option<f64>> = raw.collect();
        for (nth, (id, _)) in row.moved.iter().enumerate() {
            let stage = self.stages.len() - 1;
            let unit = self.units.entry(id.clone());
            let unit = unit.or_insert_with(|| Moved::new(stage, control.len()));
            let u = uniform(format!("{seed} {id}").as_bytes());
            unit.evidence.add(p_value(ranked[nth], control, u));
            unit.missing += u32::from(ranked[nth].is_none());
            unit.control = unit.control.min(control.len());
            let others = raw[row.moved.len()..].to_vec();
            unit.values.truncate(RECENT - 1);
            unit.values.push_front((raw[nth], others));
        }
        let ids = |units: &[Unit]| units.iter().map(|(id, _)| id.clone()).collect();
        let last = Some((ids(&row.moved), ids(&row.control)));
        if self.last != last {
            (self.last, self.fit) = (last, None);
        }
    }

    /// The digest of all rows that were taken in.
    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// The outcome of all windows. `awaited`: the moved units that can still be compared, and so need windows.
    pub(super) fn outcome(&mut self, history: &History, awaited: &[AssetId]) -> Outcome {
        let Some((moved, control)) = &self.last else {
            return match awaited.first() {
                None => Outcome::not_judged("there is no unit left to compare with"),
                Some(unit) => {
                    let why = format!("{unit}: no window is over yet");
                    Outcome::new(Judgement::Unknown, why)
                }
            };
        };
        let (rule, many) = (&self.rule, control.len());
        let fits = || history.fits(rule, moved, control);
        if let Err(why) = self.fit.get_or_insert_with(fits) {
            return Outcome::not_judged(why);
        }
        self.verdict(awaited, many)
    }

    fn verdict(&self, awaited: &[AssetId], control: usize) -> Outcome {
        let rule = &self.rule;
        let mut by_stage = vec![Vec::new(); self.stages.len()];
        for unit in self.units.values() {
            by_stage[unit.stage].push(unit.evidence.value());
        }
        let evidence = combined(&by_stage);
        let by_evidence = |it: &Moved| it.evidence.value();
        let worst = self
            .units
            .iter()
            .max_by(|one, other| by_evidence(one.1).total_cmp(&by_evidence(other.1)));
        let Some((id, worst)) = worst else {
            return Outcome::not_judged("no unit has a window yet");
        };
        let windows = worst.evidence.windows();
        let of = |judgement, why| Outcome {
            judgement,
            why,
            evidence,
            windows,
        };
        let (threshold, guard) = (rule.threshold, rule.guard);
        let over = (evidence >= threshold).then(|| worst.ratio(rule)).flatten();
        let why = match over {
            None => format!("evidence {evidence:.1} of {threshold:.0} after {windows} windows"),
            Some(ratio) => format!(
                "{id}: {ratio:.1} x the {} units not moved yet, evidence {evidence:.0} of {threshold:.0} after {windows} windows",
                worst.control
            ),
        };
        if over.is_some_and(|ratio| ratio >= guard) {
            return of(Judgement::Unhealthy, why);
        }
        // A difference below the guard says nothing about the other units.
        if let Some(lacks) = self.lacks(awaited, control) {
            return of(Judgement::Unknown, lacks);
        }
        let note = over.map(|_| format!(": less than {guard} x"));
        of(Judgement::Healthy, why + &note.unwrap_or_default())
    }

    /// Why silence does not mean health: values are missing, or a bad unit could not have been seen yet.
    fn lacks(&self, awaited: &[AssetId], control: usize) -> Option<String> {
        let silent = |it: &Moved| it.missing * 10 > it.evidence.windows();
        if let Some((id, _)) = self.units.iter().find(|(_, it)| silent(it)) {
            let why = "has no value in more than a tenth of its windows";
            return Some(format!("{id}: {why}"));
        }
        let known = self.units.iter();
        let known = known.map(|(id, it)| (id, it.evidence.windows(), it.control));
        let new = awaited.iter().filter(|id| !self.units.contains_key(*id));
        let mut all = known.chain(new.map(|id| (id, 0, control)));
        all.find_map(|(id, has, control)| {
            let needs = windows_for(control, self.rule.threshold)?.max(WINDOWS);
            (has < needs).then(|| format!("{id}: {has} of {needs} windows"))
        })
    }
}

impl Moved {
    fn new(stage: usize, control: usize) -> Self {
        Self {
            stage,
            control,
            ..Self::default()
        }
    }

    /// How many times worse the unit is than those that it was compared with.
    fn ratio(&self, rule: &Rule) -> Option<f64> {
        let windows = self.values.iter().rev();
        let ratio = ratio_of_means(windows.map(|(value, others)| (*value, &others[..])))?;
        Some(if rule.smaller { 1.0 / ratio } else { ratio })
    }
}
