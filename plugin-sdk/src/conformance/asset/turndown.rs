//! Laws of turndown: a removal is destructive, complete and idempotent, and the asset can be turned up again.

use prodspec_model::{
    Asset, Incarnation, IncarnationId,
    addons::{Moved, Turndown as Addon},
    incarnation::Header,
};

use super::{AssetSuite, PATIENCE, Trial};
use crate::{
    AssetPlugin, Diff, FencingToken, Guard, Observed, Pushed, Turndown, conformance::Violation,
    plugin,
};

impl AssetSuite {
    /// Pushes every asset of `intent`, turns it down, and turns it up again.
    ///
    /// The laws: the diff of an asset with the addon `Turndown` whose resource exists is a destructive change that takes all
    /// of its capacity; after the turndown the diff is in sync and observes no capacity; a second turndown changes nothing;
    /// an older owner is refused, if the plugin is guarded; and a push without the addon makes the resource anew.
    ///
    /// ```
    /// use plugin_sdk::{conformance::AssetSuite, testing::{self, InMemoryProduction}};
    ///
    /// # futures::executor::block_on(async {
    /// let plugin = InMemoryProduction::new(); // yours instead
    /// let intent = testing::incarnation(1, [testing::asset("job/eu")]);
    /// AssetSuite::new().guarded().run_turndown(&plugin, &plugin, &intent).await
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_turndown(
        &mut self,
        plugin: &(impl AssetPlugin + ?Sized),
        turndown: &(impl Turndown + ?Sized),
        intent: &Incarnation,
    ) -> Result<(), Violation> {
        for asset in intent.snapshot().iter() {
            self.trial(plugin, intent, asset.id()).run().await?;
            let Some(after) = turned_down(intent, &asset) else {
                continue;
            };
            let mut trial = self.trial(plugin, &after, asset.id());
            trial.turn_down(turndown).await?;
            self.trial(plugin, intent, asset.id()).run().await?;
        }
        Ok(())
    }
}

impl<P: AssetPlugin + ?Sized> Trial<'_, P> {
    async fn turn_down(&mut self, turndown: &(impl Turndown + ?Sized)) -> Result<(), Violation> {
        let law = "the diff of a turned-down asset whose resource exists is a destructive change";
        let (change, observed) = match self.settled().await? {
            Diff::Differs { change, observed } if change.effects.destructive => (change, observed),
            other => return Err(self.broken(law, other)),
        };
        let takes = |unit: &String| change.effects.capacity.get(unit).map(|it| it.to);
        let mut kept = observed.capacity.iter().filter(|(_, has)| **has > 0);
        if let Some((unit, _)) = kept.find(|(unit, _)| takes(unit) != Some(0)) {
            let law = "the effects of a turndown take all capacity";
            return Err(self.broken(law, unit));
        }
        self.removed(turndown, change.digest).await?;
        let left = self.in_sync("a diff after a turndown is in sync").await?;
        self.has_nothing(&left)?;
        self.removed(turndown, change.digest).await?;
        let law = "turndown is idempotent";
        let again = self.in_sync(law).await?;
        if again != left {
            return Err(self.broken(law, (left, again)));
        }
        if self.suite.guard == Guard::Guarded {
            let old = FencingToken(self.suite.token.0 - 1);
            let late = self.push_request(old, self.suite.calls + 1, change.digest);
            let answer = turndown.turndown(late).await;
            if !matches!(answer, Err(plugin::Error::Fenced { .. })) {
                let law = "a turndown by an older owner is refused as fenced";
                return Err(self.broken(law, answer));
            }
        }
        Ok(())
    }

    fn has_nothing(&self, left: &Observed) -> Result<(), Violation> {
        let mut capacity = left.capacity.iter().filter(|(_, has)| **has > 0);
        match (capacity.next(), left.version) {
            (None, None) => Ok(()),
            _ => Err(self.broken("what is turned down has no capacity and no version", left)),
        }
    }

    async fn removed(
        &mut self,
        turndown: &(impl Turndown + ?Sized),
        change: prodspec_model::Digest,
    ) -> Result<(), Violation> {
        self.suite.calls += 1;
        let mut request = self.push_request(self.suite.token, self.suite.calls, change);
        for _ in 0..PATIENCE {
            match turndown.turndown(request.clone()).await {
                Ok(Pushed::Done) => return Ok(()),
                Ok(Pushed::InProgress { check_again_in }) => {
                    (self.suite.wait)(check_again_in).await;
                    request.continuation = true;
                }
                Err(error) => {
                    return Err(self.broken("a turndown of valid intent succeeds", error));
                }
            }
        }
        Err(self.broken("a turndown ends", "still in progress"))
    }
}

/// The incarnation after `intent` in which `asset` is to be removed. `None`: the asset cannot carry the addon.
fn turned_down(intent: &Incarnation, asset: &Asset) -> Option<Incarnation> {
    let addon = Addon::new("a conformance test", "conformance");
    let after = asset.edit().without_addon::<Moved>().addon(&addon).ok()?;
    Some(edited(intent, after.build().ok()?))
}

/// The incarnation after `intent` in which `asset` replaces the asset of its id.
pub(super) fn edited(intent: &Incarnation, asset: Asset) -> Incarnation {
    let no = intent.no().next();
    let snapshot = intent.snapshot().edit(no, vec![asset], &[]);
    let id = IncarnationId::new(intent.id().partition.clone(), no);
    let header = Header::new(id, Some(intent.no()), &snapshot, intent.header().sealed_at);
    Incarnation::new(header, snapshot)
}
