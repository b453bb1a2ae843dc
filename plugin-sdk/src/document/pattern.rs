//! Patterns of field paths, such as `clusters.*.replicas`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::path::{FieldPath, PathError, Step};

/// A pattern of fields. It is written like a [`FieldPath`]; the step `*` stands for any key and any index. A pattern covers
/// the fields that it matches and all that is in them. The empty pattern covers every field.
///
/// ```
/// use plugin_sdk::document::{FieldPath, FieldPattern};
///
/// let pattern: FieldPattern = "clusters.*.replicas".parse()?;
/// assert!(pattern.covers(&"clusters[2].replicas".parse::<FieldPath>()?));
/// assert!(pattern.covers(&"clusters.eu.replicas.max".parse::<FieldPath>()?));
/// assert!(!pattern.covers(&"clusters[2]".parse::<FieldPath>()?));
/// # Ok::<(), plugin_sdk::document::PathError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldPattern(FieldPath);

/// The step of a pattern that stands for any step.
const ANY: &str = "*";

impl FieldPattern {
    /// Whether `path` is a field that the pattern matches, or a field within one.
    pub fn covers(&self, path: &FieldPath) -> bool {
        let (pattern, steps) = (self.0.steps(), path.steps());
        let fits = |(wanted, step): (&Step, &Step)| match wanted {
            Step::Key(key) if &**key == ANY => true,
            wanted => wanted == step,
        };
        pattern.len() <= steps.len() && pattern.iter().zip(steps).all(fits)
    }
}

impl FromStr for FieldPattern {
    type Err = PathError;

    fn from_str(pattern: &str) -> Result<Self, PathError> {
        pattern.parse().map(Self)
    }
}

impl fmt::Display for FieldPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r34_pattern_covers_what_it_matches_and_what_is_in_it() {
        let covers = |pattern: &str, path: &str| {
            let pattern: FieldPattern = pattern.parse().unwrap();
            pattern.covers(&path.parse().unwrap())
        };
        let covered = [
            ("", ""),
            ("", "a.b"),
            ("a", "a"),
            ("a", "a[0].b"),
            ("a.*.c", "a.b.c"),
            ("a.*.c", "a[7].c.d"),
            ("*.b", "a.b"),
        ];
        for (pattern, path) in covered {
            assert!(covers(pattern, path), "{pattern} {path}");
        }
        let others = [
            ("a", ""),
            ("a", "ab"),
            ("a.*.c", "a.b"),
            ("a.*.c", "a.b.d"),
            ("a.*", "a"),
            ("a[0]", "a[1]"),
            ("a[0]", r#"a["0"]"#),
        ];
        for (pattern, path) in others {
            assert!(!covers(pattern, path), "{pattern} {path}");
        }
        assert!("a..b".parse::<FieldPattern>().is_err());
    }
}
