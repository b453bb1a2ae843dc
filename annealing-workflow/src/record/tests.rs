//! R5: an enum value of a newer program version is read in every record, as the cautious one, and kept.

use std::fmt::Debug;

use control_plane_store::{Record, conformance};
use plugin_sdk::{Claim, Key, operation::StartCause};
use serde_json::{Value, json};

use super::*;
use crate::watch::WatchRecord;

fn read<R: Record>(json: Value) -> R {
    serde_json::from_value(json).unwrap()
}

fn by() -> Value {
    json!({ "who": "Ada", "why": "Because", "at": "2026-03-04T12:00:00Z" })
}

fn live() -> Value {
    json!({
        "definition": Digest([1; 32]),
        "by": { "who": "Ada", "why": "Because" },
        "cause": "command",
        "started": "2026-03-04T12:00:00Z",
        "cancelled": by(),
        "paused": by(),
        "claims": [{ "exclusive": "K" }],
    })
}

/// Checks the law of enum values for a record. `enums` are the places of variants with data.
fn law<R: Record + PartialEq + Debug>(json: Value, enums: &[&str]) {
    conformance::words(&read::<R>(json), enums);
}

#[test]
fn r5_unknown_word_in_any_record_of_workflows_is_read_and_kept() {
    law::<Live>(live(), &["/claims/*"]);
    law::<Live>(live(), &["/claims/*", "/cause"]);
    let mut ended = live();
    for (field, value) in [
        ("id", json!("season-0000000001")),
        ("outcome", json!("succeeded")),
        ("states", json!({ "load": "done" })),
        ("ended", json!("2026-03-04T13:00:00Z")),
    ] {
        ended[field] = value;
    }
    let claims = "/claims/*";
    law::<Ended>(ended.clone(), &[claims]);
    law::<Ended>(ended, &[claims, "/outcome"]);
    let key = json!({
        "workflow": "season",
        "key": "K",
        "execution": "season-0000000001",
        "input": Digest([2; 32]),
        "outcome": "failed",
        "runs": [{
            "content": Digest([3; 32]),
            "execution": "season-0000000001",
            "started": "2026-03-04T12:00:00Z",
            "end": "succeeded",
        }],
    });
    law::<KeyRecord>(key.clone(), &[]);
    law::<KeyRecord>(key, &["/outcome", "/runs/*/end"]);
    let step =
        json!({ "state": "load", "run": 1, "does": "calls", "claims": [{ "exclusive": "K" }] });
    law::<StepRecord>(step, &[claims]);
    let watch = json!({ "wanted": {
        "on": { "intent": { "types": ["t.v1.T"] } },
        "per": "asset",
        "concurrency": "allow",
        "at_most": 1,
    } });
    law::<WatchRecord>(watch.clone(), &[]);
    law::<WatchRecord>(watch, &["/wanted/on"]);
}

#[test]
fn r5_unknown_word_is_read_as_the_cautious_value() {
    let mut json = live();
    (json["cause"], json["claims"]) = (json!({ "moon": 1 }), json!([{ "moon": 1 }]));
    let read = self::read::<Live>(json);
    assert_eq!(read.origin.cause, StartCause::Command);
    let held = Claim::Exclusive(Key::from(r#"{"moon":1}"#));
    assert_eq!(*read.claims, [held]);
    let step = json!({ "state": "load", "run": 1, "does": "dreams" });
    assert_eq!(self::read::<StepRecord>(step).does, Does::Unsettled);
}
