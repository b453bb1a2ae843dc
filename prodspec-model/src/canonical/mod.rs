//! Canonical JSON: exactly one text for each value, so that bytes and digests can be compared.
//!
//! Keys are sorted by their bytes and unique, there is no white space, integers are exact and floats are finite. The
//! depth is limited so that every text written can be read back.

mod ser;

use serde::Serialize;

/// The maximum nesting of canonical JSON, in levels.
pub const MAX_DEPTH: usize = 100;

/// The reasons for which a value has no canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two entries of one object have the same key.
    #[error("the key `{0}` appears twice in one object; remove one")]
    DuplicateKey(String),
    /// A float is NaN or infinite.
    #[error("{0} is not a JSON number; leave the field out or use a finite number")]
    NotFinite(String),
    /// An integer is outside `i64::MIN ..= u64::MAX`.
    #[error("the integer {0} does not fit 64 bits; write it as a string")]
    TooLarge(String),
    /// A map key is not a string, number or unit variant.
    #[error("a map key must be a string, a number or a unit variant")]
    Key,
    /// The value is nested deeper than [`MAX_DEPTH`] levels.
    #[error("nested deeper than {MAX_DEPTH} levels; flatten it")]
    TooDeep,
    /// The type's own `Serialize` implementation failed with this message.
    #[error("{0}")]
    Custom(String),
}

/// Encodes `value` as canonical JSON.
///
/// # Errors
/// When the value has no canonical form: see [`Error`].
///
/// ```
/// let json = prodspec_model::canonical::to_bytes(&serde_json::json!({"b": 1, "a": [true, null]}))?;
/// assert_eq!(json, br#"{"a":[true,null],"b":1}"#);
/// assert!(prodspec_model::canonical::to_bytes(&f64::NAN).is_err());
/// # Ok::<(), prodspec_model::canonical::Error>(())
/// ```
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out)?;
    Ok(out)
}

/// Appends `value` as canonical JSON to `out`.
///
/// # Errors
/// As [`to_bytes`]. After an error, `out` ends with an incomplete text.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(&mut ser::Canonical { out, depth: 0 })
}

#[cfg(test)]
mod tests;
