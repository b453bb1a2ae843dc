//! Plans: what enforcement and rollouts would do with an incarnation, sealed or not.

use std::collections::BTreeMap;

use annealing_enforcer::{Outcome, Plan, Prospect};
use annealing_strategist::View;
use control_plane_runtime::Runtime;
use plugin_sdk::SourceOfTruth;
use prodspec_model::{AssetId, Incarnation};

use crate::handle::{Error, Handle};

impl<R: Runtime> Handle<R> {
    /// Plans the enforcement of the incarnation in force: for every asset that is not in sync, the [`Outcome`] that it
    /// would have now. Pushes nothing, and needs no ownership.
    ///
    /// # Errors
    /// If there is no incarnation yet, or the store cannot be read.
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.planned(self.latest().await?).await
    }

    /// Plans the enforcement of the incarnation that the sources would make now. Each source in `instead` replaces the
    /// one of the same name. Pushes nothing, seals nothing, and needs no ownership.
    ///
    /// # Errors
    /// As for [`Handle::dry_run`].
    pub async fn plan_with(&self, instead: &[&dyn SourceOfTruth]) -> Result<Plan, Error> {
        let (_, incarnation) = self.candidate(instead).await?;
        self.planned(incarnation).await
    }

    pub(crate) async fn planned(&self, incarnation: Incarnation) -> Result<Plan, Error> {
        let mut rollouts = self.shared.strategist.rehearse();
        let plan = self.planner.plan_with(incarnation, &mut rollouts).await;
        let mut plan = plan.map_err(|error| Error::Store(error.into()))?;
        let views = rollouts.views().into_iter();
        let views: BTreeMap<AssetId, View> = views.map(|it| (it.policy.clone(), it)).collect();
        for prospect in &mut plan.assets {
            let policy = prospect
                .policy
                .as_ref()
                .filter(|_| awaits_rollout(prospect));
            if let Some(view) = policy.and_then(|policy| views.get(policy)) {
                foresee(view, prospect);
            }
        }
        Ok(plan)
    }
}

/// Whether the asset waits for nothing but its rollout: no push is due at its present pin.
fn awaits_rollout(prospect: &Prospect) -> bool {
    let waits = matches!(prospect.outcome, Outcome::InTurn | Outcome::Destroys);
    waits && prospect.cause.is_none()
}

/// Says why the rollout of an asset has not moved it, and whether it will without an operator. `view` is the asset's
/// group after everything that rollouts do at once.
fn foresee(view: &View, prospect: &mut Prospect) {
    let policy = &view.policy;
    let held = match view.awaits_person.as_ref().filter(|_| view.is_on_hold()) {
        _ if view.left_out.contains(&prospect.asset) => Some(format!(
            "left out of the rollout of `{policy}`: this content failed before, or the asset waits for such an asset; change it, or tell the rollout to retry"
        )),
        Some(why) => Some(format!(
            "the rollout of `{policy}` waits for an operator: {why}"
        )),
        None => view.stopped_line.as_ref().map(|line| {
            format!(
                "the rollout of `{policy}` stands still until {}: {line}",
                line.until
            )
        }),
    };
    if let Some(why) = held {
        (prospect.outcome, prospect.why) = (Outcome::Held, why);
        return;
    }
    let rollout = view.rollout.as_ref().filter(|_| view.live);
    let stage = rollout.and_then(|rollout| rollout.stage.as_ref());
    let wait = view.waits.first().map(|wait| &wait.why);
    if let Some(now) = stage.or(wait) {
        prospect.why = format!("waits for its turn in the rollout of `{policy}`, now at: {now}");
    }
}
