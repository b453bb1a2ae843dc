//! A check's window on the rest of its partition: edges from the incarnations, diffs through the kernel.

use std::{collections::BTreeSet, sync::Arc};

use futures::{channel::oneshot, future::BoxFuture};
use plugin_sdk::{BoxError, Observation, PartitionView, Run, observe::Link};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo,
    addons::{DependsOn, Edge},
};

use super::{Input, inside::Inside};
use crate::kernel::InProduction;

/// How a view gets at diffs of other assets.
#[derive(Debug, Clone)]
pub(crate) enum Eyes {
    /// Through the kernel, which stamps them, for this run of the checks.
    Kernel(Inside, Run),
    /// Straight from the plugins: for plans, which push nothing.
    Plugins(super::plan::Observer),
}

/// See [`PartitionView`].
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) eyes: Eyes,
    /// The incarnation being pushed.
    pub(crate) at: Incarnation,
    /// The newest one: what others may have been pushed to meanwhile.
    pub(crate) latest: Incarnation,
    /// What production may have beside both.
    pub(crate) edges: Arc<InProduction>,
}

fn declared(asset: Option<Asset>) -> Vec<Edge> {
    let depends = asset.and_then(|asset| asset.addon::<DependsOn>().ok().flatten());
    depends.map(|depends| depends.edges).unwrap_or_default()
}

impl View {
    fn incarnations(&self) -> impl Iterator<Item = &Incarnation> {
        let newer = (self.latest.no() != self.at.no()).then_some(&self.latest);
        std::iter::once(&self.at).chain(newer)
    }

    /// Every edge that a consumer may have in production.
    fn edges_of(&self, consumer: &AssetId) -> BTreeSet<Edge> {
        let intended = self
            .incarnations()
            .flat_map(|incarnation| declared(incarnation.asset(consumer)));
        intended.chain(self.edges.of(consumer).cloned()).collect()
    }
}

impl PartitionView for View {
    fn observe(
        &self,
        asset: &AssetId,
        at: IncarnationNo,
    ) -> BoxFuture<'static, Result<Observation, BoxError>> {
        debug_assert_eq!(
            at,
            self.at.no(),
            "a check asks at the incarnation it was asked about"
        );
        match &self.eyes {
            Eyes::Plugins(observer) => {
                observer.observe(asset.clone(), self.at.clone(), self.latest.clone())
            }
            Eyes::Kernel(kernel, asker) => {
                let (reply, answer) = oneshot::channel();
                let sent = kernel.send(Input::Observe {
                    asker: *asker,
                    asset: asset.clone(),
                    reply,
                });
                Box::pin(async move {
                    sent.then_some(()).ok_or("the enforcer has stopped")?;
                    answer
                        .await
                        .map_err(|_| "the enforcer has stopped")?
                        .map_err(Into::into)
                })
            }
        }
    }

    fn providers(&self, asset: &AssetId, _at: IncarnationNo) -> Vec<Link> {
        let link = |edge: Edge| Link {
            asset: edge.provider.id,
            need: edge.need,
        };
        self.edges_of(asset).into_iter().map(link).collect()
    }

    fn consumers(&self, asset: &AssetId, _at: IncarnationNo) -> Vec<Link> {
        let mut who: BTreeSet<AssetId> = self.edges.consumers(asset).cloned().collect();
        for incarnation in self.incarnations() {
            who.extend(incarnation.snapshot().referrers(asset.as_str()));
        }
        let mut links = Vec::new();
        for consumer in who {
            let needs = self
                .edges_of(&consumer)
                .into_iter()
                .filter(|edge| edge.provider.id == *asset);
            links.extend(needs.map(|edge| Link {
                asset: consumer.clone(),
                need: edge.need,
            }));
        }
        links
    }
}
