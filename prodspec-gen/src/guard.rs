//! Guards against mistakes of scale: a seal that loses or adds too much waits for a person's word on this very change.

use plugin_sdk::{Candidate, Problem, Problems};
use prodspec_model::{Asset, Digest, Message, addons::Turndown, snapshot::Change};
use serde::{Deserialize, Serialize};

/// The name of [`ShrinkGuard`] in problems and overrides.
pub const SHRINK: &str = "shrink-guard";
/// The name of [`GrowthGuard`] in problems and overrides.
pub const GROWTH: &str = "growth-guard";

/// Refuses a seal that loses more than `assets` *and* more than `percent` of the parent's assets, or leaves none.
///
/// Assets under turndown are no losses when they go; being put under turndown is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShrinkGuard {
    /// So many may always go. 3 by default.
    pub assets: u64,
    /// So many of a hundred may always go. 10 by default.
    pub percent: u64,
}

impl Default for ShrinkGuard {
    fn default() -> Self {
        Self {
            assets: 3,
            percent: 10,
        }
    }
}

/// Refuses a seal that adds more than `assets` *and* `percent` or more of the parent's assets. The first is exempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowthGuard {
    /// So many may always come. 100 by default.
    pub assets: u64,
    /// Fewer than so many for each hundred may always come. 100 by default.
    pub percent: u64,
}

impl Default for GrowthGuard {
    fn default() -> Self {
        Self {
            assets: 100,
            percent: 100,
        }
    }
}

/// A person's word that one guard or external validator shall let one thing pass, once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealOverride {
    /// The guard or external validator that is overridden.
    pub guard: String,
    /// What may pass: as the guard's problem names it.
    pub digest: Digest,
    /// Who says so.
    pub who: String,
    /// Why.
    pub why: String,
}

/// The guards of a pipeline.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guards {
    pub(crate) shrink: ShrinkGuard,
    pub(crate) growth: GrowthGuard,
}

/// What guards say, and which overrides it took.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) problems: Problems,
    pub(crate) used: Vec<SealOverride>,
}

impl Judged {
    /// Adds a refusal, or the override that lifts it.
    pub(crate) fn refuse(
        &mut self,
        guard: &str,
        digest: Digest,
        overrides: &[SealOverride],
        message: &str,
    ) {
        let lifted = overrides
            .iter()
            .find(|word| word.guard == guard && word.digest == digest);
        match lifted {
            Some(word) => self.used.push(word.clone()),
            None => self.problems.push(
                Problem::new(format!(
                    "{message}; if that is meant, override {guard} for {digest}"
                ))
                .by(guard),
            ),
        }
    }
}

/// Whether `candidate` may be sealed, given what people said.
pub(crate) fn judge(guards: &Guards, candidate: &Candidate, overrides: &[SealOverride]) -> Judged {
    let mut judged = Judged::default();
    if candidate.parent.is_some() && candidate.changes.is_empty() {
        return judged;
    }
    let before = candidate
        .parent
        .as_ref()
        .map_or(0, |parent| parent.snapshot().len() as u64);
    let after = candidate.snapshot.len() as u64;
    let this_change = candidate.change_digest();
    let lost = candidate
        .changes
        .iter()
        .filter(|change| is_loss(change))
        .count() as u64;
    let ShrinkGuard { assets, percent } = guards.shrink;
    if after == 0 {
        judged.refuse(SHRINK, this_change, overrides, "no asset would be left");
    } else if lost > assets && lost * 100 > before * percent {
        let message = format!("{lost} of {before} assets would be lost");
        judged.refuse(SHRINK, this_change, overrides, &message);
    }
    let GrowthGuard { assets, percent } = guards.growth;
    let grown = after.saturating_sub(before);
    if candidate.parent.is_some() && grown > assets && grown * 100 >= before * percent {
        let message = format!("{grown} assets would come to {before}");
        judged.refuse(GROWTH, this_change, overrides, &message);
    }
    judged
}

/// Gone without having been turned down, or newly to be turned down.
fn is_loss(change: &Change) -> bool {
    let turned_down = |asset: &Asset| asset.has_addon(Turndown::TYPE);
    match (&change.before, &change.after) {
        (Some(before), None) => !turned_down(before),
        (Some(before), Some(after)) => !turned_down(before) && turned_down(after),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests;
