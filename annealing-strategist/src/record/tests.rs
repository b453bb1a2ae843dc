//! Old and new program versions take turns on the records of rollouts.

use control_plane_store::{Version, Versioned, conformance, record};
use plugin_sdk::{Cause, Finding, Judgement};
use serde_json::json;

use super::*;

fn id(id: &str) -> AssetId {
    AssetId::new(id).unwrap()
}

fn rollout() -> Rollout {
    let at = Timestamp::UNIX_EPOCH;
    let mut rollout = Rollout::new(RolloutId(3), id("policy"), None, IncarnationNo(7), at);
    rollout.state = State::Stopped { why: "sick".into() };
    rollout.idle = Some(Lasting {
        since: Duration::from_secs(1),
        flagged: true,
    });
    let sick = Finding::new(Judgement::Unhealthy, "500s").because(json!({ "errors": 3 }));
    rollout.health = Some(Health::found(at, sick.clone()));
    rollout.verdicts = vec![Health::healthy(at), Health::found(at, sick)];
    rollout.note(at, "stopped", Some(By::new("ada", "sick")));
    rollout
}

#[test]
fn old_and_new_versions_take_turns_on_records_of_rollouts() {
    // States and pins are values of enums; durations are of the standard library.
    conformance::record(
        &rollout(),
        &[
            "/state",
            "/watched",
            "/idle/since",
            "/health/findings/*/evidence",
            "/verdicts/*/findings/*/evidence",
        ],
    );
    conformance::words(&rollout(), &["/state"]);
    let target = TargetRecord {
        policy: id("policy"),
        rollout: RolloutId(3),
        to: None,
        moved_at: Duration::from_secs(1),
        updated_at: Some(Duration::from_secs(2)),
        order: 1,
        was: Pin::At(IncarnationNo(6), Cause::Intent),
        back_at: None,
    };
    conformance::record(&target, &["/was", "/moved_at", "/updated_at"]);
    conformance::words(&target, &["/was"]);
    let mut quarantined = Quarantined::of(id("policy"));
    quarantined.add(Failed {
        rollout: RolloutId(3),
        to: IncarnationNo(4),
        content: Digest([1; 32]),
        reached: true,
    });
    conformance::record(&quarantined, &[]);
}

#[test]
fn r5_verdict_of_a_newer_version_holds_and_is_kept() {
    let mut json = serde_json::to_value(rollout()).unwrap();
    json["state"] = json!("completed");
    json["health"]["judgement"] = json!("degraded");
    json["health"]["findings"][0]["judgement"] = json!("degraded");
    json["verdicts"][0]["judgement"] = json!("degraded");
    let row = Versioned {
        version: Version(1),
        value: json.to_string().into(),
    };
    let read = record::decode::<Rollout>(&"rollout/shop/x".into(), &row).unwrap();
    let health = read.value.health.unwrap();
    assert_eq!(health.judgement, Judgement::Unknown);
    assert!(!health.is_healthy_since(Timestamp::MIN));
    let (at, word) = read.unknown.as_deref().and_then(|it| it.word()).unwrap();
    assert!(at.ends_with("judgement"), "{at}");
    assert_eq!(word, "degraded");
}

#[test]
fn rollout_in_a_state_of_a_newer_version_is_stopped() {
    let mut json = serde_json::to_value(rollout()).unwrap();
    json["state"] = json!({ "rehearsing": { "since": 4 } });
    let row = Versioned {
        version: Version(1),
        value: json.to_string().into(),
    };
    let read = record::decode::<Rollout>(&"rollout/shop/x".into(), &row).unwrap();
    let State::Stopped { why } = &read.value.state else {
        panic!("{:?}", read.value.state);
    };
    assert!(why.contains("rehearsing"), "{why}");
    let write = read.rewrite(&"shop".parse().unwrap(), "x").unwrap();
    let control_plane_store::Write::Put(_, bytes) = write else {
        panic!("{write:?}");
    };
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap(),
        json
    );
}

#[test]
fn r17_records_of_32_rollouts_are_kept() {
    assert_eq!(Rollout::forgotten_for(RolloutId(32)), None);
    assert_eq!(Rollout::forgotten_for(RolloutId(33)), Some(RolloutId(1)));
}
