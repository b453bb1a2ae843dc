//! Tests of neighbours that enforcement does not know any more, and of neighbours that are modelled only (R16).

use plugin_sdk::{Cause, observe::Error};

use super::*;

const CAUSES: [Cause; 4] = [
    Cause::Intent,
    Cause::Drift,
    Cause::Rollback,
    Cause::Emergency,
];

/// A partition with one edge from `job` to `db`, in which observations of `unseen` fail with `error`.
fn without(unseen: &str, need: Need, error: Error) -> Arc<FakeView> {
    let view = partition(&[("job", "db", need)], vec![]);
    view.fail(&id(unseen), error);
    view
}

/// The verdict on a push of `job`, which has no effects, for `cause`.
fn pushed_for(cause: Cause, view: &Arc<FakeView>) -> Verdict {
    let asset = testing::asset("job");
    let request = testing::check_request(&asset)
        .cause(cause)
        .view(view.clone());
    block_on(DependencySolver::standard().check(request)).unwrap()
}

/// Asserts that a push waits for `on` only, and that the wait is a dead end.
fn is_dead_end(verdict: &Verdict, on: &str) {
    assert_eq!(waits(verdict), [on]);
    let way_out = verdict.delays[0].dead_end();
    assert!(way_out.is_some(), "{verdict:?}");
}

#[test]
fn r16_repair_does_not_wait_for_a_provider_that_is_gone() {
    let view = without("db", Need::Order, Error::Gone);
    for cure in [Cause::Drift, Cause::Rollback] {
        assert!(pushed_for(cure, &view).is_proceed(), "{cure:?}");
    }
    for new in [Cause::Intent, Cause::Emergency] {
        let verdict = pushed_for(new, &view);
        is_dead_end(&verdict, "db");
        let way_out = verdict.delays[0].dead_end().unwrap();
        assert!(way_out.contains("put it into intent again"), "{way_out}");
    }
}

#[test]
fn r16_modelled_only_provider_counts_as_in_order() {
    let view = without("db", Need::Order, Error::ModelledOnly);
    for cause in CAUSES {
        assert!(pushed_for(cause, &view).is_proceed(), "{cause:?}");
    }
}

#[test]
fn r16_provider_whose_diff_fails_delays_every_cause() {
    let view = without("db", Need::Order, Error::failed("no answer"));
    for cause in CAUSES {
        let verdict = pushed_for(cause, &view);
        assert_eq!(waits(&verdict), ["db"], "{cause:?}");
        assert_eq!(verdict.delays[0].dead_end(), None, "a later diff may work");
    }
}

#[test]
fn r16_consumer_shrinks_and_does_not_grow_while_its_provider_is_gone() {
    let view = without("db", qps(), Error::Gone);
    is_dead_end(&push(&view, "job", capacity(40, 60)), "db");
    assert!(push(&view, "job", capacity(60, 40)).is_proceed());
    let view = without("db", Need::Version, Error::Gone);
    is_dead_end(&push(&view, "job", version(Some(3), Some(4))), "db");
    assert!(push(&view, "job", version(Some(4), Some(3))).is_proceed());
}

#[test]
fn r16_provider_does_not_wait_for_a_consumer_that_is_gone() {
    let view = without("job", qps(), Error::Gone);
    assert!(push(&view, "db", capacity(100, 0)).is_proceed());
    let view = without("job", Need::Version, Error::Gone);
    assert!(push(&view, "db", version(Some(4), None)).is_proceed());
}

#[test]
fn r16_a_consumer_that_is_gone_uses_no_capacity_of_its_provider() {
    let view = partition(
        &[("job", "db", qps()), ("old", "db", qps())],
        vec![("db", in_sync(capacity(100, 100)))],
    );
    view.fail(&id("old"), Error::Gone);
    assert!(push(&view, "job", capacity(40, 100)).is_proceed());
}

#[test]
fn r16_modelled_only_neighbour_of_unknown_capacity_or_version_is_a_dead_end() {
    for (need, up, down) in [
        (qps(), capacity(40, 60), capacity(60, 40)),
        (
            Need::Version,
            version(Some(3), Some(4)),
            version(Some(4), Some(3)),
        ),
    ] {
        let view = without("db", need.clone(), Error::ModelledOnly);
        let verdict = push(&view, "job", up);
        is_dead_end(&verdict, "db");
        let way_out = verdict.delays[0].dead_end().unwrap();
        assert!(way_out.contains("remove the edge"), "{way_out}");
        assert!(push(&view, "job", down.clone()).is_proceed());
        let view = without("job", need, Error::ModelledOnly);
        is_dead_end(&push(&view, "db", down), "job");
    }
}

#[test]
fn r16_modelled_only_consumer_that_blocks_the_growth_of_others_is_a_dead_end() {
    let view = partition(
        &[("job", "db", qps()), ("idea", "db", qps())],
        vec![("db", in_sync(capacity(100, 100)))],
    );
    view.fail(&id("idea"), Error::ModelledOnly);
    is_dead_end(&push(&view, "job", capacity(40, 60)), "idea");
}
