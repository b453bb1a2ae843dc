//! The process that seals: it edits, validates and seals in a loop, and may die at any point.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use control_plane_store::{
    Batch, Store,
    incarnations::{Head, Incarnations},
};
use jiff::Timestamp;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, IncarnationNo, Snapshot, incarnation::Header,
};

use super::edit::edit;
use crate::{
    executor::NodeId,
    faults::Fault,
    halt::kill,
    intent::{Plan, asset, id, number, partition},
    store::ProcessStore,
    world::{Accepted, World},
};

type Store_ = Incarnations<dyn Store>;

/// Starts the sealer, on the store as it was opened last.
pub fn seal_for_ever(world: &World) {
    let node = {
        let mut state = world.state();
        let node = world.executor.boot(&mut state.random, 0);
        state.sealed.node = Some(node);
        state.sealed.again = Some(seal_for_ever);
        node
    };
    let sealer = world.clone();
    world
        .executor
        .spawn(node, Box::pin(async move { run(sealer, node).await }));
}

async fn run(world: World, node: NodeId) {
    let store = Arc::new(Incarnations::new(
        ProcessStore::open(&world, node),
        partition(),
    ));
    loop {
        let times = {
            let mut state = world.state();
            if state.quiet {
                1
            } else if state.strikes(Fault::EditBurst) {
                6
            } else {
                1
            }
        };
        for _ in 0..times {
            {
                let mut state = world.state();
                if !state.quiet {
                    edit(&mut state);
                    state.edit_schedules();
                }
            }
            if seal(&world, &store).await.is_none() {
                world.sleep(Duration::from_secs(1)).await;
                if store.head().await.is_err() {
                    kill(&world, node);
                }
                break;
            }
        }
        let wait = {
            let mut state = world.state();
            let most = state.scenario.edit_every * 2;
            let wait = state.random.between(Duration::from_millis(100), most);
            if state.quiet {
                Duration::from_secs(5)
            } else {
                wait
            }
        };
        world.sleep(wait).await;
    }
}

/// Seals the current intent if it differs from the newest incarnation. `None`: a read, a validator or the seal failed.
async fn seal(world: &World, store: &Store_) -> Option<()> {
    let head = store.head().await.ok()?;
    let parent = match head {
        Some(head) => Some(store.load(head.no).await.ok()?),
        None => None,
    };
    if let Some(parent) = &parent {
        world.state().is_sealed(parent);
    }
    let before = parent
        .as_ref()
        .map_or_else(Snapshot::empty, |parent| parent.snapshot().clone());
    let (plan, others, sizes) = {
        let state = world.state();
        let others = state.schedules().into_iter().chain(state.watches());
        (
            state.plan.clone(),
            others.collect::<Vec<_>>(),
            state.sizes(),
        )
    };
    let (mut put, mut removed) = changes(&plan, &before);
    put.extend(changed(others, &before));
    for (id, size) in &sizes {
        match size {
            Some(size) => put.extend(changed([size.clone()], &before)),
            None if before.get(id.as_str()).is_some() => removed.push(id.clone()),
            None => {}
        }
    }
    if put.is_empty() && removed.is_empty() {
        return Some(());
    }
    let no = head.map_or(IncarnationNo(1), |head| head.no.next());
    let snapshot = before.edit(no, put, &removed);
    let candidate = incarnation(no, snapshot, head);
    stir(world, &before, &candidate);
    world.state().seals(no.0, &sizes, false);
    #[cfg(feature = "planted-bugs")]
    if world.state().scenario.seal_early {
        submit(world, store, &candidate, head).await?;
        world.sleep(Duration::from_secs(2)).await;
        validated(world, &plan, &candidate).await;
        return Some(());
    }
    validated(world, &plan, &candidate).await?;
    submit(world, store, &candidate, head).await?;
    stir(world, &before, &candidate);
    world.state().seals(no.0, &sizes, true);
    Some(())
}

/// Notes which assets an incarnation changes.
fn stir(world: &World, before: &Snapshot, candidate: &Incarnation) {
    let changes = before.diff(candidate.snapshot());
    let mut state = world.state();
    for change in changes {
        state.stirs(number(change.id().as_str()));
    }
}

/// Runs the validators and records an accepted incarnation. `None`: they refuse it.
async fn validated(world: &World, plan: &Plan, candidate: &Incarnation) -> Option<()> {
    world.sleep(Duration::from_millis(50)).await;
    let valid = plan.wishes.iter().all(|wish| wish.valid || !wish.exists);
    if !valid {
        return None;
    }
    let assets: Vec<Asset> = candidate.snapshot().iter().collect();
    let mut state = world.state();
    let mut marks = BTreeMap::new();
    for asset in assets {
        let mark = state.production.content(&asset).mark;
        marks.insert(number(asset.id_str()), mark);
    }
    let plan = Arc::new(plan.clone());
    let accepted = state.sealed.accepted.entry(candidate.no().0);
    accepted.or_default().push(Accepted { plan, marks });
    Some(())
}

async fn submit(
    world: &World,
    store: &Store_,
    candidate: &Incarnation,
    head: Option<Head>,
) -> Option<()> {
    world.state().sealed.submitting = Some(candidate.no().0);
    let sealed = store.seal(candidate, head.as_ref(), Batch::new()).await;
    world.state().sealed.submitting = None;
    world.note(
        "sealed",
        None,
        [u64::from(candidate.no().0), u64::from(sealed.is_ok())],
    );
    sealed.ok()?;
    let mut state = world.state();
    let now = state.now;
    state.sealed.acknowledged.push(candidate.clone());
    let no = candidate.no().0;
    state.sealed.acknowledged_at.insert(no, now);
    Some(())
}

fn changes(plan: &Plan, before: &Snapshot) -> (Vec<Asset>, Vec<AssetId>) {
    let (mut put, mut removed) = (Vec::new(), Vec::new());
    for at in 0..plan.wishes.len() {
        let present = plan.id(at);
        let there = before.get(present.as_str());
        if plan.wishes[at].exists {
            let wanted = asset(plan, at);
            if there.is_none_or(|there| there.digest() != wanted.digest()) {
                put.push(wanted);
            }
        } else if there.is_some() {
            removed.push(present.clone());
        }
        let old = id(at);
        if old != present && before.get(old.as_str()).is_some() {
            removed.push(old);
        }
    }
    let groups = plan.groups.iter().enumerate();
    let groups = groups.map(|(group, wanted)| wanted.asset(group));
    put.extend(changed(groups, before));
    (put, removed)
}

/// The assets that differ from those before.
fn changed(
    assets: impl IntoIterator<Item = Asset>,
    before: &Snapshot,
) -> impl Iterator<Item = Asset> {
    assets.into_iter().filter(|wanted| {
        let there = before.get(wanted.id_str());
        there.is_none_or(|there| there.digest() != wanted.digest())
    })
}

fn incarnation(no: IncarnationNo, snapshot: Snapshot, head: Option<Head>) -> Incarnation {
    let id = IncarnationId::new(partition(), no);
    let parent = head.map(|head| head.no);
    let header = Header::new(id, parent, &snapshot, Timestamp::UNIX_EPOCH);
    Incarnation::new(header, snapshot)
}
