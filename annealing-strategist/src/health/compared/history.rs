//! The windows before a rollout: whether its units are alike, and the mean of each.

use std::collections::BTreeMap;

use prodspec_model::AssetId;

use super::{
    row::{Value, comparable},
    rule::Rule,
};
use crate::health::statistics::{Martingale, combined, lag_one, p_value, uniform};

/// Number of windows before a rollout in which its units must be alike.
pub(super) const FIT: u32 = 240;
/// Number of windows before those, from which the mean of each unit is taken.
pub(super) const MEAN: u32 = 500;
/// The correlation of a unit's ranks from window to window, from which on units are not alike.
const LAG: f64 = 0.1;

/// The values of units in the windows before a rollout, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) units: BTreeMap<AssetId, Vec<Option<Value>>>,
}

impl History {
    /// The mean of a unit over the windows before the last [`FIT`]. `None`: it has no values there.
    pub(super) fn mean(&self, unit: &AssetId) -> Option<f64> {
        let all = self.units.get(unit)?;
        let earlier = all.len().saturating_sub(FIT as usize);
        let values = all[..earlier].iter().flatten();
        let values: Vec<f64> = values.filter_map(|it| it.number()).collect();
        let many = values.len();
        (many > 0).then(|| values.iter().sum::<f64>() / many as f64)
    }

    /// Whether units were exchangeable before the rollout.
    ///
    /// # Errors
    /// The reason why they cannot be compared.
    pub(super) fn fits(
        &self,
        rule: &Rule,
        moved: &[AssetId],
        control: &[AssetId],
    ) -> Result<(), String> {
        let units: Vec<&AssetId> = moved.iter().chain(control).collect();
        let means: Vec<Option<f64>> = units.iter().map(|unit| self.mean(unit)).collect();
        let all = self.units.values().map(Vec::len).max().unwrap_or(0);
        let first = all.saturating_sub(FIT as usize);
        let window = |at: usize| {
            let value = |unit: &&AssetId| self.units.get(*unit)?.get(at).copied().flatten();
            let values: Vec<Option<Value>> = units.iter().map(value).collect();
            comparable(&values, &means, rule, &at.to_be_bytes())
        };
        let windows: Vec<Vec<Option<f64>>> = (first..all).map(window).collect();
        let full = |it: &&Vec<Option<f64>>| it.iter().any(Option::is_some);
        if windows.iter().filter(full).count() < FIT as usize / 2 {
            let why = format!(
                "fewer than {} windows before the rollout have values",
                FIT / 2
            );
            return Err(why);
        }
        let lag = lag_one(&windows).unwrap_or(1.0);
        if lag >= LAG {
            return Err("the units differ for longer than a window: try a longer one".to_owned());
        }
        let mut evidence = vec![Martingale::default(); moved.len()];
        for (at, window) in windows.iter().enumerate() {
            let (moved, control) = window.split_at(moved.len());
            for (nth, value) in moved.iter().enumerate() {
                let seed = [at.to_be_bytes(), nth.to_be_bytes()].concat();
                evidence[nth].add(p_value(*value, control, uniform(&seed)));
            }
        }
        let evidence = evidence.iter().map(Martingale::value).collect();
        match combined(&[evidence]) < rule.threshold {
            true => Ok(()),
            false => Err("the moved units were worse before the rollout already".to_owned()),
        }
    }
}
