//! Tests of each rule of the solver: the waits of a push, and the findings that it relies on.

use std::sync::Arc;

use futures::{executor::block_on, future::BoxFuture};
use jiff::ToSpan;
use plugin_sdk::{
    Change, CheckPlugin, Diff, Effects, Observation, Observed, PartitionView, Verdict,
    observe::{self, Link},
    testing::{self, FakeView, NOW},
};
use prodspec_model::{AssetId, IncarnationNo, addons::Need};

use super::*;

const NONE: [&str; 0] = [];

#[test]
fn evidence_of_a_wait_does_not_list_all_other_consumers() {
    let names: Vec<_> = (0..1000).map(|n| format!("cell/frontend-{n}")).collect();
    let edges = names.iter().map(|name| (name.as_str(), "job", qps()));
    let small = |name| (name, differs(name, capacity(60, 20)));
    let diffs = names.iter().map(|name| small(name.as_str())).collect();
    let view = partition(&edges.collect::<Vec<_>>(), diffs);
    let verdict = push(&view, "job", capacity(60_000, 20_000));
    assert_eq!(verdict.delays.len(), 1000);
    let bytes = serde_json::to_vec(&verdict).unwrap().len();
    assert!(bytes < 400 * 1000, "{bytes} bytes");
}

#[test]
fn r16_push_without_effects_observes_no_neighbour() {
    let view = partition(
        &[("lb", "job", qps()), ("job", "db", Need::Version)],
        vec![("lb", in_sync(capacity(100, 100)))],
    );
    let unrelated = Effects::default()
        .capacity("gigabytes", 5, 1)
        .capacity("qps", 7, 7);
    assert!(push(&view, "job", unrelated).is_proceed());
    assert_eq!(view.asked(), []);
}

#[test]
fn r16_a_provider_shrinks_only_after_the_sum_of_its_consumers_fits() {
    let edges = [
        ("a", "job", qps()),
        ("b", "job", qps()),
        ("b", "job", qps()),
    ];
    let view = partition(
        &edges,
        vec![
            ("a", differs("a", capacity(60, 20))),
            ("b", in_sync(capacity(40, 40))),
        ],
    );
    let verdict = push(&view, "job", capacity(100, 60));
    assert_eq!(waits(&verdict), ["a"], "only a will shrink");
    let delay = &verdict.delays[0];
    assert_eq!(
        delay.reason,
        "waits for `a`: must shrink first: 100 qps are used, 60 would be left"
    );
    assert_eq!(
        delay.evidence,
        serde_json::json!({"unit": "qps", "demand": 100, "capacity": 60, "uses": 60})
    );
    view.set(&id("a"), in_sync(capacity(20, 20)));
    assert!(push(&view, "job", capacity(100, 60)).is_proceed());
    assert_eq!(waits(&push(&view, "job", capacity(100, 59))), ["a", "b"]);
}

#[test]
fn r16_a_consumer_grows_only_after_each_of_its_providers() {
    let edges = [
        ("lb", "eu", qps()),
        ("lb", "us", qps()),
        ("other", "us", qps()),
    ];
    let view = partition(
        &edges,
        vec![
            ("eu", differs("eu", capacity(100, 200))),
            ("us", in_sync(capacity(210, 210))),
            ("other", in_sync(capacity(10, 10))),
        ],
    );
    assert_eq!(waits(&push(&view, "lb", capacity(100, 200))), ["eu"]);
    view.set(&id("eu"), in_sync(capacity(200, 200)));
    assert!(push(&view, "lb", capacity(100, 200)).is_proceed());
    view.set(&id("other"), differs("other", capacity(11, 5)));
    let verdict = push(&view, "lb", capacity(100, 200));
    assert_eq!(waits(&verdict), ["other"]);
    assert_eq!(
        verdict.delays[0].reason,
        "waits for `other`: must shrink first: 211 qps of `us` would be used, it has 210"
    );
}

#[test]
fn r16_turnup_begins_with_the_providers() {
    let view = partition(
        &[("lb", "job", qps())],
        vec![
            ("lb", differs("lb", capacity(0, 100))),
            ("job", differs("job", capacity(0, 100))),
        ],
    );
    assert_eq!(waits(&push(&view, "lb", capacity(0, 100))), ["job"]);
    assert!(push(&view, "job", capacity(0, 100)).is_proceed());
    view.set(&id("job"), in_sync(capacity(100, 100)));
    assert!(push(&view, "lb", capacity(0, 100)).is_proceed());
}

