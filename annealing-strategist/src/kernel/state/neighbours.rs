//! R21: the assets that the moves of a rollout can hurt, kept from one health check to the next. A check reads only the
//! assets for which something has changed since the last one.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    iter::Peekable,
    sync::Arc,
};

use plugin_sdk::{Pin, Target};
use prodspec_model::{AssetId, Incarnation, IncarnationNo, Snapshot};

use super::{closure::declared, group::Group, pins::Pins};
use crate::{
    group::{Heads, policy_of},
    policy::target_of,
};

/// The group's assets and those tied to its moved targets by an edge, as of the last health check.
#[derive(Debug, Default)]
pub(in crate::kernel) struct Neighbours {
    /// The data when they were read last. `None`: they were not read yet.
    seen: Option<Seen>,
    all: BTreeMap<AssetId, Neighbour>,
    /// The numbers of the lists of failure domains that the group's assets have.
    lists: BTreeMap<Arc<[Arc<str>]>, usize>,
    /// For each of these lists, the number of targets that have it and have moved.
    moved: Vec<usize>,
}

/// The data that decides which assets are in production.
#[derive(Debug)]
struct Seen {
    latest: Snapshot,
    head: Snapshot,
    heads: Heads,
    /// The incarnations at which the content of a pinned asset can be read.
    at_hand: BTreeSet<IncarnationNo>,
}

/// One asset, as far as it was read.
#[derive(Debug, Default)]
struct Neighbour {
    /// The number of its list of failure domains, if it belongs to the group.
    domains: Option<usize>,
    /// The number of moved targets to which an edge ties it.
    ties: usize,
    /// Whether it is a target that has moved.
    is_moved: bool,
    /// Its own pin when `presence` was found.
    pin: Option<Pin>,
    presence: Option<Presence>,
}

/// Whether an asset that the rollout has not moved is in production and has signals.
#[derive(Debug, Clone, Copy)]
pub(in crate::kernel) struct Presence {
    pub(in crate::kernel) serves: bool,
    /// Whether that depends on the heads of groups.
    pub(in crate::kernel) by_heads: bool,
}

impl Neighbours {
    /// Takes in the changes since the last check. `contents` is the same at each call.
    pub(in crate::kernel) fn follow(
        &mut self,
        contents: &Incarnation,
        group: &Group,
        targets: &[Target],
    ) {
        match self.seen.is_some() {
            true => self.forget_presence(group),
            false => self.read(contents, group.policy(), targets),
        }
        self.seen = Some(Seen::of(group));
    }

    /// Returns the assets that the moved targets can hurt, sorted by id: the group's other assets in the same failure
    /// domains, and assets tied to the moved targets by an edge, if they are there.
    pub(in crate::kernel) fn hurt(
        &mut self,
        pins: &Pins,
        presence: impl Fn(&AssetId) -> Presence,
    ) -> Vec<AssetId> {
        let hurt = self.hurt_lists();
        let near = |asset: &Neighbour| asset.domains.is_some_and(|list| hurt[list]);
        let mut pins = Along(pins.iter().map(|(id, own)| (id, own.pin)).peekable());
        let all = self.all.iter_mut();
        let all = all.filter(|(_, asset)| !asset.is_moved && (asset.ties > 0 || near(asset)));
        let there = all.filter_map(|(id, asset)| {
            let pin = pins.at(id);
            if asset.pin != pin {
                (asset.pin, asset.presence) = (pin, None);
            }
            let presence = asset.presence.get_or_insert_with(|| presence(id));
            presence.serves.then(|| id.clone())
        });
        there.collect()
    }

    /// Notes that a target has moved, or that it waits again or is no target any more.
    pub(in crate::kernel) fn moved(&mut self, contents: &Incarnation, id: &AssetId, moved: bool) {
        let known = self.all.get_mut(id);
        let Some(target) = known.filter(|known| known.is_moved != moved) else {
            return;
        };
        target.is_moved = moved;
        let count = match moved {
            true => |number: &mut usize| *number += 1,
            false => |number: &mut usize| *number -= 1,
        };
        if let Some(list) = target.domains {
            count(&mut self.moved[list]);
        }
        let edges = declared(contents.asset(id).as_ref());
        let providers = edges.into_iter().map(|edge| edge.provider.id);
        for other in providers.chain(contents.snapshot().referrers(id.as_str())) {
            count(&mut self.all.entry(other).or_default().ties);
        }
    }

