//! Plan: diffs and checks for a whole incarnation, sealed or hypothetical, with no push and no owner.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, Shared},
    stream,
};
use plane_runtime::{Runtime, timeout_at};
use plane_store::{
    Store,
    incarnations::{self, Incarnations},
    record,
    records::{AssetRecord, Floor, Orphaned},
};
use plugin_sdk::{
    BoxError, Cause, Change, CheckRequest, Delay, Diff, DiffRequest, FencingToken,
    IncarnationReader, Observation, PartitionView, Run, Stamp, Verdict,
    observe::Link,
    plugin,
    service::{Checks, Stack},
};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo, PartitionId,
    addons::{DependsOn, Edge},
};
use serde::{Deserialize, Serialize};

use super::{
    Enforcer, Error,
    view::{Eyes, View},
};
use crate::{
    kernel::InProduction,
    registry::{Registered, Registry},
};

/// Diffs at once.
const AT_ONCE: usize = 64;

/// What enforcing an incarnation would do now.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Assets that would be pushed, or cannot be looked at, by id.
    pub assets: Vec<Planned>,
    /// How many are in sync.
    pub in_sync: usize,
    /// How many have a type without a plugin.
    pub modelled_only: usize,
}

/// One asset of a plan that is not in sync.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Which asset.
    pub asset: AssetId,
    /// What a push would change.
    pub change: Option<Change>,
    /// Why it would not be pushed right now.
    pub delays: Vec<Delay>,
    /// Why it could not be looked at, or who else works on it.
    pub note: Option<String>,
}

/// One look at one asset, for everybody who asks about it: when it started, and what was found.
type Look = Shared<BoxFuture<'static, Result<(jiff::Timestamp, Diff), plugin::Error>>>;

/// Diffs straight from the plugins, one per asset and plan.
#[derive(Clone)]
pub(crate) struct Observer {
    look: Arc<dyn Fn(Asset, Incarnation) -> Look + Send + Sync>,
    looks: Arc<Mutex<BTreeMap<AssetId, Look>>>,
    production: Arc<Production>,
}

impl Observer {
    fn look(&self, asset: Asset, incarnation: Incarnation) -> Look {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let look = looks.entry(asset.id());
        look.or_insert_with(|| (self.look)(asset, incarnation))
            .clone()
    }

    pub(crate) fn observe(
        &self,
        id: AssetId,
        at: Incarnation,
        latest: Incarnation,
    ) -> BoxFuture<'static, Result<Observation, BoxError>> {
        let orphan = || Some((self.production.orphans.get(&id)?.clone(), latest.clone()));
        let found = at
            .asset(&id)
            .map(|asset| (asset, at))
            .or_else(|| latest.asset(&id).map(|asset| (asset, latest.clone())))
            .or_else(orphan);
        let Some((asset, incarnation)) = found else {
            return futures::future::ready(Err(format!("no incarnation in use has `{id}`").into()))
                .boxed();
        };
        let look = self.look(asset, incarnation);
        async move {
            let (as_of, diff) = look.await?;
            Ok(Observation {
                diff,
                stamp: Stamp { slot: 0, seq: 0 },
                as_of,
                cause: Some(Cause::Intent),
            })
        }
        .boxed()
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// What production may have beside the incarnation that is planned for, as the enforcer remembers it.
#[derive(Debug, Default)]
struct Production {
    providers: BTreeMap<AssetId, BTreeSet<Link>>,
    consumers: BTreeMap<AssetId, BTreeSet<Link>>,
    /// Assets that left intent.
    orphans: BTreeMap<AssetId, Asset>,
}

impl Production {
    fn keep(&mut self, consumer: &AssetId, edges: Vec<Edge>) {
        for Edge { provider, need } in edges {
            let link = |asset: &AssetId| Link {
                asset: asset.clone(),
                need: need.clone(),
            };
            let (from, to) = (link(consumer), link(&provider.id));
            self.consumers
                .entry(to.asset.clone())
                .or_default()
                .insert(from);
            self.providers
                .entry(consumer.clone())
                .or_default()
                .insert(to);
        }
    }
}

/// A check's window, with the edges that production may still have.
struct Window {
    view: View,
    production: Arc<Production>,
}

impl PartitionView for Window {
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, BoxError>> {
        self.view.observe(asset)
    }

