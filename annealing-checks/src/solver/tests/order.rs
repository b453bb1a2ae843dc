//! Tests of static order (R16): the waits of a push for each cause, and dead ends.

use plugin_sdk::Cause;

use super::*;

/// The verdict on a push of `job` for `cause`. Its provider `db` differs at its own pin and would be pushed for the
/// cause `of`.
fn pushed_for(cause: Cause, of: Option<Cause>) -> Verdict {
    let view = partition(
        &[("job", "db", Need::Order)],
        vec![("db", differs("db", Effects::default()))],
    );
    view.cause(&id("db"), of);
    let asset = testing::asset("job");
    let request = testing::check_request(&asset).cause(cause).view(view);
    block_on(DependencySolver::standard().check(request)).unwrap()
}

#[test]
fn r16_repair_does_not_wait_for_an_edit_of_its_provider() {
    for cure in [Cause::Drift, Cause::Rollback] {
        assert!(
            pushed_for(cure, Some(Cause::Intent)).is_proceed(),
            "{cure:?}"
        );
        assert!(pushed_for(cure, None).is_proceed(), "{cure:?}");
    }
    for new in [Cause::Intent, Cause::Emergency] {
        let verdict = pushed_for(new, Some(Cause::Intent));
        assert_eq!(waits(&verdict), ["db"], "{new:?}");
    }
}

#[test]
fn r16_repair_waits_for_a_provider_that_is_being_repaired_too() {
    for cure in [Cause::Drift, Cause::Rollback] {
        for of in [Cause::Drift, Cause::Rollback] {
            assert_eq!(waits(&pushed_for(cure, Some(of))), ["db"]);
        }
    }
}

#[test]
fn r16_a_provider_without_intent_that_differs_is_a_dead_end() {
    let verdict = pushed_for(Cause::Intent, None);
    assert_eq!(waits(&verdict), ["db"]);
    let way_out = verdict.delays[0].dead_end().unwrap();
    assert!(way_out.contains("remove the edge"), "{way_out}");
    let pending = pushed_for(Cause::Intent, Some(Cause::Intent));
    assert_eq!(pending.delays[0].dead_end(), None, "its own push ends it");
}

#[test]
fn r16_way_out_of_waiting_for_a_provider_without_a_pin_is_its_rollout() {
    let view = partition(
        &[("job", "db", Need::Order)],
        vec![("db", differs("db", Effects::default()))],
    );
    view.not_yet(&id("db"));
    let verdict = push(&view, "job", Effects::default());
    assert_eq!(waits(&verdict), ["db"]);
    let way_out = verdict.delays[0].dead_end().unwrap();
    assert!(way_out.contains("look at that rollout"), "{way_out}");
    assert!(!way_out.contains("into intent again"), "{way_out}");
}

#[test]
fn r16_capacity_change_that_no_push_makes_is_a_dead_end() {
    let edges = [("lb", "job", qps())];
    let view = partition(&edges, vec![("job", differs("job", capacity(50, 80)))]);
    view.not_yet(&id("job"));
    let verdict = push(&view, "lb", capacity(40, 60));
    assert_eq!(waits(&verdict), ["job"]);
    let way_out = verdict.delays[0].dead_end().unwrap();
    assert!(way_out.contains("look at that rollout"), "{way_out}");
    let view = partition(&edges, vec![("lb", differs("lb", capacity(60, 40)))]);
    view.cause(&id("lb"), None);
    let verdict = push(&view, "job", capacity(100, 50));
    assert_eq!(waits(&verdict), ["lb"]);
    let way_out = verdict.delays[0].dead_end().unwrap();
    assert!(way_out.contains("acknowledge"), "{way_out}");
}

#[test]
fn r16_provider_whose_consumers_will_not_shrink_is_a_dead_end() {
    let view = partition(
        &[("lb", "job", qps())],
        vec![("lb", in_sync(capacity(60, 60)))],
    );
    let verdict = push(&view, "job", capacity(100, 50));
    assert_eq!(waits(&verdict), ["lb"]);
    assert!(verdict.delays[0].dead_end().is_some());
    view.set(&id("lb"), differs("lb", capacity(60, 40)));
    let verdict = push(&view, "job", capacity(100, 50));
    assert_eq!(verdict.delays[0].dead_end(), None, "lb will shrink");
}

#[test]
fn r16_a_provider_that_will_not_grow_is_a_dead_end() {
    let view = partition(
        &[("lb", "job", qps())],
        vec![("job", in_sync(capacity(50, 50)))],
    );
    let verdict = push(&view, "lb", capacity(40, 60));
    assert_eq!(waits(&verdict), ["job"]);
    assert!(verdict.delays[0].dead_end().is_some());
    view.set(&id("job"), differs("job", capacity(50, 80)));
    let verdict = push(&view, "lb", capacity(40, 60));
    assert_eq!(verdict.delays[0].dead_end(), None, "job will grow");
}

#[test]
fn r16_provider_leaves_room_for_consumers_that_still_have_to_grow() {
    let view = partition(
        &[("lb", "job", qps())],
        vec![("lb", differs("lb", capacity(30, 50)))],
    );
    assert_eq!(waits(&push(&view, "job", capacity(100, 40))), ["lb"]);
    assert!(push(&view, "job", capacity(100, 50)).is_proceed());
}
