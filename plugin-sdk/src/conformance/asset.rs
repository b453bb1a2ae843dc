//! Laws of diffs and pushes, run against a plugin and its production.

mod repairs;
mod turndown;

pub use repairs::ByHand;

use std::{fmt, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationId, Message as _, TypeName, addons::Moved,
    incarnation::Header,
};

use super::Violation;
use crate::{
    AssetIntent, AssetPlugin, Diff, DiffRequest, FencingToken, Guard, Observed, PushRequest,
    Pushed, Run, plugin,
};

/// Maximum number of calls while work is in progress. After that, the work counts as never done.
const PATIENCE: u32 = 1_000;

type Wait = Arc<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;

/// Tests the laws of asset plugins. Use one suite per production, because the suite numbers its calls as an enforcer
/// does.
///
/// ```
/// use plugin_sdk::{conformance::AssetSuite, testing::{self, InMemoryProduction}};
///
/// # futures::executor::block_on(async {
/// let plugin = InMemoryProduction::new(); // yours instead
/// let intent = testing::incarnation(1, [testing::asset("job/eu"), testing::asset("job/us")]);
/// AssetSuite::new().guarded().run(&plugin, &intent).await
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct AssetSuite {
    guard: Guard,
    wait: Wait,
    token: FencingToken,
    calls: u32,
}

impl Default for AssetSuite {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AssetSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssetSuite")
            .field("guard", &self.guard)
            .field("token", &self.token)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl AssetSuite {
    /// Makes a suite for an advisory plugin ([`Guard::Advisory`]). It does not wait between calls.
    pub fn new() -> Self {
        Self {
            guard: Guard::Advisory,
            wait: Arc::new(|_| Box::pin(std::future::ready(()))),
            token: FencingToken(2),
            calls: 0,
        }
    }

    /// Also tests that the plugin refuses calls with an old token or an old number ([`Guard::Guarded`]).
    #[must_use]
    pub fn guarded(self) -> Self {
        Self {
            guard: Guard::Guarded,
            ..self
        }
    }

    /// Sets the function that waits while production works. Without it, the suite calls again at once.
    #[must_use]
    pub fn waiting(
        self,
        wait: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            wait: Arc::new(wait),
            ..self
        }
    }

    /// Pushes every asset of `intent` with `plugin` and tests the laws.
    ///
    /// # Errors
    /// The first law that does not hold, or that cannot be tested because a resource belongs to another system.
    pub async fn run(
        &mut self,
        plugin: &(impl AssetPlugin + ?Sized),
        intent: &Incarnation,
    ) -> Result<(), Violation> {
        for asset in intent.snapshot().iter() {
            self.trial(plugin, intent, asset.id()).run().await?;
        }
        self.unknown_asset(plugin, intent).await
    }

    /// Renames every asset of `intent` and tests the law of plugins that rename: a resource is found under its old id,
    /// with all that it has, and nothing is left there once the asset is in sync under its new id.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_renames(
        &mut self,
        plugin: &(impl AssetPlugin + ?Sized),
        intent: &Incarnation,
    ) -> Result<(), Violation> {
        for asset in intent.snapshot().iter() {
            let Some((after, new)) = renamed(intent, &asset) else {
                continue;
            };
            let mut old = self.trial(plugin, intent, asset.id());
            old.run().await?;
            let had = old.in_sync("a diff after a push is in sync").await?;
            let mut trial = self.trial(plugin, &after, new);
            let found = trial.settled().await?;
            match &found {
                Diff::InSync { observed, .. } | Diff::Differs { observed, .. }
                    if *observed == had => {}
                _ => {
                    let law = "a renamed resource is found under its old id, with all that it has";
                    return Err(trial.broken(law, found));
                }
            }
            trial.run().await?;
            let mut old = self.trial(plugin, intent, asset.id());
            let left = old.settled().await?;
            if matches!(left, Diff::InSync { .. }) {
                return Err(old.broken("a renamed resource leaves nothing under its old id", left));
            }
        }
        Ok(())
    }

    fn trial<'a, P: AssetPlugin + ?Sized>(
        &'a mut self,
        plugin: &'a P,
        intent: &'a Incarnation,
        asset: AssetId,
    ) -> Trial<'a, P> {
        Trial {
            suite: self,
            plugin,
            intent,
            asset,
        }
    }

    async fn unknown_asset(
        &mut self,
        plugin: &(impl AssetPlugin + ?Sized),
        intent: &Incarnation,
    ) -> Result<(), Violation> {
        let Ok(asset) = AssetId::new("conformance/no-such-asset") else {
            return Ok(());
        };
        let mut trial = self.trial(plugin, intent, asset);
        match trial.diff().await {
            Err(_) => Ok(()),
            Ok(diff) => Err(trial.broken("an asset that intent does not have is an error", diff)),
        }
    }
}

/// The test of one asset.
struct Trial<'a, P: ?Sized> {
    suite: &'a mut AssetSuite,
    plugin: &'a P,
    intent: &'a Incarnation,
    asset: AssetId,
}

