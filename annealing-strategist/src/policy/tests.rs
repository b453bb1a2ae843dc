//! The laws of selection for every layer and for the standard stack, and the rules that follow from them.

use std::{sync::Arc, time::Duration};

use futures::executor::block_on;
use jiff::Timestamp;
use plugin_sdk::{
    AssetTypes, AssetView, Direction, Finding, Health, Judgement, Problems, Progress,
    SelectRequest, Selection, Target, TargetSelection, Until, Validator, conformance,
    service::{AllTargets, NarrowLayer},
    testing::{self, NOW, select_request, target},
};
use prodspec_model::{
    Asset, AssetId, AssetRef, IncarnationNo, Snapshot,
    addons::{ImpactedDomains, PhysicalCluster, RolloutPolicyRef},
    rollout::{Amount, Canary as CanaryPart, Emergency, RolloutPolicy, Wave},
};
use proptest::prelude::*;
use tower::{Layer, ServiceBuilder};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn minutes(minutes: u64) -> Duration {
    MINUTE * minutes as u32
}

fn at(minute: u64) -> Timestamp {
    NOW + minutes(minute)
}

fn set(request: &mut SelectRequest, place: usize, progress: Progress) {
    Arc::make_mut(&mut request.targets)[place].progress = progress;
}

fn updated(minute: u64) -> Progress {
    Progress::Updated { at: at(minute) }
}

fn selected(policy: &impl TargetSelection, request: &SelectRequest) -> Selection {
    block_on(policy.select(request.clone())).unwrap()
}

/// Four targets, `a` to `d`: two in eu, two in us.
fn four() -> SelectRequest {
    let all = [
        ("job/a", "us"),
        ("job/b", "eu"),
        ("job/c", "us"),
        ("job/d", "eu"),
    ];
    select_request(all.map(|(id, domain)| target(id, &[domain])))
}

fn until(selection: &Selection) -> Vec<Until> {
    selection.waits.iter().map(|wait| wait.until).collect()
}

prop_compose! {
    fn any_target()(domains in prop::collection::vec("[abc]", 0..3), kind in 0..6u8, minute in 0..60u64) -> (Vec<String>, Progress) {
        let progress = match kind {
            0 => Progress::InFlight { since: NOW - minutes(minute) },
            1 => Progress::Updated { at: NOW - minutes(minute) },
            2 => Progress::Drifted { since: NOW - minutes(minute) },
            _ => Progress::Waiting,
        };
        (domains, progress)
    }
}

prop_compose! {
    fn policies()(
        domains in prop::sample::subsequence(vec!["c", "a", "z"], 0..3),
        canary in prop::option::of((1..4u32, 0..90u64)),
        waves in prop::sample::subsequence(vec![1u8, 5, 30, 60, 100], 0..4),
        bakes in (0..90u64, 0..90u64),
        limits in (prop::option::of(1..4u32), prop::option::of(1..3u32)),
    ) -> RolloutPolicy {
        let wave = |percent| Wave { upto: Amount::Percent(percent), bake_secs: bakes.1 * 60 };
        RolloutPolicy {
            domains: domains.into_iter().map(Into::into).collect(),
            canary: canary.map(|(count, minutes)| CanaryPart { count, bake_secs: minutes * 60 }),
            waves: waves.into_iter().map(wave).collect(),
            bake_secs: bakes.0 * 60,
            max_in_flight: limits.0,
            max_unavailable: limits.1,
            ..RolloutPolicy::default()
        }
    }
}

prop_compose! {
    fn requests()(
        targets in prop::collection::vec(any_target(), 0..12),
        policy in policies(),
        healthy in prop::option::of(any::<bool>()),
        back: bool,
    ) -> SelectRequest {
        let targets = targets.into_iter().enumerate().map(|(no, (domains, progress))| {
            let domains: Vec<&str> = domains.iter().map(|domain| &**domain).collect();
            Target { progress, ..target(&format!("job/{no:02}"), &domains) }
        });
        let finding = |judgement| Finding {
            validator: "test".into(),
            judgement,
            summary: String::new(),
            evidence: serde_json::Value::Null,
        };
        let judgement = |healthy| if healthy { Judgement::Healthy } else { Judgement::Unknown };
        SelectRequest {
            policy: Arc::new(policy),
            health: healthy.map(|healthy| Health::found(NOW, finding(judgement(healthy)))),
            direction: if back { Direction::Back } else { Direction::Forward },
            ..select_request(targets)
        }
    }
}

