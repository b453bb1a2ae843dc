//! R4: an override lets one refused change pass, once.

use std::time::Duration;

use prodspec_model::Digest;
use serde_json::json;

use super::{Board, NOW, manifest, named_in, start, word};
use crate::{
    guard::{GROWTH, SHRINK},
    overrides,
};

#[tokio::test(start_paused = true)]
async fn r4_override_is_spent_by_the_seal_that_uses_it() {
    let world = start(manifest(20), |builder| builder);
    world.run().await;
    world.source.set(Ok(manifest(10)));
    let refused = world.handle.next_run().await.problems.to_string();
    let digest = named_in(&refused, SHRINK);
    let word = word(SHRINK, digest);
    let handle = &world.handle;
    handle.override_guard(word.clone()).await.unwrap();
    assert_eq!(handle.overrides(NOW).await.unwrap().overrides, [word]);
    assert!(world.handle.next_run().await.is_good());
    assert_eq!(world.sealed(), 2);
    assert_eq!(handle.overrides(NOW).await.unwrap().overrides, []);
    let kept = world.seals.all_overrides();
    assert_eq!(kept[0].used.unwrap().incarnation.0, 2);
    world.source.set(Ok(manifest(20)));
    assert!(world.handle.next_run().await.is_good());
    world.source.set(Ok(manifest(10)));
    assert!(
        !world.handle.next_run().await.is_good(),
        "the same change needs another override"
    );
}

#[tokio::test(start_paused = true)]
async fn r4_override_that_fits_no_refusal_is_refused_with_those_that_fit() {
    let world = start(manifest(20), |builder| {
        builder.external_validator(Board(|_| None), Duration::from_secs(5))
    });
    let handle = &world.handle;
    let early = handle
        .override_guard(word(SHRINK, Digest::of(b"typo")))
        .await;
    let said = early.unwrap_err().to_string();
    assert!(
        said.contains("no guard and no external validator"),
        "{said}"
    );
    let board = named_in(&world.run().await.problems.to_string(), "board");
    handle.override_guard(word("board", board)).await.unwrap();
    assert!(handle.next_run().await.is_good());
    assert_eq!(handle.status().refusals, []);
    let spent = handle.override_guard(word("board", board)).await;
    assert!(matches!(spent, Err(overrides::Error::NotRefused { .. })));

    world.source.set(Ok(manifest(10)));
    let refused = handle.next_run().await;
    let said = refused.problems.to_string();
    let (shrink, board) = (named_in(&said, SHRINK), named_in(&said, "board"));
    let named: Vec<_> = refused.refusals.iter().map(ToString::to_string).collect();
    assert_eq!(
        named,
        [
            format!("{SHRINK} for {shrink}"),
            format!("board for {board}")
        ]
    );
    for (guard, digest) in [(GROWTH, shrink), (SHRINK, board), ("typo", shrink)] {
        let wrong = handle.override_guard(word(guard, digest)).await;
        let said = wrong.unwrap_err().to_string();
        assert!(said.contains(&named.join(", ")), "{said}");
    }
    let mut past = word(SHRINK, shrink);
    past.until = NOW;
    let past = handle.override_guard(past).await;
    assert!(matches!(past, Err(overrides::Error::Expired { .. })));
    assert_eq!(world.seals.all_overrides().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn r4_refusals_are_those_of_the_last_run() {
    let world = start(manifest(20), |builder| builder);
    world.run().await;
    for then in [Ok(manifest(20)), Ok(json!({"a": {"n": 13}})), Err("torn")] {
        world.source.set(Ok(manifest(10)));
        assert_eq!(world.handle.next_run().await.refusals.len(), 1);
        world.source.set(then);
        assert_eq!(world.handle.next_run().await.refusals, []);
    }
}
