//! The values of YAML scalars, by the core schema of YAML 1.2. A scalar is refused if its author probably meant another
//! value, or if its tag contradicts its value.

use granit_parser::{ScalarStyle, Tag};
use plugin_sdk::document::Value;

use super::number;

const FOREIGN: &str = "the tag is not of the core schema; remove it";

/// The value of a scalar.
///
/// # Errors
/// When its tag contradicts its value, or its value is not finite, does not fit 64 bits, or is ambiguous.
pub(crate) fn value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => plain(text),
            _ => Ok(Value::String(text.into())),
        };
    };
    let name = tag.core_suffix().ok_or(FOREIGN)?;
    if name == "str" {
        return Ok(Value::String(text.into()));
    }
    match (name, plain(text)?) {
        ("int", value @ (Value::Int(_) | Value::Uint(_)))
        | ("float", value @ Value::Float(_))
        | ("bool", value @ Value::Bool(_))
        | ("null", value @ Value::Null) => Ok(value),
        ("float", Value::Int(_) | Value::Uint(_)) => number::float(text),
        ("int" | "float" | "bool" | "null", _) => {
            let shown = number::shorten(text);
            Err(format!(
                "tagged !!{name}, but `{shown}` is not one; correct the tag or the value"
            ))
        }
        _ => Err(FOREIGN.to_owned()),
    }
}

/// Checks the tag of a map or a list: only its own core tag (`suffix`) is allowed.
///
/// # Errors
/// When it has another tag.
pub(crate) fn only_core(tag: Option<&Tag>, suffix: &str) -> Result<(), String> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(suffix) => Err(FOREIGN.to_owned()),
        _ => Ok(()),
    }
}

fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        let digits = text
            .strip_prefix(prefix)
            .filter(|digits| !digits.is_empty());
        if let Some(digits) = digits.filter(|digits| digits.chars().all(|c| c.is_digit(radix))) {
            return number::integer(digits, radix);
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        if unsigned.len() > 1 && unsigned.starts_with('0') {
            return Err(leading_zero(text));
        }
        return number::integer(text, 10);
    }
    if matches!(
        unsigned,
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN"
    ) {
        return Err(format!(
            "{text} is not a finite number; leave the field out, or quote it if it is text"
        ));
    }
    let numeric = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit())
        && unsigned
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if numeric && text.parse::<f64>().is_ok() {
        return number::float(text);
    }
    Ok(Value::String(text.into()))
}

/// The message for an integer with a leading zero. YAML 1.2 reads `0400` as 400, YAML 1.1 as 256; it is ambiguous.
fn leading_zero(text: &str) -> String {
    let shown = number::shorten(text);
    format!(
        "`{shown}` is decimal in YAML 1.2 and octal in YAML 1.1; write it without the leading zero or with `0o`, or quote it if it is text"
    )
}
