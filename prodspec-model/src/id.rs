//! Identifiers. Each is checked when it is created, so that its users need not check it again.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The error for a text that is not a valid id. It shows the text (shortened and escaped) and the rule that it breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a valid {kind}: {why}")]
pub struct InvalidId {
    kind: &'static str,
    shown: String,
    why: String,
}

impl InvalidId {
    fn new(kind: &'static str, text: &str, why: impl Into<String>) -> Self {
        let shown: String = text
            .chars()
            .take(60)
            .flat_map(char::escape_default)
            .collect();
        Self {
            kind,
            shown,
            why: why.into(),
        }
    }
}

/// The name of an asset, unique in its partition.
///
/// 1 to 253 bytes: segments separated by `/`, each `[A-Za-z0-9][A-Za-z0-9._:-]*`. Never used as a file path.
///
/// ```
/// # use prodspec_model::AssetId;
/// assert!(AssetId::new("job/eu").is_ok());
/// assert!(AssetId::new("job/../eu").is_err());
/// assert!(AssetId::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssetId(Arc<str>);

impl AssetId {
    /// The maximum length of an asset id, in bytes.
    pub const MAX_LEN: usize = 253;

    /// Creates an id from `text` after checking it.
    ///
    /// # Errors
    /// When the text breaks a rule. The error names the rule and, for a wrong byte, its position.
    pub fn new(text: &str) -> Result<Self, InvalidId> {
        Self::validate(text)?;
        Ok(Self(text.into()))
    }

    /// Checks the rules of an asset id without keeping the text.
    ///
    /// # Errors
    /// As [`AssetId::new`].
    pub fn validate(text: &str) -> Result<(), InvalidId> {
        let fail = |why: String| Err(InvalidId::new("asset id", text, why));
        if text.is_empty() || text.len() > Self::MAX_LEN {
            return fail(format!(
                "must have 1 to {} bytes, has {}",
                Self::MAX_LEN,
                text.len()
            ));
        }
        let mut at_start = true;
        for (at, byte) in text.bytes().enumerate() {
            let fine = match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => true,
                b'.' | b'_' | b':' | b'-' | b'/' => !at_start,
                _ => false,
            };
            if !fine && at_start && matches!(byte, b'.' | b'_' | b':' | b'-' | b'/') {
                return fail(format!(
                    "a segment must start with a letter or digit (byte {at})"
                ));
            }
            if !fine {
                return fail(format!("byte {at} is not one of A-Z a-z 0-9 . _ : - /"));
            }
            at_start = byte == b'/';
        }
        if at_start {
            return fail("must not end with `/`".into());
        }
        Ok(())
    }

    /// Creates an id without a check, from text that was checked when it was written.
    pub(crate) fn trusted(text: &str) -> Self {
        debug_assert!(Self::validate(text).is_ok());
        Self(text.into())
    }

    /// The id as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JsonSchema for AssetId {
    fn schema_name() -> Cow<'static, str> {
        "AssetId".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::AssetId").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The id of an asset.",
            "maxLength": Self::MAX_LEN,
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9][A-Za-z0-9._:-]*)*$",
        })
    }
}

/// The name of a partition: the assets that are generated, sealed and enforced together, usually those of one service.
///
/// 1 to 63 bytes: `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(Arc<str>);

impl PartitionId {
    /// Creates an id from `text` after checking it.
    ///
    /// # Errors
    /// When the text breaks a rule. The error names the rule.
    pub fn new(text: &str) -> Result<Self, InvalidId> {
        let alnum = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = text.as_bytes();
        let fine = (1..=63).contains(&bytes.len())
            && bytes.iter().all(|&b| alnum(b) || b == b'-')
            && alnum(bytes[0])
            && alnum(bytes[bytes.len() - 1]);
        if !fine {
            let why = "must be 1 to 63 of a-z 0-9 -, starting and ending with a letter or digit";
            return Err(InvalidId::new("partition id", text, why));
        }
        Ok(Self(text.into()))
    }

    /// The id as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a message type: dotted and versioned, such as `shakespeare.v1.FrontendJob`.
///
/// 3 to 253 bytes; at least two segments, each `[A-Za-z][A-Za-z0-9_]*`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeName(Arc<str>);

impl TypeName {
    /// Creates a type name from `text` after checking it.
    ///
    /// # Errors
    /// When the text breaks a rule. The error names the rule.
    pub fn new(text: &str) -> Result<Self, InvalidId> {
        let segment = |s: &str| {
            s.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
                && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if text.len() > 253 || text.split('.').count() < 2 || !text.split('.').all(segment) {
            let why = "must be dotted segments like `team.v1.Thing`, each [A-Za-z][A-Za-z0-9_]*, at most 253 bytes";
            return Err(InvalidId::new("type name", text, why));
        }
        Ok(Self(text.into()))
    }

    /// The type name as a string slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The sequence number of an incarnation in its partition. The first incarnation has the number 1.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct IncarnationNo(pub u32);

impl IncarnationNo {
    /// The sequence number that follows this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for IncarnationNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The id of one incarnation of one partition, written `shakespeare@42`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncarnationId {
    /// The partition that the incarnation belongs to.
    pub partition: PartitionId,
    /// The sequence number of the incarnation in its partition.
    pub no: IncarnationNo,
}

impl IncarnationId {
    /// The id of incarnation `no` of `partition`.
    pub fn new(partition: PartitionId, no: IncarnationNo) -> Self {
        Self { partition, no }
    }
}

impl fmt::Display for IncarnationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.no)
    }
}

impl FromStr for IncarnationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let wrong = || InvalidId::new("incarnation id", text, "must look like `shakespeare@42`");
        let (partition, no) = text.split_once('@').ok_or_else(wrong)?;
        let no = no.parse().map_err(|_| wrong())?;
        Ok(Self {
            partition: PartitionId::new(partition)?,
            no: IncarnationNo(no),
        })
    }
}

macro_rules! text_id {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        text_serde!($name);
    };
}

macro_rules! text_serde {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

text_id!(AssetId);
text_id!(PartitionId);
text_id!(TypeName);
text_serde!(IncarnationId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asset_ids_are_checked() {
        for good in ["a", "job/eu", "a.b_c:d-e/0", &"x".repeat(253)] {
            assert!(AssetId::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(254);
        for bad in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "..",
            "a/..",
            "../b",
            "a/.b",
            "-a",
            "a b",
            "a\0",
            "ä",
            "a\u{202e}",
            &long,
        ] {
            assert!(AssetId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn error_shows_a_hostile_id_shortened_and_escaped() {
        let error = AssetId::new(&"\u{202e}".repeat(10_000))
            .unwrap_err()
            .to_string();
        assert!(error.len() < 1_000 && error.is_ascii(), "{error}");
    }

    #[test]
    fn incarnation_ids_round_trip() {
        let id: IncarnationId = "shakespeare@42".parse().unwrap();
        assert_eq!(id.to_string(), "shakespeare@42");
        assert!("shakespeare".parse::<IncarnationId>().is_err());
        assert!("Shakespeare@1".parse::<IncarnationId>().is_err());
    }

    #[test]
    fn type_names_are_checked() {
        assert!(TypeName::new("shakespeare.v1.FrontendJob").is_ok());
        for bad in ["Frontend", "a..b", ".a", "a.", "a.1b", "a b.c"] {
            assert!(TypeName::new(bad).is_err(), "{bad}");
        }
    }
}
