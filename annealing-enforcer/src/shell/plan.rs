//! Plans: what enforcement of a whole incarnation, sealed or hypothetical, would do now. A plan needs no owner and
//! pushes nothing.
//!
//! A plan is a rehearsal of a takeover, see [`rehearsal`](super::rehearsal): the pushes that its kernel admits are
//! those that would begin at once.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use control_plane_runtime::{Runtime, timeout_at};
use control_plane_store::{
    Store,
    contents::Contents,
    incarnations::Incarnations,
    record::{self, Rewrites},
    records::Stopped,
};
use futures::{StreamExt, channel::mpsc, stream};
use plugin_sdk::{
    Actuation, AssetIntent, BoxError, Diff, DiffRequest, FeedItem, RehearsedRollouts, Run,
    service::{Checks, Stack},
};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, Message as _, PartitionId, addons::Turndown,
    incarnation::Header,
};
use serde::{Deserialize, Serialize};

use super::{
    blocked::Blocked,
    calls::{Calls, diff},
    enforcer::Enforcer,
    error::Error,
    intent::Intent,
    lease::LeaseEnd,
    owned_sender::OwnedSender,
    rehearsal::{self, Rehearsal},
};
use crate::{
    config::Config,
    kernel::{Kernel, Outcome, Prospect, Recovered},
    registry::Registry,
};

/// Maximum number of concurrent diffs of assets that rollouts have yet to move.
const AT_ONCE: usize = 64;

/// What enforcement of an incarnation would do now, asset by asset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The assets that are not in sync, and those that leave intent, sorted by id.
    pub assets: Vec<Prospect>,
    /// Number of assets that are in sync.
    pub in_sync: usize,
    /// Number of assets whose type has no plugin: they are not enforced.
    pub modelled_only: usize,
    /// Set if enforcement stopped itself, with the reason: nothing is pushed before an operator clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
}

impl Plan {
    /// Number of assets with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.with(outcome).count()
    }

    /// The assets with this outcome, sorted by id.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Prospect> {
        let comes = move |prospect: &&Prospect| prospect.outcome == outcome;
        self.assets.iter().filter(comes)
    }

    /// The prospect of one asset; `None` if it is in sync or not enforced.
    pub fn of(&self, asset: &AssetId) -> Option<&Prospect> {
        self.assets.iter().find(|prospect| prospect.asset == *asset)
    }
}

/// Makes plans for a partition. Cheap to clone; needs no running enforcer.
#[derive(Clone)]
pub struct Planner<R> {
    runtime: R,
    partition: PartitionId,
    store: Arc<dyn Store>,
    incarnations: Arc<Incarnations<dyn Store>>,
    registry: Registry,
    diffs: Option<Stack<DiffRequest, Diff>>,
    checks: Checks,
    config: Config,
}

impl<R: Runtime> Enforcer<R> {
    /// Returns a planner with this enforcer's plugins, layers, checks and deadlines.
    pub fn planner(&self) -> Planner<R> {
        Planner {
            runtime: self.runtime.clone(),
            partition: self.partition.clone(),
            store: self.store.clone(),
            incarnations: self.incarnations.clone(),
            registry: self.registry.clone(),
            diffs: self.diffs.clone(),
            checks: self.checks.clone(),
            config: self.config.clone(),
        }
    }
}

impl<R: Runtime> Planner<R> {
    /// Plans what a new owner without rollouts would do with every asset if it enforced `incarnation` from now on. Every
    /// asset is compared with production, the checks are asked about those that differ, and nothing is pushed or written.
    ///
    /// # Errors
    /// When the records of the partition or its incarnations cannot be read, or an invariant does not hold.
    pub async fn plan(&self, incarnation: Incarnation) -> Result<Plan, Error> {
        self.plan_with(incarnation, &mut NoRollouts).await
    }

    /// As [`Planner::plan`], for an owner with these `rollouts`: the pins that they would move at once are moved in the
    /// plan.
    ///
    /// # Errors
    /// As for [`Planner::plan`], and when the rollouts fail.
    pub async fn plan_with(
        &self,
        incarnation: Incarnation,
        rollouts: &mut dyn RehearsedRollouts,
    ) -> Result<Plan, Error> {
        let known = |asset: &Asset| self.registry.of(asset.type_str()).is_some();
        let assets = incarnation.snapshot().iter();
        let modelled_only = assets.filter(|asset| !known(asset)).count();
        let recovered = self.remembered(&incarnation).await?;
        let incarnation = after(&recovered, incarnation);
        let (sender, inputs) = mpsc::unbounded();
        let calls = self.calls(OwnedSender::new(rehearsal::TOKEN, sender));
        let rehearsal = Rehearsal::new(&self.config, recovered, calls, inputs, rollouts);
        let kernel = rehearsal.run(incarnation.clone()).await?;
        let (assets, in_sync) = kernel.prospects(self.runtime.now());
        let mut assets = self.with_changes(&kernel, &incarnation, assets).await;
        let stopped = record::load::<Stopped>(&*self.store, &self.partition, "").await?;
        let stopped = stopped.map(|it| it.value).filter(Stopped::holds);
        if let Some(stopped) = &stopped {
            hold_back(&mut assets, stopped);
        }
        Ok(Plan {
            assets,
            in_sync,
            modelled_only,
            stopped,
        })
    }