#[test]
fn r16_turndown_begins_with_the_consumers() {
    let view = partition(
        &[("lb", "job", qps()), ("lb", "job", Need::Version)],
        vec![("lb", differs("lb", capacity(100, 0)))],
    );
    assert_eq!(waits(&push(&view, "job", capacity(100, 0))), ["lb"]);
    assert!(push(&view, "lb", capacity(100, 0)).is_proceed());
    view.set(&id("lb"), Diff::in_sync());
    assert!(push(&view, "job", capacity(100, 0)).is_proceed());
}

#[test]
fn r16_consumers_shrink_first_and_providers_grow_first() {
    let edges = [("lb", "job", qps())];
    for (from, to, first, second) in [(100, 50, "lb", "job"), (50, 100, "job", "lb")] {
        let both = |asset: &'static str| (asset, differs(asset, capacity(from, to)));
        let view = partition(&edges, vec![both("lb"), both("job")]);
        assert!(push(&view, first, capacity(from, to)).is_proceed());
        assert_eq!(waits(&push(&view, second, capacity(from, to))), [first]);
        view.set(&id(first), in_sync(capacity(to, to)));
        assert!(push(&view, second, capacity(from, to)).is_proceed());
    }
}

#[test]
fn r16_a_dropped_edge_counts_while_production_may_have_it() {
    // The edge is not in intent any more. The view still reports it, because the consumer runs with it.
    let view = partition(
        &[("lb", "job", qps())],
        vec![("lb", differs("lb", capacity(100, 0)))],
    );
    assert_eq!(waits(&push(&view, "job", capacity(100, 10))), ["lb"]);
}

/// A partition in which the push adds edges.
struct Moves(Arc<FakeView>, Vec<Link>);

impl PartitionView for Moves {
    fn observe(&self, asset: &AssetId) -> BoxFuture<'static, Result<Observation, observe::Error>> {
        self.0.observe(asset)
    }

    fn providers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        self.0.providers(asset, at)
    }

    fn consumers(&self, asset: &AssetId, at: IncarnationNo) -> Vec<Link> {
        self.0.consumers(asset, at)
    }

    fn brought(&self, _: &AssetId, _: IncarnationNo) -> Vec<Link> {
        self.1.clone()
    }
}

/// The verdict on a push of `lb` that starts to use `new` and has `effects`.
fn comes(view: &Arc<FakeView>, effects: Effects) -> Verdict {
    let observed = before(&effects);
    let link = Link {
        asset: id("new"),
        need: qps(),
    };
    // Capacity that does not change is not an effect.
    let changes = effects
        .capacity
        .values()
        .any(|change| change.from != change.to);
    let effects = if changes { effects } else { Effects::default() };
    let view = Moves(view.clone(), vec![link]);
    let request = request("lb", observed, effects).view(Arc::new(view));
    block_on(DependencySolver::standard().check(request)).unwrap()
}

#[test]
fn r16_consumer_uses_a_new_provider_only_after_it_has_grown() {
    let edges = [
        ("lb", "old", qps()),
        ("lb", "new", qps()),
        ("other", "new", qps()),
    ];
    let view = partition(
        &edges,
        vec![
            ("old", differs("old", capacity(100, 0))),
            ("new", differs("new", capacity(60, 160))),
            ("other", in_sync(capacity(60, 60))),
        ],
    );
    let same = capacity(100, 100);
    assert_eq!(waits(&comes(&view, same.clone())), ["new"]);
    assert_eq!(waits(&comes(&view, capacity(110, 100))), ["new"]);
    let stamp = view.stamp(&id("new")).unwrap();
    assert!(comes(&view, same.clone()).relies_on.contains(&stamp));
    assert!(
        comes(&view, capacity(5, 0)).is_proceed(),
        "it needs nothing"
    );
    view.set(&id("new"), in_sync(capacity(160, 160)));
    assert!(comes(&view, same.clone()).is_proceed());
    view.set(&id("lb"), in_sync(capacity(100, 100)));
    assert_eq!(waits(&push(&view, "old", capacity(100, 0))), ["lb"]);
    view.set(&id("new"), in_sync(capacity(150, 150)));
    let other = Observed::default().capacity("qps", 60);
    let change = Change::new(
        &testing::asset("other"),
        "leave",
        vec![],
        Effects::default(),
    );
    let leaves = Diff::differs(change).observed(other);
    view.set(&id("other"), leaves);
    assert_eq!(waits(&comes(&view, same)), ["other"], "it may leave");
}

