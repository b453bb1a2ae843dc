//! What people say: pauses, approvals, overrides. Durable when the call returns; each with who and why.

use annealing_enforcer::{Command, Words};
use annealing_strategist::By;
use jiff::Timestamp;
use plane_runtime::Runtime;
use plane_store::records::Scope;
use prodspec_gen::{Durable, SealOverride};
use prodspec_model::{AssetId, Digest};

use crate::handle::{Error, Handle};

impl<R: Runtime> Handle<R> {
    async fn tell(&self, command: Command) -> Result<(), Error> {
        self.generation().await?;
        Ok(self.enforcer.tell(command).await?)
    }

    /// What people said that still holds: pauses, approvals, overrides.
    ///
    /// # Errors
    /// When this process does not own the partition.
    pub async fn words(&self) -> Result<Words, Error> {
        self.generation().await?;
        Ok(self.enforcer.words().await?)
    }

    /// Starts no push in `scope`, until then or until a person resumes it. Pushes under way go on.
    ///
    /// # Errors
    /// When the scope names an asset or a type that is not enforced, `until` is over, or this process does not own the
    /// partition.
    pub async fn pause(&self, scope: Scope, by: By, until: Option<Timestamp>) -> Result<(), Error> {
        self.tell(Command::Pause { scope, until, by }).await
    }

    /// Ends the pause of `scope`.
    ///
    /// # Errors
    /// When the scope is not paused, or this process does not own the partition.
    pub async fn resume(&self, scope: Scope, by: By) -> Result<(), Error> {
        self.tell(Command::Resume { scope, by }).await
    }

    /// Lets one push of this very change of `asset` destroy. `change` is the digest that `explain` or `plan` shows.
    /// Without `until` the approval expires in 24 h.
    ///
    /// # Errors
    /// When the asset's change is another one by now or destroys nothing, or this process does not own the partition.
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

    /// Lets the check named `check` not delay one push of this very change of `asset`. Without `until` the override
    /// expires in 24 h.
    ///
    /// # Errors
    /// When the asset's change is another one by now, no check has this name, or this process does not own the partition.
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

    /// Forgets the orphan `asset`: it is known about, and production keeps it.
    ///
    /// # Errors
    /// When the asset is no orphan, or this process does not own the partition.
    pub async fn acknowledge(&self, asset: &AssetId, by: By) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::Acknowledge { asset, by }).await
    }

    /// Looks at `asset` now, whatever it waits for.
    ///
    /// # Errors
    /// When a look would tell nothing now, with the reason; or this process does not own the partition.
    pub async fn look_now(&self, asset: &AssetId, by: By) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::LookNow { asset, by }).await
    }

    /// Ends the wait for a push of `asset` whose outcome is unknown: the speaker vouches that it does not run any more.
    ///
    /// # Errors
    /// When no such push is waited for, or this process does not own the partition.
    pub async fn push_is_over(&self, asset: &AssetId, by: By) -> Result<(), Error> {
        let asset = asset.clone();
        self.tell(Command::PushIsOver { asset, by }).await
    }

    /// Starts enforcement again that stopped itself because an invariant did not hold: the speaker has looked at
    /// production, and at why.
    ///
    /// # Errors
    /// When enforcement is not stopped, or this process does not own the partition.
    pub async fn clear_stop(&self, by: By) -> Result<(), Error> {
        Ok(self.enforcer.clear_stop(by).await?)
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
