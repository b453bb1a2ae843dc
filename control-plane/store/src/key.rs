//! Keys and ranges of keys: readable text, ordered by its bytes.

use std::{borrow::Borrow, fmt, sync::Arc};

/// The name of a value in the store: a readable path such as `head/shakespeare`, at most
/// [`limit::KEY`](crate::limit::KEY) bytes. Ordered by bytes. Cheap to clone.
///
/// ```
/// use plane_store::Key;
/// assert!(Key::from("head/a") < Key::from("head/b"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key as text.
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

/// The keys from `start` on, up to but without `end`.
///
/// ```
/// use plane_store::{Key, KeyRange};
/// let heads = KeyRange::prefix("head/");
/// assert!(heads.contains(&Key::from("head/shakespeare")));
/// assert!(!heads.contains(&Key::from("heads")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range.
    pub start: Key,
    /// The first key after the range; none when the range has no end.
    pub end: Option<Key>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self::from_key("")
    }

    /// The keys from `start` on.
    pub fn from_key(start: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            end: None,
        }
    }

    /// The keys from `start` on, without `end` and what follows it.
    pub fn between(start: impl Into<Key>, end: impl Into<Key>) -> Self {
        Self {
            start: start.into(),
            end: Some(end.into()),
        }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &str) -> Self {
        Self {
            start: prefix.into(),
            end: after_prefix(prefix),
        }
    }

    /// The part of this range that comes after `key`.
    #[must_use]
    pub fn after(&self, key: &Key) -> Self {
        Self {
            start: format!("{}\0", key.as_str()).into(),
            end: self.end.clone(),
        }
    }

    /// Whether `key` lies in the range.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.start && self.end.as_ref().is_none_or(|end| key < end)
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The first text after all that begin with `prefix`: its last character that has a successor, moved on by one.
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
        fn a_prefix_range_holds_what_begins_with_it(prefix in ".{0,4}", key in ".{0,6}", join: bool) {
            let key = if join { format!("{prefix}{key}") } else { key };
            let held = KeyRange::prefix(&prefix).contains(&Key::from(key.as_str()));
            prop_assert_eq!(held, key.starts_with(&prefix));
        }

        #[test]
        fn the_rest_begins_right_after_the_key(a in ".{0,4}", b in ".{0,4}") {
            let (a, b) = (Key::from(a), Key::from(b));
            prop_assert_eq!(KeyRange::all().after(&a).contains(&b), b > a);
        }
    }
}
