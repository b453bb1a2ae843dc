//! What people say: pauses, approvals, overrides. Durable when the call returns; each with who and why.

use annealing_enforcer::Command;
use annealing_strategist::By;
use jiff::Timestamp;
use plane_runtime::Runtime;
use plane_store::records::{Approval, Override, Pause, Scope};
use prodspec_gen::{Durable, SealOverride};
use prodspec_model::{AssetId, Digest};

use crate::handle::{Error, Handle};

impl<R: Runtime> Handle<R> {
    async fn tell(&self, command: Command) -> Result<(), Error> {
        self.generation().await?;
        Ok(self.enforcer.tell(command).await?)
    }

    /// No pushes in `scope`, until then or until somebody resumes it. Pushes under way go on.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn pause(&self, scope: Scope, by: By, until: Option<Timestamp>) -> Result<(), Error> {
        let By { who, why } = by;
        let pause = Pause {
            scope,
            who,
            why,
            until,
        };
        self.tell(Command::Pause(pause)).await
    }

    /// Pushes again.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn resume(&self, scope: Scope) -> Result<(), Error> {
        self.tell(Command::Resume(scope)).await
    }

    /// This very change of `asset` may destroy. `change` is the digest that `explain` or `plan` shows.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn approve(&self, asset: &AssetId, change: Digest, by: By) -> Result<(), Error> {
        let By { who, why } = by;
        let asset = asset.clone();
        let approval = Approval {
            asset,
            change,
            who,
            why,
        };
        self.tell(Command::Approve(approval)).await
    }

    /// The check named `check` does not delay this very change of `asset`.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn override_check(
        &self,
        asset: &AssetId,
        change: Digest,
        check: &str,
        by: By,
    ) -> Result<(), Error> {
        let By { who, why } = by;
        let word = Override {
            asset: asset.clone(),
            change,
            check: check.to_owned(),
            who,
            why,
        };
        self.tell(Command::Override(word)).await
    }

    /// This orphan is known about: it is forgotten, and production keeps it.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn acknowledge(&self, asset: &AssetId) -> Result<(), Error> {
        self.tell(Command::Acknowledge(asset.clone())).await
    }

    /// Looks at `asset` now, whatever it waits for.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn look_now(&self, asset: &AssetId) -> Result<(), Error> {
        self.tell(Command::LookNow(asset.clone())).await
    }

    /// Lets one seal through that `guard` refuses: the very one that its problem names with `digest`. Then reads the
    /// sources again.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn override_guard(&self, guard: &str, digest: Digest, by: By) -> Result<(), Error> {
        let By { who, why } = by;
        let word = SealOverride {
            guard: guard.to_owned(),
            digest,
            who,
            why,
        };
        let allowed = Durable::allow(&*self.shared.store, &self.shared.partition, &word);
        allowed.await.map_err(Error::Store)?;
        if let Some(generation) = self.shared.owned.borrow().as_ref() {
            generation.regenerate();
        }
        Ok(())
    }
}
