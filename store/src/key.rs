//! Keys and ranges of keys. A key is readable text, ordered by its bytes.

use std::{borrow::Borrow, fmt, sync::Arc};

/// The name of a value in the store: a readable path such as `head/shakespeare`, at most
/// [`limit::KEY`](crate::limit::KEY) bytes. Ordered by bytes. Cheap to clone.
///
/// ```
/// use control_plane_store::Key;
/// assert!(Key::from("head/a") < Key::from("head/b"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key as a readable text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Key {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_debug().fmt(f)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The keys from `start` (included) to `end` (excluded).
///
/// ```
/// use control_plane_store::{Key, KeyRange};
/// let heads = KeyRange::prefix("head/");
/// assert!(heads.contains(&Key::from("head/shakespeare")));
/// assert!(!heads.contains(&Key::from("heads")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range.
    pub start: Key,
    /// The first key after the range. `None` means that the range has no end.
    pub end: Option<Key>,
}

impl KeyRange {
    /// The range of all keys.
    pub fn all() -> Self {
        Self::from_key("")
    }

    /// The range of all keys from `start` on, `start` included.
    pub fn from_key(start: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            end: None,
        }
    }

    /// The range of keys from `start` (included) to `end` (excluded).
    pub fn between(start: impl Into<Key>, end: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            end: Some(end.into()),
        }
    }

    /// The range of keys that begin with `prefix`.
    pub fn prefix(prefix: &str) -> Self {
        Self {
            start: prefix.into(),
            end: after_prefix(prefix),
        }
    }

    /// The part of this range behind `key`; `key` itself is excluded.
    #[must_use]
    pub fn after(&self, key: &Key) -> Self {
        Self {
            start: format!("{}\0", key.as_str()).into(),
            end: self.end.clone(),
        }
    }

    /// Whether `key` is in the range.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Whether the range contains no possible key.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The first text behind all texts that begin with `prefix`: the last character that has a successor is incremented,
/// and the characters behind it are dropped. `None` if no character has a successor.
fn after_prefix(prefix: &str) -> Option<Key> {
    let mut rest = prefix;
    while let Some(last) = rest.chars().next_back() {
        rest = &rest[..rest.len() - last.len_utf8()];
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            return Some(format!("{rest}{next}").into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_prefix_range_without_successor_has_no_end() {
        let last = char::MAX.to_string();
        assert_eq!(KeyRange::prefix(&last).end, None);
        assert_eq!(KeyRange::prefix("").end, None);
    }

    proptest! {
        #[test]
        fn a_prefix_range_contains_exactly_the_keys_with_the_prefix(prefix in ".{0,4}", key in ".{0,6}", join: bool) {
            let key = if join { format!("{prefix}{key}") } else { key };
            let held = KeyRange::prefix(&prefix).contains(&Key::from(key.as_str()));
            prop_assert_eq!(held, key.starts_with(&prefix));
        }

        #[test]
        fn the_range_after_a_key_contains_exactly_the_greater_keys(a in ".{0,4}", b in ".{0,4}") {
            let (a, b) = (Key::from(a), Key::from(b));
            prop_assert_eq!(KeyRange::all().after(&a).contains(&b), b > a);
        }
    }
}