impl<P: AssetPlugin + ?Sized> Trial<'_, P> {
    async fn run(&mut self) -> Result<(), Violation> {
        let before = self.settled().await?;
        let again = self.settled().await?;
        if !alike(&before, &again) {
            return Err(self.broken("diff has no effect", (before, again)));
        }
        let change = match &before {
            Diff::Differs { change, .. } => {
                self.push_until_done(change.digest).await?;
                change.digest
            }
            _ => Digest::of(b""),
        };
        let observed = self.in_sync("a diff after a push is in sync").await?;
        self.push_until_done(change).await?;
        let law = "push is idempotent";
        if self.in_sync(law).await? != observed {
            return Err(self.broken(law, "the second push changed production"));
        }
        if self.suite.guard == Guard::Guarded {
            self.old_calls(change).await?;
            if self.in_sync("a refused call has no effect").await? != observed {
                return Err(self.broken("a refused call has no effect", observed));
            }
        }
        Ok(())
    }

    /// Tests calls with an older token, calls with an older number under the same token, and the diff of a plan, which
    /// has token 0.
    async fn old_calls(&mut self, change: Digest) -> Result<(), Violation> {
        let plan = self.diff_request(FencingToken(0), 0);
        if let Err(error) = self.plugin.diff(plan).await {
            return Err(self.broken("the diff of a plan, whose token is 0, is answered", error));
        }
        let law = "an older token is refused as fenced";
        let old = FencingToken(self.suite.token.0 - 1);
        let n = self.suite.calls + 1;
        let diff = self.plugin.diff(self.diff_request(old, n)).await;
        if !matches!(diff, Err(plugin::Error::Fenced { .. })) {
            return Err(self.broken(law, diff));
        }
        let push = self.plugin.push(self.push_request(old, n, change)).await;
        if !matches!(push, Err(plugin::Error::Fenced { .. })) {
            return Err(self.broken(law, push));
        }
        let late = self.push_request(self.suite.token, 0, change);
        match self.plugin.push(late).await {
            Err(_) => Ok(()),
            Ok(pushed) => {
                Err(self.broken("an older number under the same token is refused", pushed))
            }
        }
    }

    async fn push_until_done(&mut self, change: Digest) -> Result<(), Violation> {
        self.suite.calls += 1;
        let mut request = self.push_request(self.suite.token, self.suite.calls, change);
        for _ in 0..PATIENCE {
            match self.plugin.push(request.clone()).await {
                Ok(Pushed::Done) => return Ok(()),
                Ok(Pushed::InProgress { check_again_in }) => {
                    (self.suite.wait)(check_again_in).await;
                    request.continuation = true;
                }
                Err(error) => return Err(self.broken("a push of valid intent succeeds", error)),
            }
        }
        Err(self.broken("a push ends", "still in progress"))
    }

    async fn in_sync(&mut self, law: &'static str) -> Result<Observed, Violation> {
        match self.settled().await? {
            Diff::InSync { observed, .. } => Ok(observed),
            other => Err(self.broken(law, other)),
        }
    }

    /// Repeats the diff until no work is in progress.
    async fn settled(&mut self) -> Result<Diff, Violation> {
        for _ in 0..PATIENCE {
            match self.diff().await {
                Ok(Diff::InProgress { check_again_in }) => (self.suite.wait)(check_again_in).await,
                Ok(Diff::Foreign { owner }) => {
                    return Err(self.broken("the resource is the plugin's own", owner));
                }
                Ok(diff) => return Ok(diff),
                Err(error) => return Err(self.broken("a diff of valid intent succeeds", error)),
            }
        }
        Err(self.broken("work in production ends", "still in progress"))
    }

    /// Diffs carry the number of the newest push, as those of an enforcer do.
    async fn diff(&mut self) -> Result<Diff, plugin::Error> {
        let request = self.diff_request(self.suite.token, self.suite.calls);
        self.plugin.diff(request).await
    }

    fn diff_request(&self, token: FencingToken, n: u32) -> DiffRequest {
        let intent = AssetIntent::find(self.intent.clone(), self.asset.clone());
        DiffRequest::new(intent, token, self.numbered(n))
    }

    fn push_request(&self, token: FencingToken, n: u32, change: Digest) -> PushRequest {
        let intent = AssetIntent::find(self.intent.clone(), self.asset.clone());
        PushRequest::new(intent, token, self.numbered(n), change)
    }

    fn numbered(&self, n: u32) -> Run {
        Run {
            slot: 0,
            n,
            incarnation: self.intent.no(),
        }
    }

    fn broken(&self, law: &'static str, found: impl fmt::Debug) -> Violation {
        Violation::new(&self.asset, law, found)
    }
}

/// The incarnation after `intent` in which `asset` has another id, with that id. `None`: the id is too long.
fn renamed(intent: &Incarnation, asset: &Asset) -> Option<(Incarnation, AssetId)> {
    let new = AssetId::new(&format!("{}.renamed", asset.id_str())).ok()?;
    let value = |json: &str| serde_json::from_str(json).ok();
    let named = |name: &str| TypeName::new(name).ok();
    let payload = value(asset.payload_json())?;
    let mut after = Asset::builder(new.clone())
        .payload_value(named(asset.type_str())?, &payload)
        .ok()?;
    for (name, json) in asset.addons().filter(|(name, _)| *name != Moved::TYPE) {
        after = after.addon_value(named(name)?, &value(json)?).ok()?;
    }
    let after = after.addon(&Moved::from(asset.id())).ok()?.build().ok()?;
    let (no, before) = (intent.no().next(), intent.snapshot());
    let snapshot = before.edit(no, vec![after], &[asset.id()]);
    let id = IncarnationId::new(intent.id().partition.clone(), no);
    let header = Header::new(id, Some(intent.no()), &snapshot, intent.header().sealed_at);
    Some((Incarnation::new(header, snapshot), new))
}

/// Whether two diffs are equal apart from volatile fields.
fn alike(a: &Diff, b: &Diff) -> bool {
    match (a, b) {
        (
            Diff::Differs { change, observed },
            Diff::Differs {
                change: other,
                observed: seen,
            },
        ) => change.digest == other.digest && observed == seen,
        _ => a == b,
    }
}
