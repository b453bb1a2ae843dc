//! Named exceptions from a policy, each with an end.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::AssetId;

/// Assets that a policy does not hold back for a while, with the person who decided that, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Exception {
    /// The assets that the policy does not hold back.
    pub assets: Vec<AssetId>,
    /// The name of the person who decided it.
    pub by: String,
    /// The reason, such as the number of an incident.
    pub why: String,
    /// Time from which the exception counts.
    #[schemars(with = "String")]
    pub from: Timestamp,
    /// Time from which the exception does not count any more, at most 7 days after `from`.
    #[schemars(with = "String")]
    pub until: Timestamp,
}

impl Exception {
    /// Maximum length of an exception: 7 days.
    pub const LONGEST: jiff::SignedDuration = jiff::SignedDuration::from_hours(7 * 24);

    /// Whether the exception holds for an asset at a time.
    pub fn holds(&self, asset: &AssetId, at: Timestamp) -> bool {
        self.from <= at && at < self.until && self.assets.contains(asset)
    }

    /// Checks that the exception names assets, a person and a reason, and ends in time.
    ///
    /// # Errors
    /// The field that is wrong, and the reason.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let length = self.until.duration_since(self.from);
        if self.assets.is_empty() {
            Err((
                "assets",
                "names no asset: list those that are let through".to_owned(),
            ))
        } else if self.by.trim().is_empty() {
            Err((
                "by",
                "needs the name of the person who decided it".to_owned(),
            ))
        } else if self.why.trim().is_empty() {
            Err(("why", "needs a reason".to_owned()))
        } else if !length.is_positive() || length > Self::LONGEST {
            Err((
                "until",
                "needs an end within 7 days after `from`".to_owned(),
            ))
        } else {
            Ok(())
        }
    }
}
