//! Old and new program versions take turns on every type of record.

use jiff::Timestamp;
use plugin_sdk::{By, Cause, Claim, Delay, FencingToken, GroupHead, Guard, Key, Pin, Recheck};
use prodspec_model::{AssetId, Digest, IncarnationNo, TypeName, addons::Edge};
use serde_json::{Value, json};

use super::*;
use crate::{Record, Version, Versioned, conformance, record};

const NO: IncarnationNo = IncarnationNo(7);

fn id() -> AssetId {
    AssetId::new("job/eu").unwrap()
}

fn ended() -> Option<Ended> {
    let (by, at) = (By::new("ada", "done"), Timestamp::MAX);
    Some(Ended { by, at })
}

fn asset_record() -> AssetRecord {
    AssetRecord {
        settled: Some(Settled {
            incarnation: NO,
            content: Digest([1; 32]),
            at: Timestamp::MIN,
        }),
        drifted: true,
        open: Some(OpenPush {
            incarnation: NO,
            change: Digest([2; 32]),
            token: FencingToken(3),
            at: Timestamp::MIN,
            type_name: TypeName::new("test.v1.Job").unwrap(),
            guard: Guard::Guarded,
            until: std::time::Duration::from_secs(9),
            relies_on: ReliedOn::new(vec![id()]),
        }),
        edges: vec![Edge::order(id()), Edge::version(id())],
        claims: vec![
            Claim::Exclusive(Key::from("k")),
            Claim::AtMost(Key::from("m"), 2),
        ],
        unhealthy: Some(Unhealthy {
            incarnation: NO,
            why: "500s".into(),
        }),
        moved: Some(MovedRecord {
            from: id(),
            pushed: true,
        }),
    }
}

fn floor(no: u32) -> Floor {
    Floor {
        incarnation: IncarnationNo(no),
        types: [TypeName::new("jobs.v1.Job").unwrap()].into(),
    }
}

fn approval() -> Approval {
    let used = Used {
        at: Timestamp::MIN,
        incarnation: NO,
        token: FencingToken(3),
    };
    Approval {
        asset: id(),
        change: Digest([2; 32]),
        by: By::new("ada", "checked"),
        at: Timestamp::MIN,
        until: Timestamp::MAX,
        used: Some(used),
        replaced: ended(),
    }
}

fn decisions() -> Decisions {
    let decision = |outcome| Decision {
        at: Timestamp::MIN,
        trigger: Trigger::Asked,
        cause: Cause::Drift,
        incarnation: NO,
        token: FencingToken(3),
        change: None,
        summary: "replicas".into(),
        outcome,
        allowed_by: vec![AllowedBy {
            word: "approval".into(),
            by: By::new("ada", "checked"),
            at: Timestamp::MIN,
        }],
    };
    let delay = Delay::new("in a freeze", Recheck::WhenSettled(id()));
    let told = Outcome::Command {
        what: "pause".into(),
        by: By::new("ada", "storm"),
    };
    let outcomes = [Outcome::Delayed(vec![delay]), told, Outcome::Pushed];
    outcomes.into_iter().map(decision).collect()
}

#[test]
fn old_and_new_versions_take_turns_on_every_record() {
    // References, needs and claims are values of enums, or have no other keys; durations are of the standard library.
    let closed = [
        "/edges/*/provider",
        "/edges/*/need",
        "/claims/*",
        "/open/until",
    ];
    conformance::record(&asset_record(), &closed);
    let orphaned = Orphaned {
        last: NO,
        at: Timestamp::MIN,
        asset: "{}".into(),
        edges: vec![Edge::order(id())],
    };
    conformance::record(&orphaned, &closed);
    conformance::record(&floor(1), &[]);
    conformance::record(&Taken { incarnation: NO }, &[]);
    conformance::record(&GroupHead::At(NO), &[""]);
    conformance::record(&Pin::At(NO, Cause::Rollback), &[""]);
    conformance::record(&approval(), &[]);
    let Approval {
        asset,
        change,
        by,
        at,
        until,
        used,
        replaced,
    } = approval();
    let check = "freeze".into();
    let lifted = Override {
        asset,
        change,
        check,
        by: by.clone(),
        at,
        until,
        used,
        replaced,
    };
    conformance::record(&lifted, &[]);
    let pause = Pause {
        scope: Scope::Asset(id()),
        by,
        at,
        until: None,
        resumed: ended(),
    };
    conformance::record(&pause, &["/scope"]);
    let mut stopped = Stopped::new("why", at, FencingToken(3));
    stopped.cleared = ended();
    conformance::record(&stopped, &[]);
    let total = std::time::Duration::from_secs(9);
    conformance::record(&Owned { total }, &["/total"]);
    let closed = ["/*/outcome", "/*/outcome/delayed/*/recheck"];
    conformance::record(&decisions(), &closed);
}