    fn providers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        let still = self.production.providers.get(asset);
        united(self.view.providers(asset, at), still)
    }

    fn consumers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        let still = self.production.consumers.get(asset);
        united(self.view.consumers(asset, at), still)
    }
}

fn united(links: Vec<Link>, still: Option<&BTreeSet<Link>>) -> Vec<Link> {
    let mut all: BTreeSet<Link> = links.into_iter().collect();
    all.extend(still.into_iter().flatten().cloned());
    all.into_iter().collect()
}

/// Makes plans for a partition: cheap to clone, needs no running enforcer.
#[derive(Clone)]
pub struct Planner<R> {
    runtime: R,
    partition: PartitionId,
    store: Arc<dyn Store>,
    incarnations: Arc<Incarnations<dyn Store>>,
    registry: Registry,
    diffs: Option<Stack<DiffRequest, Diff>>,
    checks: Checks,
    check_deadline: Duration,
}

impl<R: Runtime> Enforcer<R> {
    /// Makes plans with this enforcer's plugins, layers, checks and deadlines.
    pub fn planner(&self) -> Planner<R> {
        Planner {
            runtime: self.runtime.clone(),
            partition: self.partition.clone(),
            store: self.store.clone(),
            incarnations: self.incarnations.clone(),
            registry: self.registry.clone(),
            diffs: self.diffs.clone(),
            checks: self.checks.clone(),
            check_deadline: self.config.check_deadline,
        }
    }
}

