//! A takeover with many policy groups: the work is counted, not timed.

use std::sync::Arc;

use control_plane_runtime::TokioRuntime;
use control_plane_store::{
    Batch, MemoryStore, Store,
    incarnations::{Head, Incarnations},
    record,
};
use jiff::Timestamp;
use plugin_sdk::{Cause, GroupHead, Pin, SyncState, testing};
use prodspec_model::{
    Asset, IncarnationId, IncarnationNo, PartitionId, Snapshot, addons::RolloutPolicyRef,
    incarnation::Header,
};

use super::*;
use crate::{
    group::EXAMINED,
    shell::{groups::Groups, steps::Work},
};

const GROUPS: usize = 800;

fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

fn policy(group: usize) -> AssetId {
    id(&format!("policy/{group:03}"))
}

/// Returns the asset of a group.
fn asset(group: usize, content: &str) -> Asset {
    let content = content.to_owned();
    let asset = testing::asset(&format!("job/{group:03}")).edit();
    let asset = asset.payload(&testing::Thing { content }).unwrap();
    let asset = asset.addon(&RolloutPolicyRef::to(policy(group))).unwrap();
    asset.build().unwrap()
}

struct World {
    strategist: Arc<Strategist<TokioRuntime>>,
    latest: Incarnation,
    sealed: Option<Head>,
}

impl World {
    /// Seals a first incarnation with these assets.
    async fn new(assets: Vec<Asset>) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let partition: PartitionId = "test".parse().unwrap();
        let incarnations = Arc::new(Incarnations::new(store.clone(), partition.clone()));
        let runtime = TokioRuntime::current();
        let strategist = Strategist::builder(runtime, partition, store, incarnations).build();
        let snapshot = Snapshot::empty().edit(IncarnationNo(1), assets, &[]);
        let latest = incarnation(&strategist, None, snapshot);
        let mut world = Self {
            strategist,
            latest: latest.clone(),
            sealed: None,
        };
        world.seal(latest).await;
        world
    }

    async fn seal(&mut self, newer: Incarnation) {
        let incarnations = &self.strategist.incarnations;
        let sealed = incarnations.seal(&newer, self.sealed.as_ref(), Batch::new());
        self.sealed = Some(sealed.await.unwrap());
        self.latest = newer;
    }

    /// Seals an incarnation with these changes.
    async fn put(&mut self, assets: Vec<Asset>) {
        let no = self.latest.no().next();
        let snapshot = self.latest.snapshot().edit(no, assets, &[]);
        let newer = incarnation(&self.strategist, Some(&self.latest), snapshot);
        self.seal(newer).await;
    }

    /// Makes the newest incarnation the head of a group.
    async fn complete(&self, group: usize) {
        let incarnation = self.latest.no();
        let head = GroupHead::At(incarnation);
        let write = record::put(&self.strategist.partition, policy(group).as_str(), &head);
        let batch = Batch::new().write(write.unwrap());
        self.strategist.store.commit(batch).await.unwrap();
    }
}

fn incarnation(
    strategist: &Strategist<TokioRuntime>,
    parent: Option<&Incarnation>,
    snapshot: Snapshot,
) -> Incarnation {
    let no = parent.map_or(IncarnationNo(1), |parent| parent.no().next());
    let id = IncarnationId::new(strategist.partition.clone(), no);
    let parent = parent.map(Incarnation::no);
    let header = Header::new(id, parent, &snapshot, Timestamp::UNIX_EPOCH);
    Incarnation::new(header, snapshot)
}

/// Many groups, each with a head of its own. The content of one of them is new.
async fn many_groups() -> World {
    let mut world = World::new((0..GROUPS).map(|group| asset(group, "1")).collect()).await;
    for group in 0..GROUPS {
        world.put(vec![asset(group, "2")]).await;
        world.complete(group).await;
    }
    world.put(vec![asset(7, "3")]).await;
    world
}

