//! Numbers, for all formats: exact 64-bit integers and finite floats. Anything else is an error.

use plugin_sdk::document::Value;

/// Parses the integer `digits` (with sign, without prefix) to the base `radix`.
///
/// # Errors
/// When it does not fit 64 bits.
pub(super) fn integer(digits: &str, radix: u32) -> Result<Value, String> {
    if let Ok(int) = i64::from_str_radix(digits, radix) {
        return Ok(Value::Int(int));
    }
    u64::from_str_radix(digits, radix)
        .map(Value::Uint)
        .map_err(|_| {
            format!(
                "the integer {} does not fit 64 bits; write it as a string",
                shorten(digits)
            )
        })
}

/// Parses the finite float `text`.
///
/// # Errors
/// When it is not a number or not finite.
pub(super) fn float(text: &str) -> Result<Value, String> {
    match text.parse::<f64>() {
        Ok(float) if float.is_finite() => Ok(Value::Float(float)),
        _ => Err(format!(
            "{} is not a finite 64-bit number; use a finite number, or leave the field out",
            shorten(text)
        )),
    }
}

/// The first 40 characters of a text, which may be hostile and very long.
pub(super) fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
