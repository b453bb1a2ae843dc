//! Planted faults of names, records, assets, snapshots, archives and calendars.

use std::{
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
};

use annealing_checks::calendar::{Calendar, Error};
use control_plane_store::Record;
use plugin_sdk::{Document, document::Node};
use prodspec_model::{IncarnationNo, Snapshot, TypeName};
use serde::{Deserialize, Serialize};
use serde_json::json as value;

use super::broken;
use crate::{
    seeds,
    target::Broken,
    targets::{
        assets::{Assets, Parts},
        calendars,
        names::{Short, name},
        records::{decoders, json, stored},
        rows::Rows,
        snapshots::{Snapshots, edited},
        tars::{as_listed, contained, packed},
    },
};

/// A name that is written as another one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
struct Shouted(String);

impl fmt::Display for Shouted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_uppercase())
    }
}

impl FromStr for Shouted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.len() < 1_500 {
            true => Ok(Self(text.into())),
            false => Err(text.into()),
        }
    }
}

#[test]
fn name_that_breaks_a_law_is_found() {
    let law = |text: &str, short| name::<Shouted>(text, |_| 1, short).map_err(|broken| broken.law);
    assert!(law("A", Short::Yes).is_ok());
    assert_eq!(
        law("a", Short::Yes),
        Err("a name that is written and parsed again is the same")
    );
    assert_eq!(
        law(&"A".repeat(2_000), Short::Yes),
        Err("a name that is refused is refused in JSON")
    );
}

/// A record that loses a field when it is written.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Losing {
    kept: u32,
    #[serde(default, skip_serializing)]
    lost: u32,
}

impl Record for Losing {
    const KIND: &'static str = "losing";
}

#[test]
fn record_that_is_another_one_when_read_again_is_found() {
    let bytes = br#"{"kept":1,"lost":2}"#;
    assert!(stored::<Losing>(br#"{"kept":1}"#).is_ok());
    assert!(stored::<Losing>(bytes).is_err());
    assert!(json::<Losing>(bytes).is_err());
}

#[test]
fn each_seed_of_records_is_decoded_by_a_type() {
    for seed in seeds::records().into_iter().filter(|seed| !seed.is_empty()) {
        assert!(decoders(&seed) > 0, "{}", String::from_utf8_lossy(&seed));
    }
}

#[test]
fn builder_that_breaks_a_law_is_found() {
    static BUILT: AtomicU32 = AtomicU32::new(0);
    let growing = Assets(|parts: &Parts| {
        let payload = value!(BUILT.fetch_add(1, Ordering::Relaxed));
        let builder = parts.build()?.edit();
        builder
            .payload_value(TypeName::new("test.v1.Job").unwrap(), &payload)?
            .build()
    });
    assert_eq!(
        broken(&growing).0,
        "the asset of a canonical form has this form"
    );
}

#[test]
fn loader_that_breaks_a_law_is_found() {
    static LOADED: AtomicU32 = AtomicU32::new(0);
    let growing = Snapshots(|root, packs| {
        let loaded = Snapshot::load(root, packs)?;
        let no = IncarnationNo(1_000 + LOADED.fetch_add(1, Ordering::Relaxed));
        Ok(edited(&loaded, no, 1))
    });
    assert_eq!(
        broken(&growing).0,
        "a snapshot that is saved and loaded again is the same"
    );
}

#[test]
fn incarnation_that_is_not_what_was_sealed_is_found() {
    let mut rows = Rows::new();
    rows.sealed[1] = Snapshot::empty();
    assert_eq!(
        broken(&rows).0,
        "an incarnation is read as it was sealed, or its damage is noticed"
    );
}

#[test]
fn documents_from_outside_of_an_archive_are_found() {
    let document = |file: &str, value| Document::new("x", file, 0, Node::from(value));
    let law = |file: &str| contained(&[document(file, value!({}))]).map_err(|broken| broken.law);
    assert!(law("configs/a.yaml").is_ok());
    for file in [
        "../configs/a.yaml",
        "configs/../a.yaml",
        "/configs/a.yaml",
        "other/a.yaml",
        "configs/a.txt",
    ] {
        assert_eq!(
            law(file),
            Err("documents are of files beneath the path"),
            "{file}"
        );
    }
    let many: Vec<Document> = (0..21)
        .map(|nth| document(&format!("configs/{nth}.yaml"), value!({})))
        .collect();
    assert_eq!(
        contained(&many).map_err(|broken| broken.law),
        Err("an archive has no more files than the limit")
    );
    let archive = packed(&[("configs/a.yaml", "a: 1\n"), ("configs/b.yaml", "->a.yaml")]);
    let listed = |file: &str, value| as_listed(&archive, &[document(file, value)]).is_ok();
    assert!(listed("configs/a.yaml", value!({"a": 1})));
    assert!(!listed("configs/a.yaml", value!({"a": 2})));
    assert!(!listed("configs/b.yaml", value!({"a": 1})));
}

#[test]
fn calendar_that_is_another_one_when_built_again_is_found() {
    let built = AtomicU32::new(0);
    let build = || {
        let days = ["Mon 09:00-17:00", "Tue 09:00-17:00"]
            [built.fetch_add(1, Ordering::Relaxed) as usize % 2];
        Calendar::builder("Europe/Berlin").weekly(days).build()
    };
    let found: Result<_, Broken> = calendars::class::<Error>(&build);
    assert!(found.is_err());
}
