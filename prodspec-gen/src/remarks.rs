//! The warnings of external validators about the content in force. They are kept with the seal, because the validators
//! are asked about changed content only, and a restart changes nothing.

use control_plane_store::Record;
use plugin_sdk::{Problem, Problems};
use prodspec_model::Digest;
use serde::{Deserialize, Serialize};

/// Maximum size of the warnings that are kept, in bytes of JSON.
const LIMIT: usize = 64 << 10;

/// The warnings of external validators about the content that was sealed last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remarks {
    /// Digest of the assets that the validators were asked about.
    pub content: Digest,
    /// What the validators said about them.
    pub warnings: Problems,
}

impl Record for Remarks {
    const KIND: &'static str = "remarks";
}

impl Remarks {
    /// The same remarks as warnings, of whatever severity a newer program version recorded them: they were no obstacle to
    /// the seal.
    pub(crate) fn only_warnings(self) -> Self {
        let all = self.warnings.iter().cloned();
        Self {
            content: self.content,
            warnings: all.map(Problem::warning).collect(),
        }
    }

    /// The same remarks with at most 64 KiB of warnings. If some are left out, the last one says how many.
    pub(crate) fn bounded(&self) -> Self {
        let mut bytes = 0;
        let fits = |problem: &&Problem| {
            bytes += serde_json::to_vec(problem).map_or(LIMIT, |json| json.len());
            bytes <= LIMIT
        };
        let mut warnings: Problems = self.warnings.iter().take_while(fits).cloned().collect();
        let more = self.warnings.len() - warnings.len();
        if more > 0 {
            let message = format!("{more} more warnings of external validators were not kept");
            warnings.push(Problem::new(message).by("store").warning());
        }
        Self {
            content: self.content,
            warnings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_kept_up_to_their_limit_and_the_rest_is_counted() {
        let warning = |len: usize| Problem::new("x".repeat(len)).warning();
        let remarks = |warnings| Remarks {
            content: Digest::of(b"content"),
            warnings,
        };
        let small = remarks([10, 20].map(warning).into_iter().collect());
        assert_eq!(small.bounded(), small);
        let large = remarks([10, LIMIT, 20].map(warning).into_iter().collect()).bounded();
        let said = large.warnings.to_string();
        assert!(said.contains("2 more warnings"), "{said}");
        assert_eq!(large.warnings.len(), 2);
    }
}
