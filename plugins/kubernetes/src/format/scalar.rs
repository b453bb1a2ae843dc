//! The values of scalars and keys as `kubectl` gives them: those of YAML 1.1 in Go's YAML package, after its conversion
//! to JSON. They were taken from its behaviour, and are compared with it in `tests/kubectl.rs`.

use base64::{Engine, engine::general_purpose::STANDARD};
use plugin_sdk::document::Value;
use prodspec_gen::format::{Dialect, Scalar};

const CORE: &str = "tag:yaml.org,2002:";

/// The scalars, keys and merge keys of `kubectl`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kubectl;

impl Dialect for Kubectl {
    fn value(&self, scalar: &Scalar<'_>) -> Result<Value, String> {
        match resolve(scalar)? {
            Resolved::Null => Ok(Value::Null),
            Resolved::Bool(is) => Ok(Value::Bool(is)),
            Resolved::Int(int) => Ok(Value::Int(int)),
            Resolved::Float(float) => Ok(json_number(float)),
            Resolved::Text(text) => Ok(Value::String(text)),
        }
    }

    fn key(&self, scalar: &Scalar<'_>) -> Result<Box<str>, String> {
        let rest = scalar.rest.trim_start().strip_prefix(':');
        let is_joined = |rest: &str| rest.starts_with([',', '[', ']', '{', '}']);
        if scalar.plain && rest.is_some_and(is_joined) {
            return Err(
                "kubectl takes the colon as a part of the key; write a space after it".into(),
            );
        }
        match resolve(scalar)? {
            Resolved::Null => Err("a key must not be empty or null; quote it if it is text".into()),
            Resolved::Bool(is) => Ok(is.to_string().into()),
            Resolved::Int(int) => Ok(int.to_string().into()),
            Resolved::Float(_) => {
                Err("a key must not be a number with a fraction or an exponent; quote it".into())
            }
            Resolved::Text(text) => Ok(text),
        }
    }

    fn merges(&self, key: &Scalar<'_>) -> bool {
        let implied = key.plain && key.tag.is_none();
        let tagged = || key.tag.as_deref().and_then(|tag| tag.strip_prefix(CORE)) == Some("merge");
        key.text == "<<" && (implied || tagged())
    }
}

/// What a scalar is, before the conversion to JSON.
#[derive(Debug, Clone, PartialEq)]
enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
}

fn resolve(scalar: &Scalar<'_>) -> Result<Resolved, String> {
    let text = scalar.text;
    let Some(tag) = &scalar.tag else {
        if !scalar.plain {
            return Ok(Resolved::Text(text.into()));
        }
        return plain(text);
    };
    match tag.strip_prefix(CORE).unwrap_or_default() {
        "str" => Ok(Resolved::Text(text.into())),
        "binary" => binary(text),
        name @ ("int" | "float" | "bool" | "null") => match (name, plain(text)?) {
            ("float", Resolved::Int(int)) => Ok(Resolved::Float(int as f64)),
            ("int", fits @ Resolved::Int(_))
            | ("float", fits @ Resolved::Float(_))
            | ("bool", fits @ Resolved::Bool(_))
            | ("null", fits @ Resolved::Null) => Ok(fits),
            _ => Err(format!(
                "tagged !!{name}, but `{}` is not one; correct the tag or the value",
                shorten(text)
            )),
        },
        _ => Err("kubectl ignores this tag or does not know it; remove it".into()),
    }
}

/// The value of a scalar without quotes and tag.
fn plain(text: &str) -> Result<Resolved, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Resolved::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Resolved::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Resolved::Bool(false));
        }
        _ => {}
    }
    match text.as_bytes()[0] {
        b'0'..=b'9' | b'+' | b'-' => number(text, &text.replace('_', "")),
        b'.' if text.contains('_') && is_decimal(&text.replace('_', "")) => Err(format!(
            "`{}` is a number to some readers only; write it without underscores, or quote it",
            shorten(text)
        )),
        b'.' => number(text, text),
        _ => Ok(Resolved::Text(text.into())),
    }
}

