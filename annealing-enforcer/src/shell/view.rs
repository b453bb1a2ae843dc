//! A check's view of the rest of its partition: edges from the incarnations, observations through the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{channel::oneshot, future::BoxFuture};
use jiff::Timestamp;
use plugin_sdk::{
    Observation, PartitionView, Served, Serving, Shared, Usage,
    observe::{Error, Link},
};
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationNo,
    addons::{DependsOn, Edge, Need},
};

use super::{
    input::{Input, Question},
    owned_sender::OwnedSender,
};
use crate::kernel::InProduction;

/// Implements [`PartitionView`] for one run of the checks.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The way to ask the kernel for observations of other assets.
    pub(crate) kernel: OwnedSender,
    /// The incarnation being pushed.
    pub(crate) at: Incarnation,
    /// The newest incarnation: other assets may have been pushed to it meanwhile.
    pub(crate) latest: Incarnation,
    /// The edges that production may have besides those of `at` and `latest`.
    pub(crate) edges: Arc<InProduction>,
    /// The edges that the push itself adds to production.
    pub(crate) brought: Vec<Edge>,
    /// The present ids of the asset and its providers, by the old ids that edges may still name.
    pub(crate) renamed: BTreeMap<AssetId, AssetId>,
}

fn stopped() -> Error {
    Error::failed("the enforcer has stopped")
}

fn declared(asset: Option<Asset>) -> Vec<Edge> {
    asset.map_or_else(Vec::new, |asset| DependsOn::edges_of(&asset))
}

impl View {
    /// Asks the kernel.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> BoxFuture<'static, Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.kernel.send(Input::Ask(question(reply)));
        Box::pin(async move {
            sent.then_some(()).ok_or_else(stopped)?;
            answer.await.map_err(|_| stopped())
        })
    }

    fn link(&self, edge: Edge) -> Link {
        let named = edge.provider.id;
        Link {
            asset: self.renamed.get(&named).cloned().unwrap_or(named),
            need: edge.need,
        }
    }

    /// The id of `asset`, and the old one that edges may still name.
    fn ids_of(&self, asset: &AssetId) -> Vec<AssetId> {
        let renamed = self.renamed.iter();
        let old = renamed.filter(|(_, present)| *present == asset);
        let old = old.map(|(old, _)| old.clone());
        std::iter::once(asset.clone()).chain(old).collect()
    }

    fn incarnations(&self) -> impl Iterator<Item = &Incarnation> {
        let newer = (self.latest.no() != self.at.no()).then_some(&self.latest);
        std::iter::once(&self.at).chain(newer)
    }

    /// Every edge that a consumer may have in production: at `at`, at `latest`, or from earlier pushes.
    fn edges_of(&self, consumer: &AssetId) -> BTreeSet<Edge> {
        let intended = self
            .incarnations()
            .flat_map(|incarnation| declared(incarnation.asset(consumer)));
        intended.chain(self.edges.of(consumer).cloned()).collect()
    }
}

impl PartitionView for View {
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, Error>> {
        let asset = asset.clone();
        let answer = self.ask(|reply| Question::Observe { asset, reply });
        Box::pin(async move { answer.await? })
    }

