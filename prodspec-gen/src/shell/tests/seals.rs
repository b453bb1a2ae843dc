//! R2, R3: which runs start, and which of them seal an incarnation.

use std::time::Duration;

use plugin_sdk::{Problem, Problems};
use serde_json::json;

use super::{manifest, start};
use crate::{
    seal::{Seal, Sealer},
    testing,
};

#[tokio::test(start_paused = true)]
async fn edit_becomes_an_incarnation_and_an_unchanged_result_seals_nothing() {
    let world = start(manifest(2), |builder| builder);
    let status = world.run().await;
    assert!(status.is_good());
    let first = status.incarnation.unwrap();
    assert_eq!(
        (first.id.to_string().as_str(), first.assets, first.parent),
        ("test@1", 2, None)
    );

    world.source.set(Ok(manifest(3)));
    world.source.hint();
    let second = world.run().await.incarnation.unwrap();
    assert_eq!(
        (second.id.to_string().as_str(), second.assets),
        ("test@2", 3)
    );
    assert_ne!(second.sources, first.sources);

    let shifted = json!({"i0": {"n": 1, "refers": []}, "i1": {"n": 1}, "i2": {"n": 1}});
    world.source.set(Ok(shifted));
    world.source.hint();
    let status = world.run().await;
    assert_eq!(world.seals.sealed().len(), 2, "no new incarnation");
    assert_ne!(
        world.seals.last_seen(),
        second.sources,
        "the new revision is recorded"
    );
    assert_eq!(status.seen, world.seals.last_seen());
}

#[tokio::test(start_paused = true)]
async fn r3_any_error_seals_nothing() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    for (wrong, says) in [
        (
            Ok(json!({"a": {"n": 13}, "b": {"n": 1}})),
            "13 is not allowed",
        ),
        (
            Ok(json!({"a": {"n": 1, "refers": ["none"]}})),
            "refers to `none`",
        ),
        (Ok(json!({})), "no asset would be left"),
        (Err("torn"), "torn (says source docs)"),
    ] {
        world.source.set(wrong);
        world.source.hint();
        let status = world.run().await;
        assert!(
            status.problems.to_string().contains(says),
            "{}",
            status.problems
        );
        assert!(!status.is_good());
        assert_eq!(world.sealed(), 1);
    }
    world.source.set(Ok(manifest(3)));
    let status = world.run().await;
    assert!(
        status.is_good(),
        "a source that could not be read is read again without a hint: {}",
        status.problems
    );
    assert_eq!(world.sealed(), 2);
}

#[tokio::test(start_paused = true)]
async fn r3_source_error_without_problems_or_with_warnings_only_seals_nothing() {
    for error in [Problems::none(), Problem::new("odd").warning().into()] {
        let world = start(manifest(2), |builder| builder);
        world.source.fail(error.clone());
        let cold = world.run().await;
        world.source.set(Ok(manifest(2)));
        assert!(world.handle.next_run().await.is_good());
        world.source.fail(error);
        let warm = world.handle.next_run().await;
        for status in [cold, warm] {
            let said = status.problems.to_string();
            let says =
                "failed without saying why; return the error as a problem (says source docs)";
            assert!(said.contains(says), "{said}");
            assert!(!status.is_good());
        }
        assert_eq!(world.seals.sealed().len(), 1);
        assert_eq!(world.sealed(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn r2_many_hints_start_one_run() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    for n in 3..10 {
        world.source.set(Ok(manifest(n)));
        world.source.hint();
        tokio::time::advance(Duration::from_millis(50)).await;
    }
    let status = world.run().await;
    assert_eq!(
        (world.sealed(), status.runs, world.source.reads()),
        (2, 2, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn change_without_a_hint_is_read_periodically() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    world.source.set(Ok(manifest(3)));
    world.run().await;
    assert_eq!(world.sealed(), 2);
}

#[tokio::test(start_paused = true)]
async fn next_run_builds_on_the_incarnation_of_another_sealer() {
    let world = start(manifest(2), |builder| builder);
    world.run().await;
    let other = testing::incarnation(manifest(4));
    let mut header = other.header().clone();
    (header.id.no, header.parent) = (
        prodspec_model::IncarnationNo(2),
        Some(prodspec_model::IncarnationNo(1)),
    );
    let seal = Seal {
        header,
        snapshot: other.snapshot().clone(),
        put: vec![],
        removed: vec![],
        spent: vec![],
        warnings: Problems::none(),
    };
    world.seals.seal(seal).await.unwrap();
    let status = world.handle.next_run().await;
    assert!(status.is_good(), "{}", status.problems);
    assert_eq!(world.sealed(), 3);
    assert_eq!(status.incarnation.unwrap().assets, 2);
}

#[tokio::test(start_paused = true)]
async fn r36_only_a_run_whose_result_is_in_force_is_waited_for() {
    let world = start(manifest(2), |builder| builder);
    let first = world.handle.next_run().await;
    assert_eq!(first.good, first.runs, "sealed");
    let same = world.handle.next_run().await;
    assert_eq!(same.good, same.runs, "found unchanged");
    world.source.fail(Problem::new("odd").into());
    let begun = world.handle.begun();
    let bad = world.handle.next_run().await;
    assert_eq!((bad.good, bad.runs), (begun, begun + 1));
    assert!(bad.incarnation.is_some(), "that of before");
    let waiting = world.handle.in_force_after(begun);
    world.source.set(Ok(manifest(3)));
    let status = waiting.await.unwrap();
    assert!(status.good > begun);
    assert_ne!(status.incarnation, bad.incarnation);
}
