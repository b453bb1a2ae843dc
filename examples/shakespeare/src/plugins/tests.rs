use control_plane::{
    model::AssetId,
    prelude::{Transition, addons},
};
use std::net::SocketAddr;
use testbed::production::api::{BalancerSpec, BalancerView, JobSpec, JobView, State};

use super::*;
use crate::model::{DatabaseSchema, LoadBalancer};

fn asset(id: &str) -> Asset {
    // The tests pass the compared values as arguments, so any valid payload will do.
    Asset::builder(AssetId::new(id).unwrap())
        .payload(&DatabaseSchema { version: 1 })
        .unwrap()
        .build()
        .unwrap()
}

fn job(replicas: u32, schema: u32) -> JobSpec {
    JobSpec {
        replicas,
        capacity_per_task: 8,
        version: "1".into(),
        schema,
        flags: vec![],
    }
}

fn job_view(spec: JobSpec, state: State, capacity_in_force: u32) -> JobView {
    JobView {
        generation: 1,
        spec,
        leaving: false,
        state,
        capacity_in_force,
        tasks: vec![],
        problem: None,
    }
}

fn balancer_view(spec: BalancerSpec, state: State) -> BalancerView {
    BalancerView {
        generation: 1,
        max_capacity_in_force: spec.max_capacity,
        spec,
        leaving: false,
        state,
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        pid: Some(1),
        endpoints: vec![],
    }
}

fn effects(diff: Diff) -> Effects {
    match diff {
        Diff::Differs { change, .. } => change.effects,
        other => panic!("{other:?}"),
    }
}

#[test]
fn job_is_in_sync_only_when_its_whole_capacity_is_in_force() {
    let (asset, wanted) = (asset("job/eu"), job(2, 1));
    let diff = |state, in_force| {
        job::compare(
            &asset,
            Some(&wanted),
            Some(&job_view(wanted.clone(), state, in_force)),
        )
    };
    assert!(matches!(diff(State::Stable, 16), Diff::InSync { .. }));
    assert!(matches!(diff(State::Stable, 8), Diff::InProgress { .. }));
    assert!(matches!(diff(State::Changing, 16), Diff::InProgress { .. }));
}

fn transition<T>(from: T, to: T) -> Transition<T> {
    Transition { from, to }
}

#[test]
fn job_that_changes_to_another_spec_can_be_pushed() {
    let there = job_view(job(4, 2), State::Changing, 8);
    let effects = effects(job::compare(
        &asset("job/eu"),
        Some(&job(2, 1)),
        Some(&there),
    ));
    assert_eq!(effects.capacity["requests/job/eu"], transition(8, 16));
    assert_eq!(effects.version, Some(transition(Some(2), Some(1))));
    assert!(!effects.destructive);
}

#[test]
fn absent_resource_under_turndown_is_in_sync() {
    assert!(matches!(
        job::compare(&asset("job/eu"), None, None),
        Diff::InSync { .. }
    ));
    assert!(matches!(
        balancer::compare(&asset("balancer/eu"), None, None),
        Diff::InSync { .. }
    ));
}

#[test]
fn turndown_removes_all_capacity() {
    let there = job_view(job(2, 1), State::Stable, 16);
    let effects = effects(job::compare(&asset("job/eu"), None, Some(&there)));
    assert_eq!(effects.capacity["requests/job/eu"], transition(16, 0));
    assert_eq!(effects.version, Some(transition(Some(1), None)));
}

#[test]
fn balancer_takes_the_capacity_of_its_job_that_it_provides() {
    let spec = |max_capacity| BalancerSpec {
        max_capacity,
        ..BalancerSpec::default()
    };
    let asset = asset("balancer/eu");
    let there = balancer_view(spec(16), State::Stable);
    let effects = effects(balancer::compare(&asset, Some(&spec(8)), Some(&there)));
    assert_eq!(effects.capacity["requests/job/eu"], transition(16, 8));
    assert_eq!(effects.capacity["requests/balancer/eu"], transition(16, 8));
    let changing = balancer_view(spec(16), State::Changing);
    assert!(matches!(
        balancer::compare(&asset, Some(&spec(8)), Some(&changing)),
        Diff::InProgress { .. }
    ));
}

#[test]
fn global_balancer_releases_capacity_of_removed_clusters() {
    let spec = |cells: &[(&str, u32)]| BalancerSpec {
        max_capacity: 32,
        jobs: vec![],
        cells: cells.iter().map(|(name, n)| ((*name).into(), *n)).collect(),
    };
    let there = balancer_view(spec(&[("eu", 16), ("us", 16)]), State::Stable);
    let wanted = spec(&[("eu", 32)]);
    let effects = effects(global::compare(&asset("global"), &wanted, Some(&there)));
    assert_eq!(effects.capacity["requests/balancer/eu"], transition(16, 32));
    assert_eq!(effects.capacity["requests/balancer/us"], transition(16, 0));
}

#[test]
fn migration_to_an_older_schema_is_destructive() {
    let asset = asset("database");
    assert!(effects(schema::compare(&asset, 1, 2)).destructive);
    let up = effects(schema::compare(&asset, 2, 0));
    assert_eq!(
        (up.destructive, up.version),
        (false, Some(transition(None, Some(2))))
    );
}

#[test]
fn only_the_turndown_addon_marks_an_asset_for_removal() {
    let payload = LoadBalancer {
        cluster: control_plane::prelude::AssetRef::to(AssetId::new("cluster/eu").unwrap()),
        job: control_plane::prelude::AssetRef::to(AssetId::new("job/eu").unwrap()),
        max_capacity: 1,
    };
    let stays = Asset::builder(AssetId::new("balancer/eu").unwrap())
        .payload(&payload)
        .unwrap();
    let turndown = addons::Turndown {
        reason: "moved".into(),
        approved_by: "jane".into(),
    };
    let goes = stays.clone().addon(&turndown).unwrap().build().unwrap();
    assert!(leaves(&goes) && !leaves(&stays.build().unwrap()));
}
