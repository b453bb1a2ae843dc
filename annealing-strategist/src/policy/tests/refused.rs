//! R18: policies that would stall or have invalid numbers, and references to other types, are refused.

use plugin_sdk::{AssetTypes, AssetView, Problems, Validator, service::AllTargets, testing};
use prodspec_model::{
    Asset, AssetId, AssetRef, IncarnationNo, Snapshot,
    addons::{PhysicalCluster, RolloutPolicyRef},
    rollout::{Amount, Canary as CanaryPart, RolloutPolicy, Wave},
};
use tower::ServiceBuilder;

use crate::policy::{CanaryLayer, NoStall, OneDomainAtATimeLayer};

fn governed(id: &str, domain: &str) -> Asset {
    let policy = AssetRef::to(AssetId::new("policy/web").unwrap());
    let job = testing::asset(id)
        .edit()
        .addon(&RolloutPolicyRef { policy })
        .unwrap();
    let cluster = PhysicalCluster {
        cluster: domain.into(),
    };
    job.addon(&cluster).unwrap().build().unwrap()
}

fn problems(check: &NoStall, policy: &RolloutPolicy) -> Problems {
    let id = AssetId::new("policy/web").unwrap();
    let policy = Asset::builder(id).payload(policy).unwrap().build().unwrap();
    let assets = vec![
        governed("job/a", "us"),
        governed("job/b", "eu"),
        policy.clone(),
    ];
    let snapshot = Snapshot::empty().edit(IncarnationNo(1), assets, &[]);
    let mut problems = Problems::none();
    let types = AssetTypes::default();
    check.validate_asset(&AssetView::new(&policy, &snapshot, &types), &mut problems);
    problems
}

#[test]
fn r18_a_policy_that_would_stall_is_refused() {
    let policy = RolloutPolicy {
        domains: vec!["eu".into()],
        canary: Some(CanaryPart {
            count: 1,
            bake_secs: 60,
        }),
        hold: Some("a hold is no stall".into()),
        ..RolloutPolicy::default()
    };
    assert_eq!(problems(&NoStall::standard(), &policy).iter().count(), 0);
    // The inner canary is the first target by id, which is not in the first domain.
    let stack = ServiceBuilder::new()
        .layer(OneDomainAtATimeLayer::by_policy())
        .layer(CanaryLayer::by_policy())
        .service(AllTargets);
    let found = problems(&NoStall::of(stack), &policy);
    let problem = found.iter().next().unwrap();
    assert_eq!(problem.asset.as_ref().unwrap().as_str(), "policy/web");
    let says = [
        "would stall with 2 targets left, `job/a`",
        "eu before us: 0 of 1",
    ];
    assert!(
        says.iter().all(|part| problem.message.contains(part)),
        "{problem}"
    );
}

#[test]
fn r18_invalid_numbers_are_refused_by_field() {
    let wave = |upto| Wave { upto, bake_secs: 0 };
    let policy = RolloutPolicy {
        domains: vec!["eu".into(), "eu".into()],
        canary: Some(CanaryPart {
            count: 0,
            bake_secs: 0,
        }),
        waves: [
            Amount::Percent(0),
            Amount::Percent(50),
            Amount::Percent(50),
            Amount::Percent(101),
        ]
        .map(wave)
        .into(),
        max_in_flight: Some(0),
        max_unavailable: Some(0),
        ..RolloutPolicy::default()
    };
    let found = problems(&NoStall::standard(), &policy);
    let fields: Vec<&str> = found.iter().map(|problem| &*problem.field).collect();
    let expected = [
        "max_in_flight",
        "max_unavailable",
        "canary.count",
        "domains[1]",
        "waves[0].upto",
        "waves[2].upto",
        "waves[3].upto",
    ];
    assert_eq!(fields, expected);
}

#[test]
fn r18_reference_to_another_type_as_policy_is_refused() {
    let job = testing::asset("policy/web");
    let assets = vec![governed("job/a", "us"), job.clone()];
    let snapshot = Snapshot::empty().edit(IncarnationNo(1), assets.clone(), &[]);
    let types = AssetTypes::default();
    let found = |asset: &Asset| {
        let mut problems = Problems::none();
        NoStall::standard()
            .validate_asset(&AssetView::new(asset, &snapshot, &types), &mut problems);
        problems.to_string()
    };
    let says = found(&assets[0]);
    assert!(
        says.contains("is governed by `policy/web`, which is a "),
        "{says}"
    );
    assert!(
        says.contains("refer to a prodspec.v1.RolloutPolicy"),
        "{says}"
    );
    assert_eq!(found(&job), "");
}
