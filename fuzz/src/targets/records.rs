//! Records of the store, messages of the model and requests: JSON that another version, or damage, may have written.

use annealing_strategist::record::{Quarantined, Rollout, TargetRecord};
use control_plane_store::{
    Key, Record, Version, Versioned, Write,
    owner::Owner,
    record,
    records::{
        Approval, AssetRecord, ChangeRecord, Decisions, Floor, HeldField, Orphaned, Override,
        Owned, Pause, Stopped, Taken,
    },
};
use plugin_sdk::{FieldEdit, GroupHead, Pin, SourceChange};
use prodspec_gen::{Remarks, SealOverride};
use prodspec_model::{PartitionId, addons, incarnation::Header, rollout::RolloutPolicy};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    seeds,
    target::{Broken, Class, Effort, Target, law},
};

/// All types of records and messages at once: each JSON is tried as each of them.
#[derive(Debug)]
pub(crate) struct Records;

const WORDS: &[&str] = &[
    "null",
    "\"1970-01-01T00:00:00Z\"",
    "\"-009999-01-02T01:59:59Z\"",
    "{\"secs\":18446744073709551615,\"nanos\":999999999}",
    "{\"secs\":1,\"nanos\":4294967295}",
    "4294967295",
    "{\"unknown\":1}",
    "\"partition\"",
];

type Decode = fn(&[u8]) -> Result<Option<usize>, Broken>;

/// The decoders, each for one type.
const ALL: [Decode; 30] = [
    stored::<AssetRecord>,
    stored::<Floor>,
    stored::<Taken>,
    stored::<Orphaned>,
    stored::<Pin>,
    stored::<Owned>,
    stored::<Decisions>,
    stored::<ChangeRecord>,
    stored::<Stopped>,
    stored::<GroupHead>,
    stored::<HeldField>,
    stored::<Pause>,
    stored::<Approval>,
    stored::<Override>,
    stored::<Owner>,
    stored::<SealOverride>,
    stored::<Remarks>,
    stored::<Rollout>,
    stored::<TargetRecord>,
    stored::<Quarantined>,
    json::<FieldEdit>,
    json::<SourceChange>,
    json::<Header>,
    json::<RolloutPolicy>,
    json::<addons::DependsOn>,
    json::<addons::ImpactedDomains>,
    json::<addons::PhysicalCluster>,
    json::<addons::RolloutPolicyRef>,
    json::<addons::Turndown>,
    json::<addons::Owner>,
];

impl Target for Records {
    fn name(&self) -> &'static str {
        "records"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        seeds::records()
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let mut class = match serde_json::from_slice::<serde::de::IgnoredAny>(input) {
            Ok(_) => Class::accepted(&[]),
            Err(error) => return Ok(Class::refused(&error.to_string())),
        };
        for (nth, decode) in ALL.iter().enumerate() {
            if let Some(bytes) = decode(input)? {
                class = class.and(Class::accepted(&[nth, bytes]));
            }
        }
        Ok(class)
    }
}

const AGAIN: &str = "a record that is encoded and decoded again is the same";

/// The number of types that decode this JSON to something else than an empty object.
#[cfg(test)]
pub(crate) fn decoders(bytes: &[u8]) -> usize {
    let decodes =
        |decode: &&Decode| matches!(decode(bytes), Ok(Some(_))) && decode(bytes) != decode(b"{}");
    ALL.iter().filter(decodes).count()
}

/// Decodes a record as the store does. Returns its length, when it is written again.
///
/// # Errors
/// When it is another one then.
pub(crate) fn stored<R: Record + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
) -> Result<Option<usize>, Broken> {
    let row = |value: Vec<u8>| Versioned {
        version: Version(1),
        value: value.into(),
    };
    let key = Key::from("kind/partition/name");
    // Without keys that are there twice, which no version writes: a record that is kept unread loses them.
    let once = serde_json::from_slice::<serde_json::Value>(bytes);
    let once = once.and_then(|value| serde_json::to_vec(&value));
    let raw = record::decode::<R>(&key, &row(bytes.to_vec()));
    let (Ok(_), Ok(once)) = (raw, once) else {
        return Ok(None);
    };
    let Ok(decoded) = record::decode::<R>(&key, &row(once)) else {
        return Ok(None);
    };
    let partition = "partition".parse::<PartitionId>().map_err(|error| Broken {
        law: AGAIN,
        details: format!("{error}"),
    })?;
    let written = record::put(&partition, "name", &decoded.value);
    let Ok(Write::Put(_, written)) = written else {
        return law(false, AGAIN, || format!("{:?}: {written:?}", decoded.value)).map(|()| None);
    };
    let again = record::decode::<R>(&key, &row(written.to_vec()));
    let same = again
        .as_ref()
        .is_ok_and(|again| again.value == decoded.value);
    law(same, AGAIN, || {
        format!("{}: {:?}\nthen {again:?}", R::KIND, decoded.value)
    })?;
    Ok(Some(written.len()))
}

/// Decodes any other JSON.
///
/// # Errors
/// As [`stored`].
pub(crate) fn json<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
    bytes: &[u8],
) -> Result<Option<usize>, Broken> {
    let Ok(decoded) = serde_json::from_slice::<T>(bytes) else {
        return Ok(None);
    };
    let written = serde_json::to_vec(&decoded);
    let again = written
        .as_ref()
        .ok()
        .and_then(|written| serde_json::from_slice::<T>(written).ok());
    law(again.as_ref() == Some(&decoded), AGAIN, || {
        format!("{decoded:?}\nthen {again:?}")
    })?;
    Ok(written.ok().map(|written| written.len()))
}
