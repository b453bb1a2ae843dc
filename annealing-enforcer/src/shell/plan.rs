//! Plan: diffs and checks for a whole incarnation, sealed or hypothetical, with no push and no owner.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use plane_runtime::Runtime;
use plugin_sdk::{
    BoxError, Cause, Change, CheckRequest, Delay, Diff, DiffRequest, FencingToken,
    IncarnationReader, Observation, Run, Stamp, Verdict, plugin, service::Stack,
};
use prodspec_model::{Asset, AssetId, Incarnation};
use serde::{Deserialize, Serialize};

use super::{
    Enforcer,
    view::{Eyes, View},
};
use crate::{kernel::InProduction, registry::Registry};

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

/// Diffs straight from the plugins.
#[derive(Debug, Clone)]
pub(crate) struct Observer {
    registry: Registry,
    now: jiff::Timestamp,
}

impl Observer {
    fn diff(
        &self,
        asset: &Asset,
        incarnation: &Incarnation,
    ) -> BoxFuture<'static, Result<Diff, plugin::Error>> {
        let Some(registered) = self.registry.of(asset.type_str()).cloned() else {
            let why = format!("{} has no plugin", asset.type_str());
            return futures::future::ready(Err(plugin::Error::permanent(why))).boxed();
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
            reader: IncarnationReader::new(incarnation.clone()),
        };
        async move { registered.plugin.diff(request).await }.boxed()
    }

    pub(crate) fn observe(
        &self,
        id: AssetId,
        at: Incarnation,
        latest: Incarnation,
    ) -> BoxFuture<'static, Result<Observation, BoxError>> {
        let found = at
            .asset(&id)
            .map(|asset| (asset, at))
            .or_else(|| latest.asset(&id).map(|asset| (asset, latest)));
        let Some((asset, incarnation)) = found else {
            return futures::future::ready(Err(format!("no incarnation in use has `{id}`").into()))
                .boxed();
        };
        let (diff, as_of) = (self.diff(&asset, &incarnation), self.now);
        async move {
            Ok(Observation {
                diff: diff.await?,
                stamp: Stamp { slot: 0, seq: 0 },
                as_of,
            })
        }
        .boxed()
    }
}

/// Makes plans for a partition: cheap to clone, needs no running enforcer.
#[derive(Clone)]
pub struct Planner<R> {
    runtime: R,
    registry: Registry,
    checks: Stack<CheckRequest, Verdict>,
}

impl<R: Runtime> Enforcer<R> {
    /// Makes plans with this enforcer's plugins and checks.
    pub fn planner(&self) -> Planner<R> {
        Planner {
            runtime: self.runtime.clone(),
            registry: self.registry.clone(),
            checks: self.checks.clone(),
        }
    }
}

impl<R: Runtime> Planner<R> {
    /// Diffs every asset of `incarnation` and asks the checks about those that differ. Pushes nothing.
    pub async fn plan(&self, incarnation: Incarnation) -> Plan {
        let mut plan = Plan::default();
        let assets: Vec<Asset> = incarnation.snapshot().iter().collect();
        let (known, rest): (Vec<_>, Vec<_>) = assets
            .into_iter()
            .partition(|asset| self.registry.of(asset.type_str()).is_some());
        plan.modelled_only = rest.len();
        let mut looks = stream::iter(known)
            .map(|asset| self.look(asset, incarnation.clone()))
            .buffered(AT_ONCE);
        while let Some(planned) = looks.next().await {
            match planned {
                Some(planned) => plan.assets.push(planned),
                None => plan.in_sync += 1,
            }
        }
        plan
    }

    /// `None`: in sync.
    async fn look(&self, asset: Asset, incarnation: Incarnation) -> Option<Planned> {
        let now = self.runtime.now().wall;
        let observer = Observer {
            registry: self.registry.clone(),
            now,
        };
        let planned = |change, delays, note| {
            Some(Planned {
                asset: asset.id(),
                change,
                delays,
                note,
            })
        };
        match observer.diff(&asset, &incarnation).await {
            Ok(Diff::InSync { .. }) => None,
            Ok(Diff::Differs { change, observed }) => {
                let view = View {
                    eyes: Eyes::Plugins(observer),
                    at: incarnation.clone(),
                    latest: incarnation.clone(),
                    edges: Arc::new(InProduction::default()),
                    brought: Vec::new(),
                };
                let request = CheckRequest {
                    asset: asset.id(),
                    incarnation: incarnation.id().clone(),
                    change: Arc::new((*change).clone()),
                    observed,
                    cause: Cause::Intent,
                    now,
                    reader: IncarnationReader::new(incarnation),
                    view: Some(Arc::new(view)),
                };
                match self.checks.call(request).await {
                    Ok(verdict) => planned(Some(*change), verdict.delays, None),
                    Err(error) => planned(
                        Some(*change),
                        Vec::new(),
                        Some(format!("the checks failed: {error}")),
                    ),
                }
            }
            Ok(Diff::InProgress { .. }) => {
                planned(None, Vec::new(), Some("work on it is under way".into()))
            }
            Ok(Diff::Foreign { owner }) => {
                planned(None, Vec::new(), Some(format!("it belongs to {owner}")))
            }
            Ok(_) => planned(
                None,
                Vec::new(),
                Some("the plugin answered something unknown".into()),
            ),
            Err(error) => planned(None, Vec::new(), Some(error.to_string())),
        }
    }
}
