//! R18: what each layer selects, and the domains of a target.

use std::sync::Arc;

use futures::executor::block_on;
use plugin_sdk::{
    Direction, Health, Progress, SelectRequest, Selection, Target, Until, conformance,
    service::{AllTargets, NarrowLayer},
    testing::{self, NOW, select_request, target},
};
use prodspec_model::{
    addons::{ImpactedDomains, PhysicalCluster},
    rollout::{Amount, Canary as CanaryPart, Emergency, RolloutPolicy},
};
use tower::Layer;

use super::{MINUTE, at, four, minutes, selected, set, until, updated};
use crate::policy::{
    CanaryLayer, MaxInFlightLayer, MaxUnavailableLayer, OneDomainAtATimeLayer, WavesLayer,
    standard, standard_over, target_of,
};

#[test]
fn r18_domains_follow_one_another_in_the_order_given() {
    let policy = OneDomainAtATimeLayer::new(["eu"])
        .bake(minutes(10))
        .layer(AllTargets);
    let mut request = four();
    let first = selected(&policy, &request);
    assert_eq!(
        (&*first.now, first.stage.as_deref()),
        (&[1, 3][..], Some("eu"))
    );
    assert_eq!(first.waits[0].why, "eu before us: 0 of 2 have settled");
    set(&mut request, 1, updated(1));
    set(&mut request, 3, updated(2));
    request.now = at(5);
    let bakes = selected(&policy, &request);
    assert!(bakes.now.is_empty());
    assert_eq!(
        (until(&bakes), bakes.validate),
        (vec![Until::Time(at(12))], vec![1, 3])
    );
    request.now = at(13);
    request.health = Some(Health::healthy(at(12)));
    assert_eq!(selected(&policy, &request).now, [0, 2]);
    set(&mut request, 1, Progress::Drifted { since: at(13) });
    assert!(
        selected(&policy, &request).now.is_empty(),
        "drift shuts the gate again"
    );
}

#[test]
fn r18_a_canary_goes_before_the_others_and_an_updated_target_counts() {
    let policy = CanaryLayer::new(1).bake(minutes(30)).layer(AllTargets);
    let mut request = four();
    assert_eq!(selected(&policy, &request).now, [0]);
    set(&mut request, 2, updated(0));
    let bakes = selected(&policy, &request);
    assert_eq!((bakes.now, bakes.validate), (vec![], vec![2]));
    assert_eq!(bakes.waits[0].until, Until::Time(at(30)));
    request.now = at(31);
    request.health = Some(Health::healthy(at(31)));
    assert_eq!(selected(&policy, &request).now, [0, 1, 3]);
}

#[test]
fn r18_waves_grow_and_each_is_over_before_the_next() {
    let policy = WavesLayer::new([Amount::Count(1), Amount::Percent(75)]).layer(AllTargets);
    let mut request = four();
    request.health = Some(Health::healthy(at(60)));
    assert_eq!(selected(&policy, &request).now, [0]);
    set(&mut request, 0, updated(0));
    let second = selected(&policy, &request);
    assert_eq!(
        (second.now, second.stage.as_deref()),
        (vec![1, 2], Some("wave 2 of 2"))
    );
    set(&mut request, 1, updated(0));
    set(&mut request, 2, Progress::InFlight { since: NOW });
    assert!(selected(&policy, &request).now.is_empty());
    set(&mut request, 2, updated(0));
    assert_eq!(selected(&policy, &request).now, [3]);
}

#[test]
fn r18_limits_count_targets_in_flight_and_drifted() {
    let mut request = four();
    set(&mut request, 0, Progress::InFlight { since: NOW });
    set(&mut request, 1, Progress::Drifted { since: NOW });
    let in_flight = MaxInFlightLayer::new(2).layer(AllTargets);
    assert_eq!(selected(&in_flight, &request).now, [2]);
    let unavailable = MaxUnavailableLayer::new(1).layer(AllTargets);
    assert!(selected(&unavailable, &request).now.is_empty());
    let unavailable = MaxUnavailableLayer::new(2).layer(AllTargets);
    assert_eq!(selected(&unavailable, &request).now, [2, 3]);
}

