//! Lengths of time in policies, as people write them: `60s`, `2m`, `1h 30m`, `7d`. A day has 24 hours.

use std::time::Duration;

use jiff::{Span, SpanRelativeTo, fmt::friendly::SpanPrinter};
use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// Reads a length of time.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let read: Option<Span> = text.parse().ok();
    let length = read.and_then(|it| it.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let length = length.and_then(|it| it.try_into().ok());
    length.ok_or_else(|| format!("`{text}` is no length of time: write it as 60s, 2m or 1h 30m"))
}

/// Writes a length of time.
pub(super) fn text(length: &Duration) -> String {
    SpanPrinter::new().unsigned_duration_to_string(length)
}

pub(super) fn serialize<S: Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&text(length))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// The same for a length that may be left out.
pub(super) mod option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(in crate::policy) fn serialize<S: Serializer>(
        length: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match length {
            Some(length) => super::serialize(length, to),
            None => to.serialize_none(),
        }
    }

    pub(in crate::policy) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        let length = text.map(|text| super::parse(&text));
        length.transpose().map_err(D::Error::custom)
    }
}
