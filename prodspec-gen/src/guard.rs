//! Guards against mistakes of scale: a seal that loses or adds too many assets needs an operator's override for exactly
//! this change.

use plugin_sdk::{Candidate, Problem, Problems};
use prodspec_model::{
    Asset, Digest, Message,
    addons::{Moved, Turndown},
    snapshot::Change,
};

use crate::overrides::{Refusal, SealOverride};

/// The name of [`ShrinkGuard`] in problems and overrides.
pub const SHRINK: &str = "shrink-guard";
/// The name of [`GrowthGuard`] in problems and overrides.
pub const GROWTH: &str = "growth-guard";

/// Refuses a seal that loses more than `assets` *and* more than `percent` of the parent's assets, or leaves none.
///
/// An asset that had a `Turndown` addon in the parent is not counted as lost when it leaves intent, and neither is one
/// that continues under a new id with a `Moved` addon. An asset that receives a `Turndown` addon is counted as lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShrinkGuard {
    /// Number of assets that a seal can always lose. 3 by default.
    pub assets: u64,
    /// Per cent of the parent's assets that a seal can always lose. 10 by default.
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

/// Refuses a seal that adds more than `assets` *and* at least `percent` of the parent's assets. The first seal of a
/// partition is exempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrowthGuard {
    /// Number of assets that a seal can always add. 100 by default.
    pub assets: u64,
    /// Per cent of the parent's assets; a seal can always add fewer than that. 100 by default.
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

/// The guards of a pipeline.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guards {
    pub(crate) shrink: ShrinkGuard,
    pub(crate) growth: GrowthGuard,
}

/// The problems that guards and external validators found, and the overrides that were used.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) problems: Problems,
    /// The refusals among the problems that an override can lift.
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) used: Vec<SealOverride>,
    /// Warnings about override records that could not be read.
    pub(crate) set_aside: Problems,
}

impl Judged {
    /// Adds a refusal to the problems, or the overrides that lift it to the used overrides.
    pub(crate) fn refuse(
        &mut self,
        guard: &str,
        digest: Digest,
        overrides: &[SealOverride],
        message: &str,
    ) {
        let refusal = Refusal {
            guard: guard.to_owned(),
            digest,
        };
        let lifting = overrides.iter().filter(|word| word.lifts(&refusal));
        let used = self.used.len();
        self.used.extend(lifting.cloned());
        if self.used.len() > used {
            return;
        }
        let message = format!("{message}; to let it pass once, override {refusal}");
        self.problems.push(Problem::new(message).by(guard));
        self.refusals.push(refusal);
    }
}

/// Checks `candidate` against the guards, given the overrides of operators.
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
        .filter(|change| is_loss(candidate, change))
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
        let message = format!("{grown} assets would be added to {before}");
        judged.refuse(GROWTH, this_change, overrides, &message);
    }
    judged
}

/// Whether an asset is lost: it leaves intent without a `Turndown` addon and under no new id, or receives one.
fn is_loss(candidate: &Candidate, change: &Change) -> bool {
    let turned_down = |asset: &Asset| asset.has_addon(Turndown::TYPE);
    match (&change.before, &change.after) {
        (Some(before), None) => !turned_down(before) && !is_renamed(candidate, before),
        (Some(before), Some(after)) => !turned_down(before) && turned_down(after),
        (None, _) => false,
    }
}

/// Whether an asset that leaves intent is there under a new id, which came with this change. A rename to an asset with a
/// `Turndown` addon does not count: that asset is to be removed.
fn is_renamed(candidate: &Candidate, before: &Asset) -> bool {
    let after = Moved::successor(&candidate.snapshot, before.id_str());
    let parent = candidate.parent.as_ref();
    after.is_some_and(|after| {
        let is_new = parent.is_none_or(|parent| parent.snapshot().get(after.id_str()).is_none());
        is_new && after.type_str() == before.type_str() && !after.has_addon(Turndown::TYPE)
    })
}

#[cfg(test)]
mod tests;