#[test]
fn r16_consumer_uses_a_new_provider_only_if_it_runs_its_version() {
    let view = partition(
        &[],
        vec![("new", differs("new", version(Some(3), Some(4))))],
    );
    let comes = |effects: Effects, runs| {
        let link = Link {
            asset: id("new"),
            need: Need::Version,
        };
        let view = Moves(view.clone(), vec![link]);
        let observed = Observed::default().version(runs);
        let request = request("job", observed, effects).view(Arc::new(view));
        waits(&block_on(DependencySolver::standard().check(request)).unwrap())
    };
    assert_eq!(comes(Effects::default(), Some(4)), ["new"]);
    assert_eq!(comes(version(Some(5), Some(4)), Some(5)), ["new"]);
    assert_eq!(comes(Effects::default(), Some(3)), NONE);
    assert_eq!(comes(version(Some(4), Some(3)), Some(4)), NONE);
    assert_eq!(comes(Effects::default(), None), NONE);
}

#[test]
fn r16_neighbour_in_unknown_state_delays() {
    let unknown = [
        (
            Some(Diff::InProgress {
                check_again_in: std::time::Duration::from_secs(1),
            }),
            "work on it is under way",
        ),
        (
            Some(Diff::Foreign {
                owner: "helm".into(),
            }),
            "it belongs to `helm`",
        ),
        (None, "it cannot be compared with production"),
    ];
    for (diff, why) in unknown {
        let view = partition(&[("a", "job", qps()), ("b", "job", qps())], vec![]);
        view.set(&id("b"), in_sync(capacity(1, 1)));
        if let Some(diff) = diff {
            view.set(&id("a"), diff);
        }
        let verdict = push(&view, "job", capacity(100, 10));
        assert_eq!(waits(&verdict), ["a"]);
        assert!(verdict.delays[0].reason.contains(why), "{verdict:?}");
        let stamp = view.stamp(&id("b")).unwrap();
        assert!(
            verdict.relies_on.contains(&stamp),
            "the verdict relies on b"
        );
    }
}

#[test]
fn r16_verdict_relies_on_every_finding_and_has_the_oldest_time() {
    let view = partition(
        &[("lb", "job", qps()), ("other", "job", qps())],
        vec![
            ("job", in_sync(capacity(100, 100))),
            ("other", in_sync(capacity(10, 10))),
        ],
    );
    view.step(&id("other"));
    let verdict = push(&view, "lb", capacity(10, 20));
    assert!(verdict.is_proceed());
    let stamps = ["job", "other"].map(|asset| view.stamp(&id(asset)).unwrap());
    assert_eq!(verdict.relies_on, stamps);
    assert_eq!(verdict.as_of, NOW - 10.seconds());
    let asked: Vec<_> = view
        .asked()
        .into_iter()
        .map(|asset| asset.to_string())
        .collect();
    assert_eq!(asked, ["job", "other"]);
}

#[test]
fn r16_provider_versions_rise_first_and_consumer_versions_fall_first() {
    let edges = [("job", "schema", Need::Version)];
    let view = partition(
        &edges,
        vec![
            ("schema", differs("schema", version(Some(3), Some(4)))),
            ("job", in_sync(version(Some(3), None))),
        ],
    );
    assert_eq!(
        waits(&push(&view, "job", version(Some(3), Some(4)))),
        ["schema"]
    );
    assert!(push(&view, "job", version(Some(2), Some(3))).is_proceed());
    assert!(
        push(&view, "job", version(Some(9), Some(8))).is_proceed(),
        "a lower version needs no newer provider"
    );
    assert_eq!(
        waits(&push(&view, "schema", version(Some(3), Some(2)))),
        ["job"]
    );
    assert_eq!(
        waits(&push(&view, "schema", version(Some(3), None))),
        ["job"]
    );
    assert!(push(&view, "schema", version(Some(3), Some(4))).is_proceed());
    view.set(&id("schema"), in_sync(version(None, None)));
    assert_eq!(
        waits(&push(&view, "job", version(None, Some(1)))),
        ["schema"]
    );
}

#[test]
fn r16_static_order_waits_until_the_provider_is_in_sync() {
    let view = partition(
        &[("app", "network", Need::Order)],
        vec![("network", differs("network", Effects::default()))],
    );
    assert_eq!(waits(&push(&view, "app", Effects::default())), ["network"]);
    assert!(push(&view, "network", Effects::default()).is_proceed());
    view.set(&id("network"), Diff::in_sync());
    assert!(push(&view, "app", Effects::default()).is_proceed());
}