#[test]
fn r18_hold_stops_everything_but_a_rollback() {
    let mut request = four();
    let policy = Arc::make_mut(&mut request.policy);
    policy.hold = Some("moving".into());
    policy.max_in_flight = Some(3);
    policy.emergency = Some(Emergency {
        who: "ann".into(),
        why: "fire".into(),
    });
    let held = selected(&standard(), &request);
    assert_eq!(
        (held.now.len(), held.waits.last().unwrap().until),
        (0, Until::Person)
    );
    request.direction = Direction::Back;
    assert_eq!(
        selected(&standard(), &request).now,
        [0, 1, 2],
        "limits take from the front"
    );
}

#[test]
fn r18_emergency_skips_stages_and_keeps_limits() {
    let mut request = four();
    let policy = Arc::make_mut(&mut request.policy);
    policy.canary = Some(CanaryPart {
        count: 1,
        bake_secs: 60,
    });
    policy.domains = vec!["eu".into()];
    policy.max_unavailable = Some(1);
    assert_eq!(selected(&standard(), &request).now, [1]);
    Arc::make_mut(&mut request.policy).emergency = Some(Emergency {
        who: "ann".into(),
        why: "fire".into(),
    });
    assert_eq!(selected(&standard(), &request).now, [0, 1]);
}

#[test]
fn r18_a_policy_is_read_at_each_call() {
    let (stack, mut request) = (standard(), four());
    assert_eq!(selected(&stack, &request).now.len(), 4);
    Arc::make_mut(&mut request.policy).max_in_flight = Some(1);
    assert_eq!(selected(&stack, &request).now, [0]);
}

#[test]
fn target_domains_are_its_cluster_then_its_impacted_domains() {
    let cluster = PhysicalCluster {
        cluster: "eu-1".into(),
    };
    let hurts =
        |domains: &[&str]| ImpactedDomains::Domains(domains.iter().map(|&d| d.into()).collect());
    let job = testing::asset("job/a").edit().addon(&cluster).unwrap();
    let some = job.addon(&hurts(&["eu", "eu-1"])).unwrap().build().unwrap();
    let domains: Vec<_> = target_of(&some)
        .domains
        .iter()
        .map(|domain| domain.to_string())
        .collect();
    assert_eq!(domains, ["eu-1", "eu"]);
    let all = some
        .edit()
        .without_addon::<ImpactedDomains>()
        .addon(&ImpactedDomains::Global)
        .unwrap()
        .build()
        .unwrap();
    assert_eq!(target_of(&all).domain(), None);
}

/// The layer of the page "Write a policy layer": in each domain, `db/` comes last.
fn databases_last(request: &SelectRequest, beneath: Selection) -> Selection {
    if !request.is_cautious() {
        return beneath;
    }
    let is_database = |target: &&Target| target.asset.as_str().starts_with("db/");
    let others = request.targets.iter().filter(|target| !is_database(target));
    let left = others.filter(|target| target.settled().is_none());
    let busy: Vec<Option<&str>> = left.map(Target::domain).collect();
    beneath
        .narrowed(|place| {
            let target = &request.targets[place as usize];
            !is_database(&target) || !busy.contains(&target.domain())
        })
        .waiting("databases come last", Until::Settled)
}

#[test]
fn r18_custom_stage_goes_beneath_the_others() {
    let all = [
        ("db/a", "eu"),
        ("job/b", "eu"),
        ("db/c", "us"),
        ("job/d", "us"),
    ];
    let mut request = select_request(all.map(|(id, domain)| target(id, &[domain])));
    request.policy = Arc::new(RolloutPolicy {
        domains: vec!["us".into(), "eu".into()],
        canary: Some(CanaryPart {
            count: 1,
            bake_secs: 60,
        }),
        max_in_flight: Some(1),
        ..RolloutPolicy::default()
    });
    let stage = || NarrowLayer::new(databases_last);
    let beneath = standard_over(stage().layer(AllTargets));
    assert_eq!(selected(&beneath, &request).now, [3], "`job/d`");
    block_on(conformance::select(&beneath, [request.clone()], MINUTE)).unwrap();
    // Above the canary, which is `db/c`, no target ever moves.
    let above = stage().layer(standard());
    assert!(block_on(conformance::select(&above, [request], MINUTE)).is_err());
}
