//! Plans: what enforcement and rollouts would do with an incarnation, sealed or not.

use annealing_enforcer::{Outcome, Plan};
use control_plane_runtime::Runtime;

use plugin_sdk::SourceOfTruth;
use prodspec_model::Incarnation;

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

    async fn planned(&self, incarnation: Incarnation) -> Result<Plan, Error> {
        let plan = self.planner.plan(incarnation.clone()).await;
        let mut plan = plan.map_err(|error| Error::Store(error.into()))?;
        let obstacles = self.shared.strategist.obstacles().await;
        let obstacles = obstacles.map_err(Error::Store)?;
        for prospect in &mut plan.assets {
            let waits = matches!(prospect.outcome, Outcome::InTurn | Outcome::Destroys);
            let Some(policy) = prospect.policy.as_ref().filter(|_| waits) else {
                continue;
            };
            let new = incarnation.asset(&prospect.asset);
            if let Some(why) = new.and_then(|new| obstacles.of(policy, &new)) {
                (prospect.outcome, prospect.why) = (Outcome::Held, why);
            }
        }
        Ok(plan)
    }
}
