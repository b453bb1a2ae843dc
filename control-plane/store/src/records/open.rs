//! A push that may be under way: the only thing remembered that production cannot tell.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{FencingToken, Guard};
use prodspec_model::{AssetId, Digest, IncarnationNo, TypeName};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// A push that may be under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPush {
    /// What is being pushed.
    pub incarnation: IncarnationNo,
    /// The change that was checked.
    pub change: Digest,
    /// Under which ownership.
    pub token: FencingToken,
    /// When it was admitted.
    pub at: Timestamp,
    /// The type whose plugin is called. The asset may have got another type since.
    pub type_name: TypeName,
    /// How well the provider keeps calls of old owners out, as registered when the push was admitted.
    pub guard: Guard,
    /// When the call is over for certain, as a value of [`Owned::total`]: takeovers do not start the wait anew.
    pub until: Duration,
    /// The consumers or providers that it relies on.
    pub relies_on: ReliedOn,
}

/// For how long the partition has been owned, in all, by whichever process.
///
/// A clock that goes on only while there is an owner and that no wall clock moves. It is written every few seconds, so
/// what a new owner reads is at most what has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owned {
    /// The time owned, in all.
    pub total: Duration,
}

impl Record for Owned {
    const KIND: &'static str = "owned";
}

/// The assets that an open push relies on, in a form that fits into a record however many they are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReliedOn {
    /// Their ids, while these take at most [`ReliedOn::NAMED`] bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<AssetId>,
    /// Else the first 6 bytes of the BLAKE3 hash of each id, in hexadecimal. An asset that happens to have the same
    /// ones is relied on too, which is safe.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    hashes: BTreeSet<String>,
}

impl ReliedOn {
    /// The most assets that a push may rely on.
    pub const MOST: usize = 40_000;
    /// How many bytes of ids are kept as they are.
    pub const NAMED: usize = 64 << 10;

    /// These assets.
    pub fn new(ids: impl IntoIterator<Item = AssetId>) -> Self {
        let ids: Vec<AssetId> = ids.into_iter().collect();
        if ids.iter().map(|id| id.as_str().len()).sum::<usize>() <= Self::NAMED {
            return Self {
                ids,
                hashes: BTreeSet::new(),
            };
        }
        Self {
            ids: Vec::new(),
            hashes: ids.iter().map(|id| hash(id.as_str())).collect(),
        }
    }

    /// Their ids, if they are few enough to be named. `None`: ask [`ReliedOn::contains`] about every asset.
    pub fn named(&self) -> Option<&[AssetId]> {
        self.hashes.is_empty().then_some(&self.ids)
    }

    /// Whether the push relies on `id`.
    pub fn contains(&self, id: &str) -> bool {
        match self.named() {
            Some(ids) => ids.iter().any(|named| named.as_str() == id),
            None => self.hashes.contains(&hash(id)),
        }
    }
}

fn hash(id: &str) -> String {
    let mut text = Digest::of(id.as_bytes()).to_string();
    text.truncate(12);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limit, record};

    fn ids(count: usize, length: usize) -> Vec<AssetId> {
        let id = |n: usize| AssetId::new(&format!("{n:0>length$}")).unwrap();
        (0..count).map(id).collect()
    }

    #[test]
    fn r13_relied_on_assets_fit_into_a_record_and_are_found_again() {
        for (count, length) in [(3, 20), (6_000, 253), (ReliedOn::MOST, 253)] {
            let all = ids(count, length);
            let relied = ReliedOn::new(all.clone());
            let json = serde_json::to_vec(&relied).unwrap();
            assert!(json.len() < limit::VALUE * 2 / 3, "{}", json.len());
            let read: ReliedOn = serde_json::from_slice(&json).unwrap();
            assert_eq!(read, relied);
            let found = all.iter().step_by(997).all(|id| read.contains(id.as_str()));
            assert!(found && !read.contains("another"));
            assert_eq!(read.named().is_some(), count == 3);
        }
    }

    #[test]
    fn owned_is_stored_under_its_partition() {
        let owned = Owned {
            total: Duration::from_millis(1500),
        };
        let partition = "shop".parse().unwrap();
        let write = record::put(&partition, "", &owned).unwrap();
        assert!(format!("{write:?}").contains("owned/shop"), "{write:?}");
    }
}
