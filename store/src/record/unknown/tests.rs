//! Laws of unknown fields, on values of any shape.

use futures::executor::block_on;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::{Batch, MemoryStore, Store, record};

/// A record as an old program version knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Job {
    at: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    open: Option<Push>,
    pushes: Vec<Push>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Push {
    no: u32,
}

impl Record for Job {
    const KIND: &'static str = "job";
    const SAME: &'static [&'static str] = &["at"];
}

/// Stores `newer`, lets an old version read it, change it by `change` and write it, and returns what is stored then.
fn rewritten(newer: &Value, change: impl FnOnce(&mut Job)) -> Value {
    let (store, partition) = (MemoryStore::new(), "p".parse().unwrap());
    let key = record::key(&partition, Job::KIND, "x");
    let batch = Batch::new().put(key.clone(), newer.to_string());
    block_on(store.commit(batch)).unwrap();
    let mut read = block_on(record::load::<Job>(&store, &partition, "x"))
        .unwrap()
        .unwrap();
    let rewrites = Rewrites::default();
    rewrites.note(&partition, "x", &read);
    change(&mut read.value);
    let twice = [
        read.rewrite(&partition, "x").unwrap(),
        rewrites.put(&partition, "x", &read.value).unwrap(),
    ]
    .map(|write| {
        block_on(store.commit(Batch::new().write(write))).unwrap();
        let row = block_on(store.get(std::slice::from_ref(&key))).unwrap();
        serde_json::from_slice::<Value>(&row[0].as_ref().unwrap().value).unwrap()
    });
    assert_eq!(twice[0], twice[1]);
    // A second change by the same owner has what the first one left.
    let again = rewrites.put(&partition, "x", &read.value).unwrap();
    assert_eq!(again, read.rewrite(&partition, "x").unwrap());
    twice[0].clone()
}

#[test]
fn changed_record_keeps_unknown_fields_at_every_level() {
    let newer = json!({
        "at": 1, "zone": "eu",
        "open": { "no": 1, "by": "ada" },
        "pushes": [{ "no": 2, "by": "bob" }, { "no": 3 }],
    });
    let found = rewritten(&newer, |job| {
        job.pushes.remove(1);
        job.pushes.insert(0, Push { no: 9 });
    });
    let kept = json!({
        "at": 1, "zone": "eu",
        "open": { "no": 1, "by": "ada" },
        "pushes": [{ "no": 9 }, { "no": 2, "by": "bob" }],
    });
    assert_eq!(found, kept);
}

#[test]
fn unknown_field_goes_with_the_object_that_it_describes() {
    let newer = json!({ "at": 1, "zone": "eu", "open": { "no": 1, "by": "ada" }, "pushes": [] });
    let closed = rewritten(&newer, |job| job.open = None);
    assert_eq!(closed, json!({ "at": 1, "zone": "eu", "pushes": [] }));
    let another = rewritten(&newer, |job| job.open = Some(Push { no: 2 }));
    assert_eq!(another["open"], json!({ "no": 2 }));
    let renewed = rewritten(&newer, |job| job.at = 2);
    let open = json!({ "no": 1, "by": "ada" });
    assert_eq!(renewed, json!({ "at": 2, "open": open, "pushes": [] }));
}

#[test]
fn record_that_would_be_too_large_is_written_without_unknown_fields() {
    let partition = "p".parse().unwrap();
    let long = |bytes: usize| json!({ "at": 1, "pushes": [], "note": "x".repeat(bytes) });
    let row = crate::Versioned {
        version: crate::Version(1),
        value: long(limit::VALUE - 50).to_string().into(),
    };
    let mut read = record::decode::<Job>(&"job/p/x".into(), &row).unwrap();
    read.value.pushes = vec![Push { no: 1 }; 100];
    let write = read.rewrite(&partition, "x").unwrap();
    assert_eq!(write, record::put(&partition, "x", &read.value).unwrap());
}

/// JSON of a job with unknown fields of names that no version has, at every level.
fn newer() -> impl Strategy<Value = Value> {
    let push =
        (0..3_u32, any::<Option<u8>>()).prop_map(|(no, more)| with(json!({ "no": no }), more));
    let pushes = prop::collection::vec(push.clone(), 0..4);
    (
        0..3_u32,
        prop::option::of(push),
        pushes,
        any::<Option<u8>>(),
    )
        .prop_map(|(at, open, pushes, more)| {
            let mut job = with(json!({ "at": at, "pushes": pushes }), more);
            if let Some(open) = open {
                job["open"] = open;
            }
            job
        })
}

fn with(mut object: Value, more: Option<u8>) -> Value {
    if let Some(more) = more {
        object["more"] = json!({ "value": more });
    }
    object
}

proptest! {
    /// What an old version does not change is stored as it was, and what it writes is what it reads again.
    #[test]
    fn old_and_new_versions_take_turns(newer in newer(), no in 0..5_u32, insert in any::<bool>()) {
        let unchanged = rewritten(&newer, |_| {});
        prop_assert_eq!(&unchanged, &newer);
        let mut wanted = None;
        let changed = rewritten(&newer, |job| {
            if insert {
                job.pushes.insert(0, Push { no: no + 10 });
            } else {
                job.open = Some(Push { no: no + 10 });
            }
            wanted = Some(job.clone());
        });
        prop_assert_eq!(serde_json::from_value::<Job>(changed.clone()).ok(), wanted);
        prop_assert_eq!(changed.get("more"), newer.get("more"));
        if insert {
            prop_assert_eq!(&changed["pushes"].as_array().unwrap()[1..], &newer["pushes"].as_array().unwrap()[..]);
            prop_assert_eq!(changed.get("open"), newer.get("open"));
        } else {
            prop_assert_eq!(changed.get("pushes"), newer.get("pushes"));
        }
    }
}