    /// The records that a new owner would recover from. Where nothing is sealed yet, `incarnation` stands for the
    /// newest.
    async fn remembered(&self, incarnation: &Incarnation) -> Result<Recovered, Error> {
        let intent = Intent::new(
            self.runtime.clone(),
            self.store.clone(),
            self.partition.clone(),
            self.incarnations.clone(),
            Rewrites::default(),
        );
        let newest = intent.latest().await?;
        let newest = newest.unwrap_or_else(|| incarnation.clone());
        intent.remembered(newest).await
    }

    fn calls(&self, events: OwnedSender) -> Calls<R> {
        Calls {
            runtime: self.runtime.clone(),
            partition: self.partition.clone(),
            contents: Arc::new(Contents::new(self.store.clone(), self.partition.clone())),
            registry: self.registry.clone(),
            diffs: self.diffs.clone(),
            pushes: None,
            checks: self.checks.clone(),
            token: rehearsal::TOKEN,
            events,
            lease: LeaseEnd::default(),
            running: BTreeMap::new(),
            blocked: Blocked::default(),
        }
    }

    /// Adds the changes of assets that a rollout has yet to move; destructive ones wait for an approval as well.
    async fn with_changes(
        &self,
        kernel: &Kernel,
        incarnation: &Incarnation,
        assets: Vec<Prospect>,
    ) -> Vec<Prospect> {
        let ahead = |prospect: &Prospect| {
            let awaits = prospect.outcome == Outcome::InTurn && prospect.change.is_none();
            (awaits && prospect.policy.is_some()).then_some(())?;
            incarnation.asset(&prospect.asset)
        };
        let looks = stream::iter(assets).map(async |mut prospect| {
            let Some(asset) = ahead(&prospect) else {
                return prospect;
            };
            match self.look(asset.clone(), incarnation.clone()).await {
                Ok(Diff::Differs { change, .. }) => {
                    let destroys = change.effects.destructive || asset.has_addon(Turndown::TYPE);
                    let approved = kernel.is_approved(self.runtime.now(), &asset.id(), &change);
                    if destroys && !approved {
                        prospect.outcome = Outcome::Destroys;
                    }
                    prospect.change = Some(*change);
                }
                Ok(_) => {}
                Err(error) => prospect.why = format!("{}; {error}", prospect.why),
            }
            prospect
        });
        looks.buffered(AT_ONCE).collect().await
    }

    async fn look(&self, asset: Asset, incarnation: Incarnation) -> Result<Diff, String> {
        let registered = self.registry.of(asset.type_str());
        let registered = registered.ok_or_else(|| format!("{} has no plugin", asset.type_str()))?;
        let run = Run {
            slot: 0,
            n: 0,
            incarnation: incarnation.no(),
        };
        let token = rehearsal::TOKEN;
        let contents = Contents::new(self.store.clone(), self.partition.clone());
        let intent = AssetIntent::new(incarnation, asset).with_blobs(Arc::new(contents));
        let request = DiffRequest::new(intent, token, run);
        let limit = registered.config.diff_deadline;
        let deadline = self.runtime.now().mono + limit;
        let answer = diff(self.diffs.clone(), registered.plugin.clone(), request);
        match timeout_at(&self.runtime, deadline, answer).await {
            Some(answer) => answer.map_err(|error| error.to_string()),
            None => Err(format!("no answer to diff within {limit:?}")),
        }
    }
}

/// Holds the assets that would be pushed if enforcement had not stopped itself.
fn hold_back(assets: &mut [Prospect], stopped: &Stopped) {
    for prospect in assets {
        if let Outcome::Now | Outcome::InTurn | Outcome::Destroys = prospect.outcome {
            prospect.outcome = Outcome::Held;
            prospect.why = format!("enforcement {stopped}; check production, then clear the stop");
        }
    }
}

/// The rollouts of an owner that has none.
struct NoRollouts;

#[async_trait]
impl RehearsedRollouts for NoRollouts {
    async fn steps(&mut self, _: Vec<FeedItem>) -> Result<Vec<Actuation<()>>, BoxError> {
        Ok(Vec::new())
    }
}

/// Returns `incarnation` if it is not older than the newest one, else a newer incarnation with the same content: an
/// older one is enforced as a revert.
fn after(recovered: &Recovered, incarnation: Incarnation) -> Incarnation {
    let newest = recovered.newer.as_ref().unwrap_or(&recovered.latest);
    if incarnation.no() >= newest.no() {
        return incarnation;
    }
    let no = newest.no().next();
    let (mut put, mut gone) = (Vec::new(), Vec::new());
    for change in newest.snapshot().diff(incarnation.snapshot()) {
        match change.after {
            Some(asset) => put.push(asset),
            None => gone.push(change.id()),
        }
    }
    let snapshot = newest.snapshot().edit(no, put, &gone);
    let id = IncarnationId::new(newest.id().partition.clone(), no);
    let sealed_at = incarnation.header().sealed_at;
    let mut header = Header::new(id, Some(newest.no()), &snapshot, sealed_at);
    header.sources = incarnation.header().sources.clone();
    Incarnation::new(header, snapshot)
}

impl<R> std::fmt::Debug for Planner<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner")
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
