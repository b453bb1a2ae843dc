//! R3: external validators refuse seals and warn.

use std::time::Duration;

use plugin_sdk::{Problem, Problems};
use serde_json::json;

use super::{Answer, Board, manifest, named_in, start, start_with, word};

#[tokio::test(start_paused = true)]
async fn r3_failed_or_late_external_validator_refuses_the_seal() {
    let answers: [(Answer, &str); 3] = [
        (|_| None, "did not answer within 5s"),
        (
            |_| Some(Err("no route".into())),
            "could not validate this content: no route",
        ),
        (
            |_| Some(Ok(Problem::new("too many").into())),
            "too many (says board)",
        ),
    ];
    for (answer, says) in answers {
        let world = start(manifest(2), |builder| {
            builder.external_validator(Board(answer), Duration::from_secs(5))
        });
        let status = world.run().await;
        assert!(
            status.problems.to_string().contains(says),
            "{}",
            status.problems
        );
        assert_eq!(world.sealed(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn r3_guards_and_external_validators_also_check_refused_content() {
    let outside: Answer = |candidate| match candidate.snapshot.len() {
        1 => Some(Ok(Problem::new("too few").into())),
        _ => Some(Ok(Problems::none())),
    };
    let world = start(manifest(20), |builder| {
        builder.external_validator(Board(outside), Duration::from_secs(5))
    });
    world.run().await;
    world
        .source
        .set(Ok(json!({"i0": {"n": 1, "refers": ["none"]}})));
    let said = world.handle.next_run().await.problems.to_string();
    for says in ["refers to `none`", "19 of 20 assets", "too few"] {
        assert!(said.contains(says), "{says}: {said}");
    }
    assert_eq!(world.sealed(), 1);
    world.source.set(Ok(manifest(20)));
    assert!(world.handle.next_run().await.is_good());
}

#[tokio::test(start_paused = true)]
async fn r3_external_warnings_stay_while_their_content_is_in_force() {
    let outside: Answer = |candidate| match candidate.snapshot.len() {
        2 => Some(Ok(Problem::new("few").warning().into())),
        _ => Some(Ok(Problems::none())),
    };
    let world = start(manifest(2), |builder| {
        builder.external_validator(Board(outside), Duration::from_secs(5))
    });
    let said = world.run().await.problems.to_string();
    assert_eq!(said, "warning: few (says board)");
    let unchanged = world.handle.next_run().await.problems.to_string();
    assert_eq!(unchanged, said);
    // A restart with unchanged content asks no validator and forgets no warning.
    let restarted = start_with(manifest(2), world.seals.clone(), |builder| {
        builder.external_validator(Board(|_| panic!("asked")), Duration::from_secs(5))
    });
    let status = restarted.run().await;
    assert_eq!(status.problems.to_string(), said);
    assert_eq!(status.incarnation.unwrap().id.no.0, 1);
    world.source.set(Ok(manifest(3)));
    assert!(world.handle.next_run().await.problems.is_empty());
    assert!(world.handle.next_run().await.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn r3_warnings_of_removed_external_validators_are_not_repeated() {
    let outside: Answer = |_| Some(Ok(Problem::new("few").warning().into()));
    let world = start(manifest(2), |builder| {
        builder.external_validator(Board(outside), Duration::from_secs(5))
    });
    assert_eq!(world.run().await.problems.len(), 1);
    let restarted = start_with(manifest(2), world.seals.clone(), |builder| builder);
    assert!(restarted.run().await.problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn r3_override_lets_one_content_pass_a_validator_that_does_not_answer() {
    let world = start(manifest(2), |builder| {
        builder.external_validator(Board(|_| None), Duration::from_secs(5))
    });
    let said = world.run().await.problems.to_string();
    let word = word("board", named_in(&said, "board"));
    world.handle.override_guard(word).await.unwrap();
    assert!(world.handle.next_run().await.is_good());
    assert_eq!(world.sealed(), 1);
    world.source.set(Ok(manifest(3)));
    assert!(!world.handle.next_run().await.is_good());
}