    fn usage(
        &self,
        shared: &Shared,
        _at: IncarnationNo,
        but: &AssetId,
        _now: Timestamp,
    ) -> BoxFuture<'static, Result<Usage, Error>> {
        let (shared, but) = (shared.clone(), but.clone());
        self.ask(|reply| Question::Usage { shared, but, reply })
    }

    fn served(
        &self,
        serving: &Serving,
        but: &AssetId,
    ) -> BoxFuture<'static, Result<Served, Error>> {
        let (serving, but) = (serving.clone(), but.clone());
        self.ask(|reply| Question::Served {
            serving,
            but,
            reply,
        })
    }

    /// The providers at the incarnation being pushed, not those of a newer incarnation, and those that production may
    /// still use. An order is between pushes, so one that the incarnation being pushed has dropped no longer counts:
    /// dropping it is how an operator ends a wait that no push can end.
    fn providers(&self, asset: &AssetId, _at: IncarnationNo) -> Vec<Link> {
        let own = declared(self.at.asset(asset)).into_iter();
        let used = self.edges.of(asset).filter(|edge| edge.need != Need::Order);
        let all: BTreeSet<Edge> = own.chain(used.cloned()).collect();
        all.into_iter().map(|edge| self.link(edge)).collect()
    }

    fn brought(&self, _asset: &AssetId, _at: IncarnationNo) -> Vec<Link> {
        let brought = self.brought.iter().cloned();
        brought.map(|edge| self.link(edge)).collect()
    }

    fn consumers(&self, asset: &AssetId, _at: IncarnationNo) -> Vec<Link> {
        let ids = self.ids_of(asset);
        let mut who: BTreeSet<AssetId> = BTreeSet::new();
        for id in &ids {
            who.extend(self.edges.consumers(id).cloned());
            for incarnation in self.incarnations() {
                who.extend(incarnation.snapshot().referrers(id.as_str()));
            }
        }
        who.remove(asset);
        let mut links = Vec::new();
        for consumer in who {
            let needs = self
                .edges_of(&consumer)
                .into_iter()
                .filter(|edge| ids.contains(&edge.provider.id));
            links.extend(needs.map(|edge| Link {
                asset: consumer.clone(),
                need: edge.need,
            }));
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use plugin_sdk::testing;
    use prodspec_model::AssetRef;

    use super::*;

    fn needs(name: &str, provider: &str) -> Asset {
        let edges = vec![Edge {
            provider: AssetRef::to(AssetId::new(provider).unwrap()),
            need: Need::Order,
        }];
        let asset = testing::asset(name).edit().addon(&DependsOn { edges });
        asset.unwrap().build().unwrap()
    }

    fn view() -> View {
        let enforcer = OwnedSender::new(
            plugin_sdk::FencingToken(1),
            futures::channel::mpsc::unbounded().0,
        );
        View {
            kernel: enforcer,
            at: testing::incarnation(1, [needs("a", "old"), needs("b", "old")]),
            latest: testing::incarnation(2, [needs("a", "new"), needs("b", "new")]),
            edges: Arc::new(InProduction::default()),
            brought: Vec::new(),
            renamed: BTreeMap::new(),
        }
    }

    #[test]
    fn r16_the_edges_of_a_push_are_not_those_of_a_newer_incarnation() {
        let view = view();
        let id = |name: &str| AssetId::new(name).unwrap();
        let names = |links: Vec<Link>| -> Vec<String> {
            links.iter().map(|link| link.asset.to_string()).collect()
        };
        let at = IncarnationNo(1);
        assert_eq!(names(view.providers(&id("a"), at)), ["old"]);
        assert_eq!(names(view.consumers(&id("new"), at)), ["a", "b"]);
    }

    #[test]
    fn r49_edges_to_an_old_id_are_edges_to_the_new_one() {
        let id = |name: &str| AssetId::new(name).unwrap();
        let renamed = [(id("old"), id("new"))].into();
        let view = View { renamed, ..view() };
        let at = IncarnationNo(1);
        let names = |links: Vec<Link>| -> BTreeSet<String> {
            links.iter().map(|link| link.asset.to_string()).collect()
        };
        assert_eq!(
            names(view.providers(&id("a"), at)),
            ["new".to_owned()].into()
        );
        let view = View {
            latest: testing::incarnation(2, [testing::asset("new")]),
            ..view
        };
        let consumers = ["a".to_owned(), "b".to_owned()].into();
        assert_eq!(names(view.consumers(&id("new"), at)), consumers);
    }

    #[test]
    fn r16_a_dropped_order_holds_the_push_no_longer() {
        let dropped = |provider: &str, need| Edge {
            provider: AssetRef::to(AssetId::new(provider).unwrap()),
            need,
        };
        let unit = "qps".to_owned();
        let kept = [
            dropped("capacity", Need::Capacity { unit }),
            dropped("order", Need::Order),
            dropped("version", Need::Version),
        ];
        let a = AssetId::new("a").unwrap();
        let mut edges = InProduction::default();
        edges.set(&a, kept.into());
        let view = View {
            edges: Arc::new(edges),
            ..view()
        };
        let links = view.providers(&a, IncarnationNo(1));
        let names: Vec<&str> = links.iter().map(|link| link.asset.as_str()).collect();
        assert_eq!(names, ["capacity", "old", "version"]);
    }
}
