//! A push that may be under way. Production cannot provide this information, so it is stored.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{FencingToken, Guard};
use prodspec_model::{AssetId, Digest, IncarnationNo, TypeName, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

use crate::record::Record;

/// A push that was admitted and whose outcome is not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenPush {
    /// Incarnation that is being pushed.
    pub incarnation: IncarnationNo,
    /// Digest of the change that was checked.
    pub change: Digest,
    /// Fencing token of the owner that admitted it.
    pub token: FencingToken,
    /// Time at which the push was admitted.
    pub at: Timestamp,
    /// Type whose plugin is called. The asset may have another type by now.
    pub type_name: TypeName,
    /// How the provider treats calls of earlier owners, as registered when the push was admitted.
    /// One that this program version does not know is advisory: the enforcer waits.
    #[serde(deserialize_with = "guard")]
    pub guard: Guard,
    /// Value of [`Owned::total`] at which the call has certainly ended. A takeover does not start this wait again.
    pub until: Duration,
    /// Consumers or providers on which the push relies.
    pub relies_on: ReliedOn,
}

fn guard<'de, D: Deserializer<'de>>(from: D) -> Result<Guard, D::Error> {
    tolerant::known_or(from, |_| Guard::Advisory)
}

/// How long the partition has been owned in total, by any process.
///
/// This is a clock that only advances while there is an owner and that no wall clock changes. It is written every few
/// seconds, so a new owner reads at most the time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Owned {
    /// Total time for which it was owned.
    pub total: Duration,
}

impl Record for Owned {
    const KIND: &'static str = "owned";
}

/// The assets on which an open push relies, in a form that fits into a record whatever their number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReliedOn {
    /// Ids of the assets, if they take at most [`ReliedOn::NAMED`] bytes together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<AssetId>,
    /// Otherwise the first 6 bytes of the BLAKE3 hash of each id, in hexadecimal. Another asset with the same hash
    /// counts as relied on too, which is safe.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    hashes: BTreeSet<String>,
}

impl ReliedOn {
    /// Maximum number of assets on which a push may rely.
    pub const MOST: usize = 40_000;
    /// Maximum size in bytes of ids that are stored as they are.
    pub const NAMED: usize = 64 << 10;

    /// Creates the set of the assets `ids`.
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

    /// The ids, if they are stored as they are. `None` means that only hashes are stored: ask [`ReliedOn::contains`]
    /// about each asset.
    pub fn named(&self) -> Option<&[AssetId]> {
        self.hashes.is_empty().then_some(&self.ids)
    }

    /// Whether the push relies on `id`. May be true for another asset if only hashes are stored.
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
