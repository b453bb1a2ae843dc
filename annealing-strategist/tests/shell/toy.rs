//! A toy enforcer whose pushes take no time, on a real store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use control_plane_store::{
    Batch, Store, Write,
    incarnations::{Head, Incarnations},
    record,
};
use futures::channel::mpsc;
use jiff::Timestamp;
use plugin_sdk::{
    Actuation, Actuator, BoxError, Cause, Enforcement, Feed, FeedItem, GroupHead, Pin, Standing,
    SyncState,
};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo, PartitionId, Snapshot,
    addons::RolloutPolicyRef, incarnation::Header,
};

use crate::world::id;

pub(crate) fn policy_of(asset: &Asset) -> Option<AssetId> {
    let addon = asset.addon::<RolloutPolicyRef>().unwrap();
    addon.map(|addon| addon.policy.id)
}

/// A toy enforcer whose pushes take no time.
pub(crate) struct Toy {
    pub partition: PartitionId,
    pub store: Arc<dyn Store>,
    pub incarnations: Arc<Incarnations<dyn Store>>,
    pub state: Mutex<Pins>,
}

#[derive(Default)]
pub(crate) struct Pins {
    pub all: BTreeMap<IncarnationNo, Incarnation>,
    pub sealed: Option<Head>,
    pub heads: BTreeMap<AssetId, GroupHead<Incarnation>>,
    pub pins: BTreeMap<AssetId, Pin>,
    pub followers: Vec<mpsc::UnboundedSender<FeedItem>>,
    /// The number of moves of each asset's pin to each incarnation.
    pub moved: BTreeMap<(AssetId, IncarnationNo), u32>,
}

impl Pins {
    pub(crate) fn latest(&self) -> &Incarnation {
        self.all.values().next_back().unwrap()
    }

    pub(crate) fn governs(&self, id: &AssetId) -> Option<AssetId> {
        let newest = self.latest().asset(id).as_ref().and_then(policy_of);
        newest.or_else(|| {
            let at_head = |(policy, head): (&AssetId, &GroupHead<Incarnation>)| {
                let named = policy_of(&head.incarnation()?.asset(id)?);
                (named.as_ref() == Some(policy)).then(|| policy.clone())
            };
            self.heads.iter().find_map(at_head)
        })
    }

    pub(crate) fn at(&self, id: &AssetId) -> Option<Incarnation> {
        match self.pins.get(id) {
            Some(Pin::At(no, _)) => self.all.get(no).cloned(),
            Some(Pin::NotYet) => None,
            _ => match self.governs(id) {
                Some(policy) => match self.heads.get(&policy)? {
                    GroupHead::At(head) => Some(head.clone()),
                    GroupHead::Latest => Some(self.latest().clone()),
                    GroupHead::Unknown => None,
                },
                None => Some(self.latest().clone()),
            },
        }
    }

    pub(crate) fn content(&self, id: &AssetId) -> Option<Digest> {
        self.at(id)?.asset(id).map(|asset| asset.digest())
    }

    pub(crate) fn standing(&self, id: &AssetId) -> Standing {
        let pin = self.pins.get(id).copied();
        let since = Timestamp::UNIX_EPOCH;
        let state = SyncState::InSync { since };
        Standing::at(pin.unwrap_or(Pin::Default), self.content(id), state)
    }

    pub(crate) fn tell(&mut self, feed: &FeedItem) {
        self.followers
            .retain(|follower| follower.unbounded_send(feed.clone()).is_ok());
    }

    pub(crate) fn tell_standing(&mut self, id: &AssetId) {
        let standing = self.standing(id);
        self.tell(&FeedItem::Standings(vec![(id.clone(), standing)]));
    }

