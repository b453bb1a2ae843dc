//! The law of records that program versions of different age share.

use std::fmt::Debug;

use prodspec_model::tolerant::newer;
use serde_json::Value;

use crate::{Record, Version, Versioned, Write, record};

/// Checks that an old and a new program version can take turns on a record of type `R`. For each object in `sample`, a
/// newer version adds a field to it; this version must read the record as it would without the field, and must write
/// the field back. `closed` holds the JSON pointers of objects that get no field: see [`newer`].
///
/// ```
/// use control_plane_store::{conformance, records::{By, Stopped}};
/// use plugin_sdk::FencingToken;
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
        let rewrites = record::Rewrites::default();
        rewrites.note(&partition, "x", &read);
        for write in [
            read.rewrite(&partition, "x"),
            rewrites.put(&partition, "x", &read.value),
        ] {
            let Write::Put(_, bytes) = write.unwrap() else {
                panic!("a record is written by a put");
            };
            let written: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(written, newer, "a field more in `{at}` is lost");
        }
    }
}