    /// Reads the targets, and the other members of the group of `policy`.
    fn read(&mut self, contents: &Incarnation, policy: &AssetId, targets: &[Target]) {
        let mut along = Along(targets.iter().map(|it| (&it.asset, it)).peekable());
        let members = contents.snapshot().referrers(policy.as_str()).into_iter();
        let members = members.filter(|id| along.at(id).is_none());
        let members = members.filter_map(|id| contents.asset(&id));
        let members = members.filter(|asset| policy_of(asset).as_ref() == Some(policy));
        let members: Vec<Target> = members.map(|asset| target_of(&asset)).collect();
        let all = targets.iter().chain(&members).map(|member| {
            let asset = Neighbour {
                domains: Some(self.number(&member.domains)),
                ..Neighbour::default()
            };
            (member.asset.clone(), asset)
        });
        self.all = all.collect();
        for target in targets.iter().filter(|target| !target.is_waiting()) {
            self.moved(contents, &target.asset, true);
        }
    }

    fn number(&mut self, domains: &Arc<[Arc<str>]>) -> usize {
        if let Some(known) = self.lists.get(domains) {
            return *known;
        }
        self.lists.insert(domains.clone(), self.moved.len());
        self.moved.push(0);
        self.moved.len() - 1
    }

    /// Forgets whether those assets are there for which the incarnations or heads have changed that decide it.
    fn forget_presence(&mut self, group: &Group) {
        let Some(seen) = &self.seen else { return };
        let now = Seen::of(group);
        let changed = seen.latest.diff(&now.latest).into_iter();
        for change in changed.chain(seen.head.diff(&now.head)) {
            if let Some(asset) = self.all.get_mut(&change.id()) {
                asset.presence = None;
            }
        }
        let moved: Vec<&IncarnationNo> = seen.at_hand.symmetric_difference(&now.at_hand).collect();
        for asset in self.all.values_mut().filter(|_| !moved.is_empty()) {
            let at = asset.pin.and_then(|pin| pin.incarnation());
            asset.presence = asset
                .presence
                .filter(|_| !at.is_some_and(|at| moved.contains(&&at)));
        }
        if !Arc::ptr_eq(&seen.heads, &now.heads) {
            for asset in self.all.values_mut() {
                asset.presence = asset.presence.filter(|presence| !presence.by_heads);
            }
        }
    }

    /// Whether the moved targets can hurt assets with each list of failure domains. A target without one can hurt all.
    fn hurt_lists(&self) -> Vec<bool> {
        let moved = self.lists.iter().filter(|(_, at)| self.moved[**at] > 0);
        let everywhere = moved.clone().any(|(domains, _)| domains.is_empty());
        let hurt: BTreeSet<_> = moved.flat_map(|(domains, _)| domains.iter()).collect();
        let mut lists = vec![everywhere; self.lists.len()];
        for (domains, &at) in &self.lists {
            lists[at] |= domains.iter().any(|domain| hurt.contains(domain));
        }
        lists
    }
}

impl Seen {
    fn of(group: &Group) -> Self {
        let head = group.head();
        Self {
            latest: group.latest().snapshot().clone(),
            head: head.map_or_else(Snapshot::empty, |head| head.snapshot().clone()),
            heads: group.heads().clone(),
            at_hand: head
                .into_iter()
                .chain([group.latest()])
                .map(Incarnation::no)
                .collect(),
        }
    }
}

/// A sequence sorted by id, read along with ids in ascending order.
struct Along<I: Iterator>(Peekable<I>);

impl<'a, T, I: Iterator<Item = (&'a AssetId, T)>> Along<I> {
    fn at(&mut self, id: &AssetId) -> Option<T> {
        loop {
            match order(self.0.peek()?.0, id) {
                Ordering::Less => drop(self.0.next()),
                Ordering::Equal => return self.0.next().map(|(_, item)| item),
                Ordering::Greater => return None,
            }
        }
    }
}

/// Compares ids, without reading those that share memory.
fn order(one: &AssetId, other: &AssetId) -> Ordering {
    match std::ptr::eq(one.as_str(), other.as_str()) {
        true => Ordering::Equal,
        false => one.cmp(other),
    }
}
