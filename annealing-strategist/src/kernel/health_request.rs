//! R21: names the assets whose health tells whether the updated targets are well.

use std::collections::BTreeSet;

use jiff::Timestamp;
use plugin_sdk::{HealthRequest, IncarnationReader, Now, Progress, SyncState, Watched};
use prodspec_model::{Asset, AssetId, Message, addons::Turndown};

use super::{
    Kernel,
    state::{
        closure::Before,
        neighbours::{Neighbours, Presence},
    },
};
use crate::group::policy_of;

impl Kernel {
    pub(super) fn health_request(&mut self, now: Now) -> Option<HealthRequest> {
        let neighbours = self.neighbours().into_iter();
        let control = self.control(now);
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
            if row.is_some() && !target.silent {
                role.push(self.watched(now, &target.asset, since));
            }
        }
        let since = last_settled.or(first_moved)?;
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
            .control(control)
            .decisive(decisive)
            .reader(IncarnationReader::new(live.contents().clone()))
            .newest(IncarnationReader::new(self.group.sealed().clone()));
        Some(request)
    }

    /// R105: targets that have not moved, and are as they were before the rollout began.
    fn control(&mut self, now: Now) -> Vec<Watched> {
        let Some(live) = &mut self.live else {
            return Vec::new();
        };
        let began = live.rollout().moved_at.unwrap_or(now.wall);
        let mut control = std::mem::take(&mut live.judging.control);
        let drawn = control.waiting(live.id(), live.targets());
        live.judging.control = control;
        let as_before = |asset: &AssetId| match self.pins.status(asset).map(|it| &it.state) {
            None => Some(began),
            Some(SyncState::InSync { since }) => Some(began.max(*since)),
            Some(_) => None,
        };
        let units = drawn.into_iter();
        let units = units.filter(|it| self.presence(it).serves);
        let units = units.filter_map(|it| Some(Watched::new(it.clone(), as_before(&it)?)));
        units.collect()
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

    /// Returns the assets that the moved targets can hurt. Assets that are not in production yet are left out.
    fn neighbours(&mut self) -> Vec<AssetId> {
        let kept = self
            .live
            .as_mut()
            .map(|live| std::mem::take(&mut live.neighbours));
        let mut kept = kept.unwrap_or_default();
        let found = self.hurt(&mut kept);
        debug_assert_eq!(found, self.hurt(&mut Neighbours::default()));
        if let Some(live) = &mut self.live {
            live.neighbours = kept;
        }
        found
    }

    fn hurt(&self, neighbours: &mut Neighbours) -> Vec<AssetId> {
        let Some(live) = &self.live else {
            return Vec::new();
        };
        let targets = live.targets().all();
        neighbours.follow(live.contents(), &self.group, targets);
        neighbours.hurt(&self.pins, |id| self.presence(id))
    }

    /// Whether an asset that the rollout has not moved is in production and has signals.
    fn presence(&self, asset: &AssetId) -> Presence {
        let newest = self.group.latest().asset(asset);
        let named = newest.as_ref().and_then(policy_of);
        let ours = named.as_ref() == Some(self.group.policy());
        let serves = |there: Option<Asset>| there.is_some_and(|it| self.serves(&it));
        let serves = match named {
            _ if asset == self.group.policy() => false,
            _ if self.governs(self.group.latest(), asset) => match self.before(asset) {
                Before::Asset(there) => self.serves(&there),
                Before::Nothing => false,
                Before::Unknown => {
                    let new = self
                        .live
                        .as_ref()
                        .and_then(|live| live.contents().asset(asset));
                    new.is_none_or(|it| self.serves(&it))
                }
            },
            Some(other) => {
                let head = self.group.head_of(&other);
                serves(head.and_then(|head| head.asset(asset)))
            }
            None => serves(newest),
        };
        Presence {
            serves,
            by_heads: !ours,
        }
    }
}
