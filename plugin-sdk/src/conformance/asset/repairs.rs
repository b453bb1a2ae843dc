//! The law that an asset alone suffices to make its resource: whatever production has before a push, it has the same
//! afterwards.

use async_trait::async_trait;
use prodspec_model::{AssetId, Incarnation};

use super::{AssetSuite, Trial};
use crate::{AssetPlugin, Diff, conformance::Violation};

/// The hand of a person in production, for [`AssetSuite::run_repairs`]: it works on resources without the plugin.
#[async_trait]
pub trait ByHand: Send + Sync {
    /// Changes the resource of an asset, so that it differs from any intent.
    async fn change(&self, asset: &AssetId);

    /// Removes the resource of an asset. Nothing happens if there is none.
    async fn remove(&self, asset: &AssetId);

    /// Reads all that production has of the resource of an asset, as text. Equal texts: equal resources.
    async fn state(&self, asset: &AssetId) -> String;
}

impl AssetSuite {
    /// Pushes every asset of `intent` to an empty production, to one that has the content of `older`, and to one that was
    /// changed by hand.
    ///
    /// The laws: a change by hand is found by the next diff, and the resource is the same after each of the pushes.
    ///
    /// ```
    /// use plugin_sdk::{conformance::AssetSuite, testing::{self, InMemoryProduction, Thing}};
    ///
    /// # futures::executor::block_on(async {
    /// let plugin = InMemoryProduction::new(); // yours instead, and a `ByHand` for its production
    /// let older = testing::incarnation(1, [testing::asset("job/eu")]);
    /// let newer = testing::asset("job/eu").edit().payload(&Thing { content: "newer".into() })?.build()?;
    /// let intent = testing::incarnation(2, [newer]);
    /// AssetSuite::new().guarded().run_repairs(&plugin, &plugin, &older, &intent).await?;
    /// # Ok::<(), plugin_sdk::BoxError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_repairs(
        &mut self,
        plugin: &(impl AssetPlugin + ?Sized),
        production: &(impl ByHand + ?Sized),
        older: &Incarnation,
        intent: &Incarnation,
    ) -> Result<(), Violation> {
        for asset in intent.snapshot().iter() {
            let id = asset.id();
            production.remove(&id).await;
            self.trial(plugin, intent, id.clone()).repaired().await?;
            let made = production.state(&id).await;
            if older.asset(&id).is_some() {
                self.trial(plugin, older, id.clone()).repaired().await?;
                let mut trial = self.trial(plugin, intent, id.clone());
                trial.repaired().await?;
                let law = "a push over older content makes the same resource as one to an empty production";
                trial.same(law, &made, production.state(&id).await)?;
            }
            production.change(&id).await;
            let mut trial = self.trial(plugin, intent, id.clone());
            let found = trial.settled().await?;
            if !matches!(found, Diff::Differs { .. }) {
                return Err(trial.broken("a change by hand is found", found));
            }
            trial.repaired().await?;
            let law = "a push over a change by hand makes the same resource as one to an empty production";
            trial.same(law, &made, production.state(&id).await)?;
        }
        Ok(())
    }
}

impl<P: AssetPlugin + ?Sized> Trial<'_, P> {
    /// Pushes until the asset is in sync.
    async fn repaired(&mut self) -> Result<(), Violation> {
        if let Diff::Differs { change, .. } = self.settled().await? {
            self.push_until_done(change.digest).await?;
        }
        let law = "a diff after a push is in sync";
        self.in_sync(law).await.map(drop)
    }

    fn same(&self, law: &'static str, made: &str, found: String) -> Result<(), Violation> {
        match made == found {
            true => Ok(()),
            false => Err(self.broken(law, (made, found))),
        }
    }
}
