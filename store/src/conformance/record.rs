//! The law of records that program versions of different age share.

use std::fmt::Debug;

use prodspec_model::tolerant::{newer, newer_words};
use serde_json::Value;

use crate::{Record, Version, Versioned, Write, record};

/// Checks that an old and a new program version can take turns on a record of type `R`. For each object in `sample`, a
/// newer version adds a field to it; this version must read the record as it would without the field, and must write
/// the field back. `closed` holds the JSON pointers of objects that get no field: see [`newer`].
///
/// ```
/// use control_plane_store::{conformance, records::Stopped};
/// use plugin_sdk::{By, FencingToken};
///
/// let stopped = Stopped::new("two pushes at once", jiff::Timestamp::UNIX_EPOCH, FencingToken(1));
/// conformance::record(&stopped, &[]);
/// ```
///
/// # Panics
/// If a field is lost or misread. The message names the object.
pub fn record<R: Record + PartialEq + Debug>(sample: &R, closed: &[&str]) {
    let json = serde_json::to_value(sample).unwrap();
    let partition = "shop".parse().unwrap();
    for (at, newer) in newer(&json, closed) {
        let row = Versioned {
            version: Version(1),
            value: newer.to_string().into(),
        };
        let read = record::decode::<R>(&record::key(&partition, R::KIND, "x"), &row);
        let read = read.unwrap_or_else(|error| panic!("a field more in `{at}`: {error:?}"));
        assert_eq!(read.value, *sample, "a field more in `{at}` is misread");
        writes_back(&read, &newer, &format!("a field more in `{at}` is lost"));
    }
}

/// Checks that this version reads a record of type `R` in which a newer one wrote a word that this version does not know,
/// and writes the word back. Each value of an enum in `sample` is replaced by such a word in turn. `enums` holds the JSON
/// pointers of variants with data: see [`newer_words`]. What the word is read as is a matter of each field: the cautious
/// value.
///
/// ```
/// use control_plane_store::{conformance, records::{Pause, Scope}};
/// use plugin_sdk::By;
///
/// let pause = Pause { scope: Scope::Partition, by: By::new("ada", "storm"), at: Default::default(), until: None, resumed: None };
/// conformance::words(&pause, &["/scope"]);
/// ```
///
/// # Panics
/// If such a record cannot be read, or the word is lost. The message names the value.
pub fn words<R: Record + PartialEq + Debug>(sample: &R, enums: &[&str]) {
    let json = serde_json::to_value(sample).unwrap();
    let partition = "shop".parse().unwrap();
    for (at, newer) in newer_words(&json, enums) {
        let row = Versioned {
            version: Version(1),
            value: newer.to_string().into(),
        };
        let read = record::decode::<R>(&record::key(&partition, R::KIND, "x"), &row);
        let read = read.unwrap_or_else(|error| panic!("a newer word at `{at}`: {error:?}"));
        writes_back(&read, &newer, &format!("a newer word at `{at}` is lost"));
    }
}

/// Asserts that both ways to rewrite what was `read` write `newer`.
fn writes_back<R: Record>(read: &record::Stored<R>, newer: &Value, lost: &str) {
    let partition = "shop".parse().unwrap();
    let rewrites = record::Rewrites::default();
    rewrites.note(&partition, "x", read);
    for write in [
        read.rewrite(&partition, "x"),
        rewrites.put(&partition, "x", &read.value),
    ] {
        let Write::Put(_, bytes) = write.unwrap() else {
            panic!("a record is written by a put");
        };
        let written: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(written, *newer, "{lost}");
    }
}