/// The value of a scalar that may be a number. `written` is its text without underscores.
fn number(text: &str, written: &str) -> Result<Resolved, String> {
    let shown = shorten(text);
    let unsigned = written.strip_prefix(['-', '+']).unwrap_or(written);
    if matches!(
        unsigned,
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF"
    ) {
        return Err(format!(
            "{shown} is not a finite number; leave the field out, or quote it if it is text"
        ));
    }
    if let Some(int) = integer(written) {
        let fits = int.and_then(|int| i64::try_from(int).ok());
        return match fits {
            Some(int) => Ok(Resolved::Int(int)),
            None => Err(format!(
                "the integer {shown} does not fit 64 bits, and kubectl reads another number; quote it if it is text"
            )),
        };
    }
    if !is_decimal(written) {
        return Ok(Resolved::Text(text.into()));
    }
    let float: f64 = written.parse().unwrap_or(f64::INFINITY);
    let is_integer = unsigned.bytes().all(|byte| byte.is_ascii_digit());
    if !float.is_finite() || is_integer && float.abs() >= 2_f64.powi(63) {
        return Err(format!(
            "{shown} does not fit 64 bits; use a smaller number, or quote it if it is text"
        ));
    }
    Ok(Resolved::Float(float))
}

/// The integer that a text is to Go, with a prefix for its base: `0644`, `0o644`, `0x1f`, `0b11`. `None`: it is none, or
/// it has a base other than 10 and more than 64 bits. `Some(None)`: it has more than 63 bits.
fn integer(written: &str) -> Option<Option<i128>> {
    let (negative, digits) = match written.as_bytes().first()? {
        b'-' => (true, &written[1..]),
        b'+' => (false, &written[1..]),
        _ => (false, written),
    };
    let prefix = digits
        .get(..2)
        .filter(|_| digits.len() > 2)
        .unwrap_or_default();
    let (radix, digits) = match prefix {
        "0x" | "0X" => (16, &digits[2..]),
        "0o" | "0O" => (8, &digits[2..]),
        "0b" | "0B" => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let int = i128::from_str_radix(digits, radix).ok();
    let int = int.map(|int| if negative { -int } else { int });
    let fits = int.filter(|int| *int >= i128::from(i64::MIN) && *int <= i128::from(u64::MAX));
    match (fits, radix) {
        (Some(int), _) => Some(i64::try_from(int).ok().map(i128::from)),
        (None, 10) => Some(None),
        (None, _) => None,
    }
}

/// Whether a text is a decimal number with an optional fraction and exponent: `1`, `1.`, `.5`, `-1.5e-3`.
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let some_digits = |text: &str| !text.is_empty() && digits(text);
    let has_exponent = exponent
        .is_none_or(|exponent| some_digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)));
    let has_mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => some_digits(fraction),
        Some((whole, fraction)) => some_digits(whole) && digits(fraction),
        None => some_digits(mantissa),
    };
    has_mantissa && has_exponent
}

/// The text in a scalar with the tag `!!binary`.
fn binary(text: &str) -> Result<Resolved, String> {
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    let bytes = STANDARD.decode(text);
    let bytes = bytes.map_err(|error| format!("tagged !!binary, but is not base64: {error}"))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Resolved::Text(text.into())),
        Err(_) => Err(
            "tagged !!binary, but the bytes are not UTF-8 text, which JSON cannot hold; use `binaryData`, or a text in base64".into(),
        ),
    }
}

/// The number as JSON has it: Go writes a float without a fraction as an integer, and reads it back as one.
pub(super) fn json_number(float: f64) -> Value {
    let shortest = float.to_string();
    match shortest.parse::<i64>() {
        Ok(int) if float.abs() < 1e21 => Value::Int(int),
        _ if float == 0.0 => Value::Int(0),
        _ => Value::Float(float),
    }
}

/// The first 40 characters of a text, which may be very long.
fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