proptest! {
    #[test]
    fn r18_every_layer_chooses_from_the_selection_beneath_it(request in requests(), hold: bool) {
        let mut request = request;
        if hold {
            Arc::make_mut(&mut request.policy).hold = Some("a hold".into());
        }
        macro_rules! laws {
            ($($layer:expr),* $(,)?) => { $(
                block_on(conformance::select_layer($layer, [request.clone()]))?;
            )* };
        }
        laws![
            OneDomainAtATimeLayer::by_policy(),
            CanaryLayer::by_policy(),
            WavesLayer::by_policy(),
            BakeLayer::by_policy(),
            MaxInFlightLayer::by_policy(),
            MaxUnavailableLayer::by_policy(),
            HoldLayer::by_policy(),
            OneDomainAtATimeLayer::new(["b", "a"]).bake(MINUTE),
            CanaryLayer::new(2).bake(MINUTE),
            WavesLayer::new([Amount::Count(2), Amount::Percent(50)]).bake(MINUTE),
            BakeLayer::new(MINUTE),
            MaxInFlightLayer::new(2),
            MaxUnavailableLayer::new(1),
            HoldLayer::new("a hold"),
        ];
    }

    #[test]
    fn r18_every_layer_lets_every_target_through_in_the_end(request in requests()) {
        macro_rules! laws {
            ($($layer:expr),* $(,)?) => { $(
                block_on(conformance::select(&$layer.layer(AllTargets), [request.clone()], MINUTE))?;
            )* };
        }
        laws![
            OneDomainAtATimeLayer::by_policy(),
            CanaryLayer::by_policy(),
            WavesLayer::by_policy(),
            BakeLayer::by_policy(),
            MaxInFlightLayer::by_policy(),
            MaxUnavailableLayer::by_policy(),
        ];
    }

    #[test]
    fn r18_the_standard_stack_selects_every_target_in_the_end(request in requests()) {
        block_on(conformance::select(&standard(), [request], MINUTE))?;
    }

    #[test]
    fn r18_limits_are_kept(request in requests()) {
        let selection = selected(&standard(), &request);
        let count = |is: &dyn Fn(&Progress) -> bool, of: Option<&str>| {
            let targets = (0..).zip(request.targets.iter());
            let here = |target: &Target| of.is_none_or(|domain| {
                target.domains.is_empty() || target.domains.iter().any(|at| **at == *domain)
            });
            targets.filter(|(place, target)| {
                here(target) && (is(&target.progress) || selection.now.contains(place))
            }).count()
        };
        if selection.now.is_empty() {
            return Ok(());
        }
        // On the way back, a target counts against limits for ten minutes only.
        let takes = |since: Timestamp| {
            request.direction == Direction::Forward || since + minutes(10) > request.now
        };
        let flies = |progress: &Progress| {
            matches!(progress, Progress::InFlight { since } if takes(*since))
        };
        if let Some(max) = request.policy.max_in_flight {
            prop_assert!(count(&flies, None) <= max as usize);
        }
        let misses = |progress: &Progress| {
            flies(progress) || matches!(progress, Progress::Drifted { since } if takes(*since))
        };
        if let Some(max) = request.policy.max_unavailable {
            for &place in &selection.now {
                for domain in request.targets[place as usize].domains.iter() {
                    prop_assert!(count(&misses, Some(domain)) <= max as usize);
                }
            }
        }
    }
}

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
fn r21_a_gate_takes_no_verdict_older_than_the_bake() {
    let mut request = four();
    for place in 0..4 {
        set(&mut request, place, updated(place as u64));
        Arc::make_mut(&mut request.targets)[place].order = place as u64 + 1;
    }
    let gate = |request: &SelectRequest| gate(request, 0..4, minutes(10));
    request.now = at(20);
    let since = at(13);
    for health in [None, Some(Health::healthy(at(12)))] {
        request.health = health;
        let Gate::Shut(wait) = gate(&request) else {
            panic!("open")
        };
        assert_eq!(wait.until, Until::Healthy { since });
    }
    request.health = Some(Health::healthy(since));
    assert_eq!(gate(&request), Gate::Open);
    request.now = at(12);
    assert!(matches!(gate(&request), Gate::Shut(wait) if wait.until == Until::Time(since)));
    request.promoted = Some(3);
    assert!(
        matches!(gate(&request), Gate::Shut(_)),
        "the last one settled after that"
    );
    request.promoted = Some(4);
    assert_eq!(gate(&request), Gate::Open);
    set(&mut request, 0, Progress::Drifted { since: at(4) });
    assert!(matches!(gate(&request), Gate::Shut(wait) if wait.until == Until::Settled));
}

#[test]
fn r21_unknown_and_unhealthy_hold_the_gate() {
    let mut request = four();
    set(&mut request, 0, updated(0));
    for judgement in [Judgement::Unknown, Judgement::Unhealthy] {
        request.health = Some(Health {
            judgement,
            ..Health::healthy(at(9))
        });
        assert!(matches!(gate(&request, [0], Duration::ZERO), Gate::Shut(_)));
    }
}

#[test]
fn rollout_end_waits_for_the_last_bake() {
    let mut request = four();
    Arc::make_mut(&mut request.policy).bake_secs = 600;
    for place in 0..4 {
        set(&mut request, place, updated(0));
    }
    let bakes = selected(&standard(), &request);
    assert_eq!(
        (until(&bakes), bakes.stage.as_deref()),
        (vec![Until::Time(at(10))], Some("bake"))
    );
    request.now = at(10);
    request.health = Some(Health::healthy(at(10)));
    assert_eq!(selected(&standard(), &request), Selection::default());
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