impl<R: Runtime> Planner<R> {
    /// Diffs every asset of `incarnation` and asks the checks about those that differ. Pushes nothing.
    ///
    /// # Errors
    /// When what is remembered of production cannot be read.
    pub async fn plan(&self, incarnation: Incarnation) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        let latest = self.incarnations.latest().await;
        let latest = latest.map_err(Error::Incarnation)?;
        let latest = latest.unwrap_or_else(|| incarnation.clone());
        let observer = self.observer(self.production(&incarnation).await?);
        let assets: Vec<Asset> = incarnation.snapshot().iter().collect();
        let (known, rest): (Vec<_>, Vec<_>) = assets
            .into_iter()
            .partition(|asset| self.registry.of(asset.type_str()).is_some());
        plan.modelled_only = rest.len();
        let view = View {
            eyes: Eyes::Plugins(observer.clone()),
            at: incarnation,
            latest,
            edges: Arc::new(InProduction::default()),
            brought: Vec::new(),
        };
        let mut looks = stream::iter(known)
            .map(|asset| self.look(asset, &observer, view.clone()))
            .buffered(AT_ONCE);
        while let Some(planned) = looks.next().await {
            match planned {
                Some(planned) => plan.assets.push(planned),
                None => plan.in_sync += 1,
            }
        }
        Ok(plan)
    }

    /// `None`: in sync.
    async fn look(&self, asset: Asset, observer: &Observer, view: View) -> Option<Planned> {
        let planned = |change, delays, note| {
            Some(Planned {
                asset: asset.id(),
                change,
                delays,
                note,
            })
        };
        let note = match observer.look(asset.clone(), view.at.clone()).await {
            Ok((_, Diff::InSync { .. })) => return None,
            Ok((_, Diff::Differs { change, observed })) => {
                let window = Window {
                    view: view.clone(),
                    production: observer.production.clone(),
                };
                let now = self.runtime.now();
                let request = CheckRequest {
                    asset: asset.id(),
                    incarnation: view.at.id().clone(),
                    change: Arc::new((*change).clone()),
                    observed,
                    cause: Cause::Intent,
                    now: now.wall,
                    mono: now.mono,
                    reader: IncarnationReader::at(view.at, asset.clone()),
                    view: Some(Arc::new(window)),
                };
                return match self.check(request).await {
                    Ok(verdict) => planned(Some(*change), verdict.delays, None),
                    Err(why) => planned(Some(*change), Vec::new(), Some(why)),
                };
            }
            Ok((_, Diff::InProgress { .. })) => "work on it is under way".into(),
            Ok((_, Diff::Foreign { owner })) => format!("it belongs to {owner}"),
            Ok(_) => "the plugin answered something unknown".into(),
            Err(error) => error.to_string(),
        };
        planned(None, Vec::new(), Some(note))
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, String> {
        let answer = AssertUnwindSafe(self.checks.call(request)).catch_unwind();
        let deadline = self.runtime.now().mono + self.check_deadline;
        match timeout_at(&self.runtime, deadline, answer).await {
            Some(Ok(answer)) => answer.map_err(|error| format!("the checks failed: {error}")),
            Some(Err(_)) => Err("the checks failed: a check panicked".into()),
            None => Err(format!(
                "the checks did not answer within {:?}",
                self.check_deadline
            )),
        }
    }

    fn observer(&self, production: Production) -> Observer {
        let planner = self.clone();
        Observer {
            look: Arc::new(move |asset, incarnation| planner.diff(asset, incarnation)),
            looks: Arc::default(),
            production: Arc::new(production),
        }
    }

    fn diff(&self, asset: Asset, incarnation: Incarnation) -> Look {
        let Some(Registered { config, plugin, .. }) = self.registry.of(asset.type_str()).cloned()
        else {
            let why = format!("{} has no plugin", asset.type_str());
            return futures::future::ready(Err(plugin::Error::permanent(why)))
                .boxed()
                .shared();
        };
        // Token 0: a plan owns nothing, and providers that guard never refuse a diff that only looks.
        let request = DiffRequest {
            asset: asset.id(),
            incarnation: incarnation.id().clone(),
            token: FencingToken(0),
            run: Run {
                slot: 0,
                n: 0,
                incarnation: incarnation.no(),
            },
            reader: IncarnationReader::at(incarnation, asset),
        };
        let (stack, runtime) = (self.diffs.clone(), self.runtime.clone());
        let answer = async move {
            match stack {
                Some(stack) => stack.call(request).await.map_err(|error| {
                    let own = error.downcast::<plugin::Error>().map(|own| *own);
                    own.unwrap_or_else(|layer| plugin::Error::transient(layer.to_string()))
                }),
                None => plugin.diff(request).await,
            }
        };
        let look = async move {
            let now = runtime.now();
            let answer = AssertUnwindSafe(answer).catch_unwind();
            let failed = |why: String| Err(plugin::Error::transient(why));
            match timeout_at(&runtime, now.mono + config.diff_deadline, answer).await {
                Some(Ok(diff)) => diff.map(|diff| (now.wall, diff)),
                Some(Err(_)) => failed("the plugin panicked in diff".into()),
                None => failed(format!(
                    "no answer to diff within {:?}",
                    config.diff_deadline
                )),
            }
        };
        look.boxed().shared()
    }

    /// The edges that count beside those of `incarnation`, as a new owner would take them over.
    async fn production(&self, incarnation: &Incarnation) -> Result<Production, Error> {
        let mut production = Production::default();
        let mut recorded = BTreeSet::new();
        for (name, stored) in record::load_all::<AssetRecord>(&*self.store, &self.partition).await?
        {
            if let Ok(id) = AssetId::new(&name) {
                production.keep(&id, stored.value.edges);
                recorded.insert(id);
            }
        }
        for (_, stored) in record::load_all::<Orphaned>(&*self.store, &self.partition).await? {
            if let Ok(asset) = Asset::try_from(stored.value.asset.as_str()) {
                production.keep(&asset.id(), stored.value.edges);
                production.keep(&asset.id(), declared(&asset));
                production.orphans.insert(asset.id(), asset);
            }
        }
        let floor = record::load::<Floor>(&*self.store, &self.partition, "").await?;
        let floor = match floor {
            Some(floor) => match self.incarnations.load(floor.value.incarnation).await {
                Ok(floor) => floor.snapshot().diff(incarnation.snapshot()),
                Err(incarnations::Error::Unknown(_)) => Vec::new(),
                Err(error) => return Err(Error::Incarnation(error)),
            },
            None => Vec::new(),
        };
        for before in floor.into_iter().filter_map(|change| change.before) {
            if !recorded.contains(&before.id()) {
                production.keep(&before.id(), declared(&before));
            }
        }
        Ok(production)
    }
}

/// The edges that an asset declares.
fn declared(asset: &Asset) -> Vec<Edge> {
    let depends = asset.addon::<DependsOn>().ok().flatten();
    depends.map(|depends| depends.edges).unwrap_or_default()
}
