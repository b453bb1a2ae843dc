//! Claims: what a push takes of limits that several assets share. Checks declare them, enforcement counts them.

use std::{sync::Arc, time::Duration};

use prodspec_model::AssetId;
use serde::{Deserialize, Deserializer, Serialize};

/// The name under which claims are counted. Claims with equal keys compete with each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub Arc<str>);

impl Key {
    /// The key under which the enforcer counts the consumers' use of `provider` in `unit`. See
    /// [`PartitionView::usage`](crate::PartitionView::usage).
    pub fn capacity(provider: &AssetId, unit: &str) -> Self {
        Self(format!("capacity of {provider} in {unit}").into())
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Self(key.into())
    }
}

/// A resource that a push takes from its admission on. A push is admitted only if all of its claims are free.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Claim {
    /// One holder at a time. Held until the outcome of the push is known.
    Exclusive(Key),
    /// At most this number of holders. Each holds its claim until its asset settles, fails for good or is pinned anew.
    AtMost(Key, u32),
    /// A share of a limited amount. Held until the outcome of the push is known. Under a [`Key::capacity`] key, the
    /// last observed use of the provider's other consumers counts too.
    Amount {
        /// The key under which the amount is counted.
        key: Key,
        /// Maximum number of units that the asset uses while the push runs, including the units it used before.
        units: u64,
        /// Maximum total number of units under this key.
        limit: u64,
    },
    /// Capacity that a push takes away. It is free while all assets that are counted under the key, this one with its new
    /// capacity, serve at least the floor: each with its last observed capacity or, while a push of it is under way, with the
    /// smaller end of that. See [`PartitionView::served`](crate::PartitionView::served).
    Keep {
        /// The key under which the capacity is counted.
        key: Key,
        /// The capacity of the asset after the push.
        keeps: u64,
        /// The floor: minimum total capacity under this key.
        at_least: u64,
    },
    /// One push of a limited rate. Spent at admission and never given back.
    Rate(Key, Quota),
}

/// Reads the claims of a record. One of a kind that this program version does not know is an exclusive one under a key that
/// nothing else claims. For `deserialize_with` on fields.
///
/// # Errors
/// When the input is no list.
pub fn claims<'de, D: Deserializer<'de>, L: FromIterator<Claim>>(from: D) -> Result<L, D::Error> {
    let all = Vec::<serde_json::Value>::deserialize(from)?.into_iter();
    let read = |value: serde_json::Value| {
        let claim = Claim::deserialize(&value);
        claim.unwrap_or_else(|_| Claim::Exclusive(Key::from(&*value.to_string())))
    };
    Ok(all.map(read).collect())
}

impl Claim {
    /// The key under which the claim is counted.
    pub fn key(&self) -> &Key {
        match self {
            Self::Exclusive(key)
            | Self::AtMost(key, _)
            | Self::Amount { key, .. }
            | Self::Keep { key, .. }
            | Self::Rate(key, _) => key,
        }
    }

    /// Whether a push holds the claim, and gives it back. A rate is spent at admission; a floor is counted by the capacity that
    /// production has.
    pub fn is_held(&self) -> bool {
        !matches!(self, Self::Rate(..) | Self::Keep { .. })
    }
}

/// A rate limit: `burst` pushes at once, then one more every `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quota {
    /// Maximum number of pushes at once, after a time without pushes.
    pub burst: u32,
    /// Time until one more push is allowed.
    pub every: Duration,
}

impl Quota {
    /// A limit of `burst` pushes at once, then one more every `every`.
    pub const fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every }
    }
}
