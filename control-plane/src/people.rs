//! Commands of operators: pauses, approvals, overrides. Each has who and why, and is durable when the call returns.

use annealing_enforcer::{ApprovalSet, Command};
use annealing_strategist::{By, StoppedLine};
use control_plane_runtime::Runtime;
use control_plane_store::records::{Approval, Override, Pause, Scope};
use jiff::Timestamp;
use prodspec_gen::SealOverride;
use prodspec_model::{AssetId, Digest};
use serde::{Deserialize, Serialize};

use crate::handle::{Error, Handle};

/// All commands of operators that are in force.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interventions {
    /// The pauses: no push starts in their scopes.
    pub pauses: Vec<Pause>,
    /// The approvals: each lets one push of a destructive change through.
    pub approvals: Vec<Approval>,
    /// The overrides of checks: each skips one check for one push.
    pub overrides: Vec<Override>,
    /// The overrides of guards and external validators: each lets one seal pass.
    pub guard_overrides: Vec<SealOverride>,
    /// Set while the line is stopped: no rollout but the exceptions goes forward.
    #[serde(default)]
    pub stopped_line: Option<StoppedLine>,
}

impl<R: Runtime> Handle<R> {
    async fn tell(&self, command: Command) -> Result<(), Error> {
        self.generation().await?;
        Ok(self.enforcer.tell(command).await?)
    }

    /// Returns the commands that are in force: pauses, approvals, overrides of checks and of guards, and the stop of the line.
    ///
    /// # Errors
    /// If this process does not own the partition, or the store cannot be read.
    pub async fn interventions(&self) -> Result<Interventions, Error> {
        let generation = self.generation().await?.status();
        let enforcement = match generation.incarnation {
            Some(_) => self.enforcer.interventions().await?,
            // Enforcement begins with the first incarnation. A guard can be overridden before.
            None => Default::default(),
        };
        Ok(Interventions {
            pauses: enforcement.pauses,
            approvals: enforcement.approvals,
            overrides: enforcement.overrides,
            guard_overrides: self.guard_overrides().await?,
            stopped_line: self.line().stopped().await?,
        })
    }

    /// Returns the overrides of guards in force. Empty if this process does not own the partition.
    pub(crate) async fn guard_overrides(&self) -> Result<Vec<SealOverride>, Error> {
        let generation = self.shared.owned.borrow().clone();
        let Some(generation) = generation else {
            return Ok(Vec::new());
        };
        let in_force = generation.overrides(self.shared.runtime.now().wall).await;
        Ok(in_force.map_err(Error::Store)?.overrides)
    }

    /// Pauses `scope`: no push starts in it until `until`, or until an operator resumes it. `None` means no end. Pushes
    /// under way continue.
    ///
    /// # Errors
    /// If the scope names an asset or a type that is not enforced, `until` is in the past, or this process does not own
    /// the partition.
    pub async fn pause(&self, scope: Scope, by: By, until: Option<Timestamp>) -> Result<(), Error> {
        self.tell(Command::Pause { scope, until, by }).await
    }

    /// Ends the pause of `scope`, so that pushes start again.
    ///
    /// # Errors
    /// If the scope is not paused, or this process does not own the partition.
    pub async fn resume(&self, scope: Scope, by: By) -> Result<(), Error> {
        self.tell(Command::Resume { scope, by }).await
    }

    /// Approves a change of `asset`: one that is destructive, for one push, or one that a policy in intent asks about, until the asset
    /// has settled. `change` is the digest of exactly this change, as `explain` or `plan` shows it. The approval expires at `until`,
    /// by default after 24 hours.
    ///
    /// # Errors
    /// If the asset now has another change, the change waits for no approval, or this process does not own the partition.
    pub async fn approve(
        &self,
        asset: &AssetId,
        change: Digest,
        by: By,
        until: Option<Timestamp>,
    ) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::Approve {
            asset,
            change,
            until,
            by,
        })
        .await
    }

    /// The changes that wait for approvals by policies in intent, in sets of equal changes of one policy. Changes of rollouts that
    /// have not moved their assets yet are included.
    ///
    /// # Errors
    /// If this process does not own the partition.
    pub async fn awaiting_approval(&self) -> Result<Vec<ApprovalSet>, Error> {
        self.generation().await?;
        Ok(self.enforcer.awaiting_approval().await?)
    }

    /// Approves all changes of a set. It is refused if the set has not this digest and size any more: look at it again then. Each
    /// member is approved by itself: if its change differs later, its approval is void, and the others stay.
    ///
    /// # Errors
    /// If no such set waits for approvals, or this process does not own the partition.
    pub async fn approve_set(
        &self,
        set: Digest,
        size: usize,
        by: By,
        until: Option<Timestamp>,
    ) -> Result<(), Error> {
        self.tell(Command::ApproveSet {
            set,
            size,
            until,
            by,
        })
        .await
    }

    /// Overrides the check named `check` for one change of `asset`, for one push: its delays do not count. `change` is
    /// the digest of that change. The override expires at `until`, by default after 24 hours.
    ///
    /// # Errors
    /// If the asset now has another change, no check has this name, or this process does not own the partition.
    pub async fn override_check(
        &self,
        asset: &AssetId,
        change: Digest,
        check: &str,
        by: By,
        until: Option<Timestamp>,
    ) -> Result<(), Error> {
        self.tell(Command::Override {
            asset: asset.clone(),
            change,
            check: check.into(),
            until,
            by,
        })
        .await
    }

    /// Acknowledges the orphan `asset`: it is no longer listed, and its resource stays in production.
    ///
    /// # Errors
    /// If the asset is not an orphan, or this process does not own the partition.
    pub async fn acknowledge(&self, asset: &AssetId, by: By) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::Acknowledge { asset, by }).await
    }

    /// Looks at `asset` now, even if it is waiting for something. Until that diff is done, the asset counts as unsettled, so
    /// [`settle`](Self::settle) waits for it.
    ///
    /// # Errors
    /// If looking now would give no result, with the reason; or if this process does not own the partition.
    pub async fn look_now(&self, asset: &AssetId, by: By) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::LookNow { asset, by }).await
    }

    /// Ends the wait for a push of `asset` whose outcome is unknown. With this command the operator confirms that the
    /// push is not running any more.
    ///
    /// # Errors
    /// If there is no such wait, or this process does not own the partition.
    pub async fn push_is_over(&self, asset: &AssetId, by: By) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::PushIsOver { asset, by }).await
    }

    /// Starts enforcement again after it stopped itself because an invariant did not hold. With this command the
    /// operator confirms having examined production and the reason.
    ///
    /// # Errors
    /// If enforcement is not stopped, or this process does not own the partition.
    pub async fn clear_stop(&self, by: By) -> Result<(), Error> {
        Ok(self.enforcer.clear_stop(by).await?)
    }

    /// Overrides the guard or external validator named `guard` for one seal: the one whose problem shows `digest`. Then
    /// the sources are read again. The override expires at `until`, by default after 24 hours. The refusals that an
    /// override can lift are in `generation` of the [`Status`](crate::Status).
    ///
    /// # Errors
    /// If the last run was not refused by this guard for this digest, with what would fit; if `until` is in the past; if
    /// the override cannot be recorded; or if this process does not own the partition.
    pub async fn override_guard(
        &self,
        guard: &str,
        digest: Digest,
        by: By,
        until: Option<Timestamp>,
    ) -> Result<(), Error> {
        let now = self.shared.runtime.now().wall;
        let word = SealOverride::new(guard, digest, by, now, until);
        Ok(self.generation().await?.override_guard(word).await?)
    }
}