#[test]
fn r16_capacity_solver_ignores_other_edges() {
    let view = partition(
        &[("app", "network", Need::Order)],
        vec![("network", differs("network", Effects::default()))],
    );
    let asset = testing::asset("app");
    let request = testing::check_request(&asset).view(view);
    let verdict = block_on(DependencySolver::capacity().check(request)).unwrap();
    assert!(verdict.is_proceed());
}

#[test]
fn r16_custom_rule_delays_pushes() {
    struct AfterLeader;
    impl OrderRule for AfterLeader {
        fn questions(&self, push: &Push<'_>) -> Vec<Question> {
            let leader = id("leader");
            if *push.asset() == leader {
                return Vec::new();
            }
            vec![Question::new([leader.clone()], |seen| {
                match seen.version(&leader) {
                    Some(2..) => Vec::new(),
                    _ => vec![Wait::on(leader, "the leader goes first")],
                }
            })]
        }
    }
    let view = partition(&[], vec![("leader", in_sync(version(Some(1), None)))]);
    let solver = DependencySolver::standard().with(AfterLeader);
    let check = |asset: &str| {
        let request = testing::check_request(&testing::asset(asset)).view(view.clone());
        waits(&block_on(solver.check(request)).unwrap())
    };
    assert_eq!(check("follower"), ["leader"]);
    assert_eq!(check("leader"), NONE);
    view.set(&id("leader"), in_sync(version(Some(2), None)));
    assert_eq!(check("follower"), NONE);
}

#[test]
fn r16_push_without_a_view_waits() {
    let request = testing::check_request(&testing::asset("job"));
    let verdict = block_on(DependencySolver::capacity().check(request)).unwrap();
    assert!(verdict.delays[0].reason.contains("no view"), "{verdict:?}");
}

#[test]
fn demand_above_the_largest_integer_does_not_wrap() {
    let view = partition(
        &[("a", "job", qps()), ("b", "job", qps())],
        vec![
            ("a", in_sync(capacity(u64::MAX, u64::MAX))),
            ("b", in_sync(capacity(u64::MAX, u64::MAX))),
        ],
    );
    assert_eq!(
        waits(&push(&view, "job", capacity(u64::MAX, u64::MAX - 1))),
        ["a", "b"]
    );
}

#[test]
fn each_wait_cycle_is_found_once() {
    let pairs = |text: &str| -> Vec<(AssetId, AssetId)> {
        let pair = |pair: &str| (id(&pair[..1]), id(&pair[1..]));
        text.split(' ').map(pair).collect()
    };
    let cycles = |text| -> Vec<String> {
        let cycles = wait_cycles(&pairs(text));
        let join = |cycle: &Vec<AssetId>| cycle.iter().map(AssetId::as_str).collect();
        cycles.iter().map(join).collect()
    };
    assert_eq!(cycles("ab bc cd"), NONE);
    assert_eq!(cycles("aa ab"), ["a"]);
    assert_eq!(cycles("ab bc ca cd de ed xa"), ["abc", "de"]);
    assert_eq!(cycles("ab bc cd da ac"), ["acd"], "the shortest");
}

#[test]
fn long_chain_of_waits_does_not_overflow_the_stack() {
    let name = |n: u32| id(&format!("a/{n}"));
    let mut waits: Vec<_> = (0..100_000).map(|n| (name(n), name(n + 1))).collect();
    assert_eq!(wait_cycles(&waits), Vec::<Vec<AssetId>>::new());
    waits.push((name(100_000), name(0)));
    assert_eq!(wait_cycles(&waits)[0].len(), 100_001);
}

#[test]
fn r16_own_demand_before_a_push_does_not_count_beside_the_demand_after_it() {
    let view = partition(
        &[("job", "job", qps())],
        vec![("job", differs("job", capacity(100, 60)))],
    );
    assert!(push(&view, "job", capacity(100, 60)).is_proceed());
    assert!(push(&view, "job", capacity(60, 100)).is_proceed());
    assert_eq!(view.asked(), [], "a push does not wait for itself");
    let edges = [("lb", "job", qps()), ("other", "job", qps())];
    let view = partition(
        &edges,
        vec![
            ("lb", differs("lb", capacity(60, 80))),
            ("job", in_sync(capacity(100, 100))),
            ("other", in_sync(capacity(20, 20))),
        ],
    );
    let verdict = push(&view, "lb", capacity(60, 80));
    assert!(verdict.is_proceed(), "80 and 20 fit into 100: {verdict:?}");
    assert_eq!(waits(&push(&view, "lb", capacity(60, 81))).len(), 2);
}
