//! R21: names the assets whose health tells whether the updated targets are well.

use std::collections::BTreeSet;

use jiff::Timestamp;
use plugin_sdk::{HealthRequest, IncarnationReader, Now, Progress, Watched};
use prodspec_model::{Asset, AssetId, Message, addons::Turndown};

use super::{
    Kernel,
    state::{
        closure::{Before, declared},
        live::Live,
    },
};
use crate::{
    group::{members, policy_of},
    policy::target_of,
};

impl Kernel {
    pub(super) fn health_request(&self, now: Now) -> Option<HealthRequest> {
        let live = self.live.as_ref()?;
        let (mut updated, mut under_way) = (Vec::new(), Vec::new());
        let (mut last_settled, mut first_moved) = (None, None);
        for (target, row) in live.targets().with_rows() {
            let (role, since) = match target.progress {
                Progress::Waiting => continue,
                Progress::Updated { at } => {
                    last_settled = last_settled.max(Some(at));
                    (&mut updated, at)
                }
                Progress::InFlight { since } | Progress::Drifted { since } => {
                    first_moved = Some(first_moved.map_or(since, |first| since.min(first)));
                    (&mut under_way, since)
                }
            };
            let new = || live.contents().asset(&target.asset);
            if row.is_some() && new().is_some_and(|new| self.serves(&new)) {
                role.push(self.watched(now, &target.asset, since));
            }
        }
        let since = last_settled.or(first_moved)?;
        let neighbours = self.neighbours(live).into_iter();
        let decisive = live.selecting.decisive();
        let decisive = decisive.filter_map(|place| live.targets().get(place));
        let decisive: BTreeSet<&AssetId> = decisive.map(|target| &target.asset).collect();
        let decides = |it: &&Watched| decisive.contains(&it.asset);
        let decisive = (!decisive.is_empty()).then(|| {
            let settled = updated.iter().filter(decides);
            settled.map(|it| it.asset.clone()).collect()
        });
        let policy = self.group.latest().asset(self.group.policy());
        let request = HealthRequest::new(live.id(), live.to().id().clone(), now.wall)
            .from(live.from().map(|from| from.id().clone()))
            .stage(live.rollout().stage.clone())
            .policy(policy.map(|it| it.digest()))
            .began(live.rollout().moved_at)
            .updated(updated)
            .under_way(under_way)
            .neighbours(neighbours.map(|id| self.watched(now, &id, since)).collect())
            .decisive(decisive)
            .reader(IncarnationReader::new(live.contents().clone()));
        Some(request)
    }

    fn watched(&self, now: Now, asset: &AssetId, since: Timestamp) -> Watched {
        // The signals of production follow the wall clock.
        let since = self.clock.to_wall(now, since);
        let from = self.live.as_ref().and_then(|it| it.rollout().evidence_from);
        Watched::new(asset.clone(), from.map_or(since, |from| since.max(from)))
    }

    /// Whether an asset with this content can have signals: it is enforced, and not being turned down.
    pub(super) fn serves(&self, asset: &Asset) -> bool {
        !self.types.is_modelled_only(asset.type_str()) && !asset.has_addon(Turndown::TYPE)
    }

    /// Returns the assets that the updated targets may affect: the group's other assets in the same failure domains,
    /// and assets tied to the updated targets by an edge. Assets that are not in production yet are left out.
    fn neighbours(&self, live: &Live) -> Vec<AssetId> {
        let moved = |id: &AssetId| {
            let target = live.targets().place(id);
            let target = target.and_then(|place| live.targets().get(place));
            target.is_some_and(|target| !target.is_waiting())
        };
        let hurt = || {
            live.targets()
                .all()
                .iter()
                .filter(|target| !target.is_waiting())
        };
        let domains = hurt().flat_map(|target| target.domains.iter());
        let domains: BTreeSet<_> = domains.collect();
        let everywhere = hurt().any(|target| target.domains.is_empty());
        let near = |id: &AssetId| {
            let target = live.contents().asset(id).map(|asset| target_of(&asset));
            target.is_some_and(|target| target.domains.iter().any(|of| domains.contains(of)))
        };
        let mut members = members(self.group.policy(), live.contents());
        members.retain(|id| everywhere || near(id));
        let tied = hurt().flat_map(|target| {
            let edges = declared(live.contents().asset(&target.asset).as_ref());
            let consumers = live.contents().snapshot().referrers(target.asset.as_str());
            edges
                .into_iter()
                .map(|edge| edge.provider.id)
                .chain(consumers)
        });
        let all: BTreeSet<AssetId> = tied.chain(members).collect();
        let hurt =
            |id: &AssetId| !moved(id) && id != self.group.policy() && self.is_there(live, id);
        all.into_iter().filter(hurt).collect()
    }

    /// Whether an asset that the rollout has not moved is in production and has signals.
    fn is_there(&self, live: &Live, asset: &AssetId) -> bool {
        let newest = self.group.latest().asset(asset);
        let at = match newest.as_ref().and_then(policy_of) {
            _ if self.governs(self.group.latest(), asset) => {
                return match self.before(asset) {
                    Before::Asset(asset) => self.serves(&asset),
                    Before::Nothing => false,
                    Before::Unknown => live
                        .contents()
                        .asset(asset)
                        .is_none_or(|it| self.serves(&it)),
                };
            }
            Some(other) => self
                .group
                .head_of(&other)
                .and_then(|head| head.asset(asset)),
            None => newest,
        };
        at.is_some_and(|it| self.serves(&it))
    }
}