    /// R17: governed assets keep their content during `change`.
    pub(crate) fn keeping(&mut self, change: impl FnOnce(&mut Self)) {
        let all = self.all.values().flat_map(|of| of.snapshot().iter());
        let ids: BTreeSet<AssetId> = all.map(|asset| asset.id()).collect();
        let was: Vec<_> = ids
            .iter()
            .map(|id| (self.at(id), self.content(id)))
            .collect();
        change(self);
        for (id, (at, content)) in ids.iter().zip(was) {
            let kept = self.governs(id).is_some() && !self.pins.contains_key(id);
            if kept && self.content(id) != content {
                let pin = at.map_or(Pin::NotYet, |at| Pin::At(at.no(), Cause::Intent));
                self.pins.insert(id.clone(), pin);
                self.tell_standing(id);
            }
        }
    }

    pub(crate) fn publish(&mut self, newer: Incarnation) {
        let took = newer.clone();
        self.keeping(|pins| drop(pins.all.insert(newer.no(), newer)));
        self.tell(&FeedItem::Took(took));
    }

    pub(crate) fn move_pin(&mut self, id: &AssetId, to: Pin<Incarnation>) {
        match to {
            Pin::At(at, cause) => {
                *self.moved.entry((id.clone(), at.no())).or_default() += 1;
                self.pins.insert(id.clone(), Pin::At(at.no(), cause));
            }
            Pin::NotYet => drop(self.pins.insert(id.clone(), Pin::NotYet)),
            Pin::Default => {
                let content = self.content(id);
                let pin = self.pins.remove(id);
                let other = self.content(id) != content && self.governs(id).is_some();
                if let Some(pin) = pin.filter(|_| other) {
                    self.pins.insert(id.clone(), pin);
                }
            }
        }
        self.tell_standing(id);
    }
}

#[async_trait]
impl Actuator for Toy {
    type Write = Write;

    async fn actuate(&self, step: Actuation<Write>) -> Result<(), BoxError> {
        let mut batch = Batch::new();
        batch.writes = step.writes;
        for (policy, head) in &step.heads {
            let head = head.by_number();
            batch = batch.write(record::put(&self.partition, policy.as_str(), &head)?);
        }
        self.store.commit(batch).await?;
        let mut state = self.state.lock().unwrap();
        for (policy, head) in step.heads {
            state.keeping(|pins| drop(pins.heads.insert(policy, head)));
        }
        for (id, to) in step.moves {
            state.move_pin(&id, to);
        }
        Ok(())
    }
}

impl Enforcement for Toy {
    /// A feed that reports all pins, whether its reader follows them or not.
    fn feed(&self) -> Feed {
        let mut state = self.state.lock().unwrap();
        let (sender, feed) = mpsc::unbounded();
        let pins: Vec<AssetId> = state.pins.keys().cloned().collect();
        let pins = pins.iter().map(|id| (id.clone(), state.standing(id)));
        let first = [
            FeedItem::Took(state.latest().clone()),
            FeedItem::Standings(pins.collect()),
        ];
        for item in first {
            sender.unbounded_send(item).unwrap();
        }
        state.followers.push(sender);
        Feed::new(feed, drop)
    }
}

pub(crate) async fn seal(toy: &Toy, assets: Vec<Asset>, gone: &[&str]) {
    let (before, after) = {
        let state = toy.state.lock().unwrap();
        (state.all.values().next_back().cloned(), state.sealed)
    };
    let no = before
        .as_ref()
        .map_or(IncarnationNo(1), |before| before.no().next());
    let old = before
        .as_ref()
        .map_or_else(Snapshot::empty, |before| before.snapshot().clone());
    let gone: Vec<AssetId> = gone.iter().map(|name| id(name)).collect();
    let snapshot = old.edit(no, assets, &gone);
    let id = prodspec_model::IncarnationId::new(toy.partition.clone(), no);
    let parent = before.map(|before| before.no());
    let header = Header::new(id, parent, &snapshot, Timestamp::UNIX_EPOCH);
    let newer = Incarnation::new(header, snapshot);
    let sealed = toy
        .incarnations
        .seal(&newer, after.as_ref(), Batch::new())
        .await
        .unwrap();
    let mut state = toy.state.lock().unwrap();
    state.sealed = Some(sealed);
    state.publish(newer);
}
