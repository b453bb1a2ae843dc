//! Canonical JSON: one text for one value, so that bytes and digests can be compared.
//!
//! Keys are sorted by their bytes, no key stands twice, there is no white space, integers are exact and floats are
//! finite. Depth is limited so that every text written can be read back.

mod ser;

use serde::Serialize;

/// The deepest nesting that canonical JSON may have.
pub const MAX_DEPTH: usize = 100;

/// Why a value has no canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two entries of one object have the same key.
    #[error("the key `{0}` stands twice in one object; remove one")]
    DuplicateKey(String),
    /// NaN or an infinity.
    #[error("{0} is not a JSON number; leave the field out or use a finite number")]
    NotFinite(String),
    /// An integer outside `i64::MIN ..= u64::MAX`.
    #[error("the integer {0} does not fit 64 bits; write it as a string")]
    TooLarge(String),
    /// A map key that is no string, number or unit variant.
    #[error("a map key must be a string, a number or a unit variant")]
    Key,
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// What the type's own `Serialize` said.
    #[error("{0}")]
    Custom(String),
}

/// Writes `value` as canonical JSON.
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
/// As [`to_bytes`]; `out` then holds a partial text.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(&mut ser::Canonical { out, depth: 0 })
}

#[cfg(test)]
mod tests;