#[test]
fn r5_unknown_word_at_any_place_of_any_record_is_read_and_kept() {
    let needs = ["/edges/*/need", "/claims/*"];
    conformance::words(&asset_record(), &needs);
    let orphaned = Orphaned {
        last: NO,
        at: Timestamp::MIN,
        asset: "{}".into(),
        edges: vec![Edge::order(id())],
    };
    conformance::words(&orphaned, &needs);
    for pin in [Pin::At(NO, Cause::Rollback), Pin::NotYet] {
        conformance::words(&pin, &[""]);
    }
    for head in [GroupHead::At(NO), GroupHead::Latest] {
        conformance::words(&head, &[""]);
    }
    conformance::words(&approval(), &[]);
    for scope in [Scope::Asset(id()), Scope::Partition] {
        let by = By::new("ada", "storm");
        let pause = Pause {
            scope,
            by,
            at: Timestamp::MIN,
            until: None,
            resumed: ended(),
        };
        conformance::words(&pause, &["/scope"]);
    }
    let mut stopped = Stopped::new("why", Timestamp::MIN, FencingToken(3));
    stopped.cleared = ended();
    conformance::words(&stopped, &[]);
    let enums = ["/*/outcome", "/*/outcome/delayed/*/recheck"];
    conformance::words(&decisions(), &enums);
    conformance::words(&decisions(), &enums[1..]);
}

#[test]
fn r5_record_that_goes_on_keeps_unknown_fields() {
    goes_on(&floor(1), floor(2));
    goes_on(
        &Taken { incarnation: NO },
        Taken {
            incarnation: NO.next(),
        },
    );
}

/// Asserts that a field of a newer version survives the change from `old` to `new`.
fn goes_on<R: Record>(old: &R, new: R) {
    let mut json = serde_json::to_value(old).unwrap();
    json["zone"] = json!("eu");
    let mut stored = read::<R>(&json);
    stored.value = new;
    assert_eq!(written(&stored)["zone"], "eu", "{}", R::KIND);
}

/// Reads a record as this version does.
fn read<R: Record>(json: &Value) -> record::Stored<R> {
    let row = Versioned {
        version: Version(1),
        value: json.to_string().into(),
    };
    record::decode(&"record".into(), &row).unwrap()
}

/// The record as it is stored after this version has written it.
fn written<R: Record>(stored: &record::Stored<R>) -> Value {
    let write = stored.rewrite(&"shop".parse().unwrap(), "x").unwrap();
    let crate::Write::Put(_, bytes) = write else {
        panic!("{write:?}");
    };
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn unknown_values_of_newer_versions_are_read_as_the_safe_choice_and_kept() {
    let mut json = serde_json::to_value(asset_record()).unwrap();
    json["open"]["guard"] = json!("quorum");
    json["edges"][0]["need"] = json!({ "kind": "latency", "ms": 5 });
    json["claims"][1] = json!({ "budget": ["cpu", 3] });
    let mut asset = read::<AssetRecord>(&json);
    let known = &asset.value;
    assert_eq!(known.open.as_ref().unwrap().guard, Guard::Advisory);
    assert_eq!(known.edges, asset_record().edges, "the strictest need");
    assert_eq!(known.claims.len(), 2, "an unknown claim is held");
    assert_eq!(written(&asset), json);
    asset.value.drifted = false;
    asset.value.claims.remove(0);
    json["drifted"] = json!(false);
    json["claims"].as_array_mut().unwrap().remove(0);
    assert_eq!(written(&asset), json);

    let zone = json!({ "scope": { "zone": "eu" }, "who": "ada", "why": "x", "at": Timestamp::MIN, "until": null, "resumed": null });
    let pause = read::<Pause>(&zone);
    assert_eq!(
        pause.value.scope,
        Scope::Partition,
        "more is paused, not less"
    );
    assert_eq!(written(&pause), zone);

    let pin = json!({ "at": [7, "rehearsal"] });
    let pinned = read::<Pin>(&pin);
    assert_eq!(
        pinned.value,
        Pin::At(NO, Cause::Intent),
        "every check applies"
    );
    assert_eq!(written(&pinned), pin);
}
