//! The answer to how much of a shared capacity its consumers use.

use plugin_sdk::Now;
use prodspec_model::AssetId;

/// The sum over all consumers of a capacity, as far as it is known.
#[derive(Debug)]
pub struct Sum<H> {
    /// Total number of units that the known consumers use or claim.
    pub used: u128,
    /// Time of the oldest diff that the sum rests on.
    pub oldest: Option<Now>,
    /// Consumers without a finding from `not_before` or later. Empty only if there is none.
    pub unknown: Vec<H>,
    /// Consumers that enforcement does not know. Empty only if there is none.
    pub strangers: Vec<AssetId>,
    /// Consumers whose next push lowers their level, each with its present level.
    pub shrinking: Vec<(H, u64)>,
    /// Consumers that have a level and whose next push is known, each with its present level.
    pub leaving: Vec<(H, u64)>,
    /// Consumers with a level above zero, the largest level first.
    pub using: Vec<(H, u64)>,
}

impl<H> Default for Sum<H> {
    fn default() -> Self {
        Self {
            used: 0,
            oldest: None,
            unknown: Vec::new(),
            strangers: Vec::new(),
            shrinking: Vec::new(),
            leaving: Vec::new(),
            using: Vec::new(),
        }
    }
}