#[tokio::test]
async fn r17_a_takeover_of_many_groups_examines_each_change_and_pin_a_few_times() {
    let world = many_groups().await;
    let pins = (0..GROUPS).map(|group| {
        let asset = asset(group, "2");
        let pin = Pin::At(world.latest.no(), Cause::Intent);
        let since = Timestamp::UNIX_EPOCH;
        let state = SyncState::InSync { since };
        let standing = Standing::at(pin, Some(asset.digest()), state);
        (asset.id(), standing)
    });
    let pins: Vec<_> = pins.collect();
    EXAMINED.set(0);
    let found = remembered(&world.strategist, &world.latest, &pins).await;
    let groups = found.unwrap().groups;
    assert_eq!(groups.len(), GROUPS);
    for group in groups {
        let recovered = group.recovered;
        let (pending, pinned) = (recovered.pending, recovered.pins.len());
        let edited = recovered.policy == policy(7);
        assert_eq!((pending.len(), pinned), (usize::from(edited), 1));
    }
    assert!(EXAMINED.get() <= 4 * GROUPS, "{}", EXAMINED.get());
}

/// Heads far behind the newest incarnation follow it at the takeover: each group hears of all of them at once.
#[tokio::test]
async fn r17_heads_that_follow_at_a_takeover_are_told_to_each_group_once() {
    let world = many_groups().await;
    let found = remembered(&world.strategist, &world.latest, &[]).await;
    let found = found.unwrap();
    let mut groups = Groups::new(world.strategist, world.latest, found.heads, Vec::new());
    EXAMINED.set(0);
    groups.add(found.groups);
    let moves = |work: &&Work| matches!(work, Work::Step(_, step) if step.head.is_some());
    let moved = groups.work.iter().filter(moves).count();
    assert!(moved > GROUPS / 2, "{moved}");
    assert!(EXAMINED.get() <= 2 * GROUPS, "{}", EXAMINED.get());
}

/// The group that governs an asset is that of the rule, for every asset and at every incarnation.
#[tokio::test]
async fn r17_governor_by_changes_is_the_group_that_governs_by_the_rule() {
    let of = |group: Option<usize>, name: usize, content: &str| {
        let content = content.to_owned();
        let asset = testing::asset(&format!("job/{name:03}")).edit();
        let asset = asset.payload(&testing::Thing { content }).unwrap();
        let asset = match group {
            Some(group) => asset.addon(&RolloutPolicyRef::to(policy(group))),
            None => Ok(asset),
        };
        asset.unwrap().build().unwrap()
    };
    // Each asset goes through groups, and through none, at its own pace.
    let group = |step: usize, name: usize| {
        Some((step * step * 3 + name * 7 + step * name / 2) % 4).filter(|group| *group < 3)
    };
    let all = |step: usize| {
        let names = 0..20;
        names.map(move |name| of(group(step, name), name, &(step / 3).to_string()))
    };
    let mut world = World::new(all(1).collect()).await;
    let mut incarnations = vec![world.latest.clone()];
    for step in 2..12 {
        world.put(all(step).collect()).await;
        incarnations.push(world.latest.clone());
    }
    let heads = [2, 7, 4].map(|at: usize| incarnations[at].clone());
    let heads = (0..).map(policy).zip(heads.map(GroupHead::At));
    let heads: Heads = Arc::new(heads.collect());
    let mut membership = membership::Membership::new(heads.clone());
    for changes in Incarnation::changes_step_by_step(incarnations.clone()) {
        membership.add(changes);
    }
    let mut found = 0;
    for (at, name) in incarnations
        .iter()
        .flat_map(|at| (0..20).map(move |name| (at, name)))
    {
        let asset = id(&format!("job/{name:03}"));
        let head = |policy: &AssetId| heads.get(policy).and_then(GroupHead::incarnation);
        let governs =
            |policy: &AssetId| crate::group::governs(policy, head(policy), &heads, at, &asset);
        let by_rule: Vec<AssetId> = (0..3).map(policy).filter(governs).collect();
        let governor = membership.governor(at, &asset);
        found +=
            usize::from(at.asset(&asset).as_ref().and_then(crate::group::policy_of) != governor);
        assert_eq!(governor.into_iter().collect::<Vec<_>>(), by_rule, "{asset}");
    }
    assert!(found > 10, "few assets are governed by a head: {found}");
}
