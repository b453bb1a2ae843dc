//! Tests of version order (R16): dead ends, their ways out, and versions that a consumer still needs.

use plugin_sdk::Cause;

use super::*;

/// A partition in which `job` may not run a newer version than `schema`.
fn versions(diffs: Vec<(&str, Diff)>) -> Arc<FakeView> {
    partition(&[("job", "schema", Need::Version)], diffs)
}

fn at(runs: u64) -> Diff {
    in_sync(version(Some(runs), None))
}

fn moves(asset: &str, from: u64, to: u64) -> Diff {
    differs(asset, version(Some(from), Some(to)))
}

/// The verdict on a push of `asset` between versions, for `cause`.
fn pushed(view: &Arc<FakeView>, asset: &str, from: u64, to: u64, cause: Cause) -> Verdict {
    let effects = version(Some(from), Some(to));
    let request = request(asset, before(&effects), effects);
    let request = request.cause(cause).view(view.clone());
    block_on(DependencySolver::standard().check(request)).unwrap()
}

/// The way out of the only wait of a push of `job` to version 4. `None`: it is no dead end.
fn way_out_of_rise(view: &Arc<FakeView>) -> Option<String> {
    let verdict = pushed(view, "job", 3, 4, Cause::Intent);
    assert_eq!(waits(&verdict), ["schema"]);
    verdict.delays[0].dead_end().map(str::to_owned)
}

#[test]
fn r16_a_version_that_will_not_rise_is_a_dead_end() {
    let view = versions(vec![("schema", at(3))]);
    let way_out = way_out_of_rise(&view).unwrap();
    assert!(way_out.contains("roll it out"), "{way_out}");
    view.set(&id("schema"), moves("schema", 3, 4));
    assert_eq!(way_out_of_rise(&view), None, "its push ends the wait");
    view.set(&id("schema"), moves("schema", 2, 3));
    assert!(way_out_of_rise(&view).is_some(), "version 3 is not enough");
    view.set(&id("schema"), moves("schema", 3, 4));
    view.cause(&id("schema"), None);
    let way_out = way_out_of_rise(&view).unwrap();
    assert!(way_out.contains("put it into intent again"), "{way_out}");
    view.not_yet(&id("schema"));
    let way_out = way_out_of_rise(&view).unwrap();
    assert!(way_out.contains("look at that rollout"), "{way_out}");
}

#[test]
fn r16_a_version_that_will_not_fall_is_a_dead_end() {
    let way_out = |diff| {
        let view = versions(vec![("job", diff)]);
        let verdict = pushed(&view, "schema", 4, 2, Cause::Intent);
        assert_eq!(waits(&verdict), ["job"]);
        verdict.delays[0].dead_end().map(str::to_owned)
    };
    let stays = way_out(at(3)).unwrap();
    assert!(stays.contains("roll it out"), "{stays}");
    assert_eq!(way_out(moves("job", 3, 2)), None, "its push ends the wait");
    assert!(way_out(moves("job", 4, 3)).is_some(), "3 is too much");
}

#[test]
fn r16_orphan_that_keeps_a_version_is_a_dead_end_that_an_acknowledgement_ends() {
    let view = versions(vec![("job", moves("job", 3, 2))]);
    view.cause(&id("job"), None);
    let verdict = pushed(&view, "schema", 4, 2, Cause::Intent);
    assert_eq!(waits(&verdict), ["job"]);
    let way_out = verdict.delays[0].dead_end().unwrap();
    assert!(way_out.contains("acknowledge"), "{way_out}");
}

#[test]
fn r16_provider_keeps_the_version_that_a_consumer_goes_back_to() {
    let view = versions(vec![("job", moves("job", 2, 4))]);
    for back in [Cause::Drift, Cause::Rollback] {
        view.cause(&id("job"), Some(back));
        for cause in [Cause::Intent, Cause::Drift, Cause::Rollback] {
            let verdict = pushed(&view, "schema", 5, 3, cause);
            assert_eq!(waits(&verdict), ["job"], "{back:?}, {cause:?}");
            let reason = &verdict.delays[0].reason;
            assert!(reason.contains("version 4"), "{reason}");
            assert!(verdict.delays[0].dead_end().is_some(), "it stays at 4");
        }
        let enough = pushed(&view, "schema", 5, 4, Cause::Intent);
        assert!(enough.is_proceed());
    }
}

#[test]
fn r16_provider_goes_back_whatever_version_an_edit_of_its_consumer_brings() {
    let view = versions(vec![("job", moves("job", 2, 4))]);
    for cure in [Cause::Drift, Cause::Rollback] {
        let verdict = pushed(&view, "schema", 5, 3, cure);
        assert!(verdict.is_proceed(), "{cure:?}: the edit can wait");
    }
    let verdict = pushed(&view, "schema", 5, 3, Cause::Intent);
    assert_eq!(waits(&verdict), ["job"], "the edit came first");
}

#[test]
fn r16_provider_keeps_no_version_for_a_consumer_without_intent() {
    let view = versions(vec![("job", moves("job", 2, 4))]);
    view.cause(&id("job"), None);
    assert!(pushed(&view, "schema", 5, 3, Cause::Intent).is_proceed());
}

#[test]
fn r16_provider_falls_below_a_version_that_it_does_not_have() {
    let view = versions(vec![("job", moves("job", 1, 4))]);
    view.cause(&id("job"), Some(Cause::Drift));
    let verdict = pushed(&view, "schema", 3, 2, Cause::Intent);
    assert!(verdict.is_proceed(), "version 4 waits for another edit");
}
