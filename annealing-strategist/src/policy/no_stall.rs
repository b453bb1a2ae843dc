//! Refuses a policy that would stall, before it is sealed (R18).

use std::{fmt, sync::Arc, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{
    AssetView, Problem, Problems, RolloutId, SelectRequest, Target, TargetSelection, Validator,
};
use prodspec_model::{
    IncarnationId, IncarnationNo, Message, PartitionId,
    rollout::{FirstTurnup, RolloutPolicy},
};

use super::{numbers::impossible, standard, target_of};
use crate::{
    group::policy_of,
    preview::{self, Error},
};

/// Start of the preview: a Monday at noon, UTC. A validator is pure and has no clock.
const START: Timestamp = Timestamp::constant(1_704_110_400, 0);
/// Time that each target takes to settle in the preview.
const SETTLES: Duration = Duration::from_secs(60);
/// Limit of one preview, in targets times selections. A policy that has not stalled by then is accepted.
const WORK: usize = 5_000_000;

/// Previews each policy of a candidate incarnation over all assets that refer to it. Refuses a policy that would
/// stall, whose numbers are invalid, or that is not valid by itself ([`valid`](super::valid)), and an asset that refers to an asset of another type as its policy.
///
/// Holds are ignored, because an operator sets them on purpose. A rollout that is only slow is accepted.
///
/// ```
/// use annealing_strategist::policy::NoStall;
/// use plugin_sdk::Validator;
///
/// assert_eq!(NoStall::standard().name(), "no-stall");
/// ```
#[derive(Clone)]
pub struct NoStall(Arc<dyn TargetSelection>);

impl NoStall {
    /// Creates the validator for the [`standard`] stack.
    pub fn standard() -> Self {
        Self::of(standard())
    }

    /// Creates the validator for a stack of your own; pass the stack that the strategist runs. Its layers have to
    /// answer without waiting.
    pub fn of(stack: impl TargetSelection) -> Self {
        Self(Arc::new(stack))
    }

    fn play(
        &self,
        view: &AssetView<'_>,
        policy: RolloutPolicy,
        targets: Vec<Target>,
    ) -> Option<Error> {
        let rounds = (WORK / targets.len().max(1)).max(100);
        let partition = PartitionId::new("preview").ok()?;
        let incarnation = |no| IncarnationId::new(partition.clone(), IncarnationNo(no));
        let policy = RolloutPolicy {
            hold: None,
            emergency: None,
            first_turnup: FirstTurnup::Gradual,
            ..policy
        };
        let (asset, targets) = (view.asset().id(), targets.into());
        let request = SelectRequest::new(RolloutId(0), asset, incarnation(2), targets, START);
        let request = request.policy(policy).from(incarnation(1));
        match preview::bounded(&*self.0, request.into(), SETTLES, rounds) {
            Ok(_) | Err(Error::TooLong { .. }) => None,
            Err(error) => Some(error),
        }
    }
}

impl fmt::Debug for NoStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoStall").finish_non_exhaustive()
    }
}

impl Validator for NoStall {
    fn name(&self) -> &str {
        "no-stall"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        if view.asset().type_str() != RolloutPolicy::TYPE {
            return problems.extend(refers_elsewhere(view));
        }
        let policy: RolloutPolicy = match view.asset().payload() {
            Ok(policy) => policy,
            Err(error) => return problems.push(view.problem(error)),
        };
        super::valid(&policy, view, problems);
        let targets = targets(view);
        let impossible = impossible(&policy, targets.len());
        if impossible.is_empty() {
            if let Some(error) = self.play(view, policy, targets) {
                problems.push(view.problem(refusal(&error)));
            }
            return;
        }
        for (field, message) in impossible {
            problems.push(view.problem(message).field(field));
        }
    }
}

/// Returns a problem if the asset refers to an asset of another type as its policy.
fn refers_elsewhere(view: &AssetView<'_>) -> Option<Problem> {
    let other = view.get(&policy_of(view.asset())?)?;
    let (id, is) = (other.id(), other.type_str());
    let wanted = RolloutPolicy::TYPE;
    (is != wanted).then(|| {
        let what = format!("is governed by `{id}`, which is a {is}; refer to a {wanted}");
        view.problem(what)
    })
}

/// The assets that the policy governs, as targets.
fn targets(view: &AssetView<'_>) -> Vec<Target> {
    let policy = view.asset().id();
    let governed = view.referrers();
    let governed = governed.filter(|asset| policy_of(asset).as_ref() == Some(&policy));
    governed.map(|asset| target_of(&asset)).collect()
}

fn refusal(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let cause = cause.unwrap_or_default();
    match error {
        Error::Stalls(stall) => {
            let some: Vec<&str> = stall.left.iter().take(3).map(|id| id.as_str()).collect();
            format!(
                "would stall with {} targets left, `{}` among them: {error}; change the policy or the stack's order",
                stall.left.len(),
                some.join("`, `")
            )
        }
        _ => format!("cannot be previewed: {error}{cause}"),
    }
}
