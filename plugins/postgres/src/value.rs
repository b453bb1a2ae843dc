//! Values of columns: the JSON that the server writes for one, as a tree, or the reason why it is refused.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiter::{Jiter, JiterError, Peek};
use plugin_sdk::document::{Name, Node, Value};

use crate::columns::{Kind, Leaf};

/// Reads the JSON text of one value.
///
/// # Errors
/// Why the value is refused, and what to do about it.
pub(crate) fn read(json: &str, kind: Kind, depth: usize) -> Result<Node, String> {
    let mut reader = Reader {
        json,
        tokens: Jiter::new(json.as_bytes()),
        kind,
        depth,
    };
    let peek = reader.tokens.peek().map_err(broken)?;
    let node = reader.value(peek, 0)?;
    reader.tokens.finish().map_err(broken)?;
    Ok(node)
}

/// A value without a position: tables have no lines.
pub(crate) fn node(value: Value) -> Node {
    Node {
        line: 0,
        column: 0,
        value,
    }
}

/// The name of a field, without a position.
pub(crate) fn name(text: &str) -> Name {
    Name {
        line: 0,
        column: 0,
        text: text.into(),
    }
}

fn broken(error: JiterError) -> String {
    format!(
        "is not valid JSON, at byte {}: {}; use jsonb, which is always valid",
        error.index, error.error_type
    )
}

struct Reader<'j> {
    json: &'j str,
    tokens: Jiter<'j>,
    kind: Kind,
    /// Maximum nesting, in levels.
    depth: usize,
}

impl Reader<'_> {
    fn value(&mut self, peek: Peek, depth: usize) -> Result<Node, String> {
        if depth > self.depth {
            return Err(format!(
                "is nested deeper than {} levels; flatten it",
                self.depth
            ));
        }
        let value = match peek {
            Peek::Null => self
                .tokens
                .known_null()
                .map(|()| Value::Null)
                .map_err(broken)?,
            Peek::True | Peek::False => self
                .tokens
                .known_bool(peek)
                .map(Value::Bool)
                .map_err(broken)?,
            Peek::String => {
                let leaf = self.kind.leaf;
                text(self.tokens.known_str().map_err(broken)?, leaf)?
            }
            Peek::Array => self.items(depth)?,
            Peek::Object => self.entries(depth)?,
            _ => self.number(peek)?,
        };
        Ok(node(value))
    }

    fn number(&mut self, peek: Peek) -> Result<Value, String> {
        let start = self.tokens.current_index();
        self.tokens.known_number_bytes(peek).map_err(broken)?;
        let written = &self.json[start..self.tokens.current_index()];
        match (exact(written), self.kind.leaf) {
            (Some(value), _) => Ok(value),
            (None, Leaf::Decimal) => Ok(Value::String(written.into())),
            (None, _) => Err(format!(
                "the number {} does not fit a 64-bit integer or float exactly; store it as a text",
                shorten(written)
            )),
        }
    }

    fn items(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        let mut next = self.tokens.known_array().map_err(broken)?;
        while let Some(peek) = next {
            items.push(self.value(peek, depth + 1)?);
            next = self.tokens.array_step().map_err(broken)?;
        }
        Ok(Value::Sequence(items))
    }

    fn entries(&mut self, depth: usize) -> Result<Value, String> {
        let mut entries: Vec<(Name, Node)> = Vec::new();
        let mut key = self.tokens.known_object().map_err(broken)?.map(name);
        while let Some(name_of) = key {
            let peek = self.tokens.peek().map_err(broken)?;
            let value = self.value(peek, depth + 1)?;
            entries.push((name_of, value));
            key = self.tokens.next_key().map_err(broken)?.map(name);
        }
        let mut names: Vec<&str> = entries.iter().map(|(name, _)| &*name.text).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(Value::Map(entries)),
            Some(pair) => Err(format!(
                "the key `{}` appears twice in one object; remove one",
                shorten(pair[0])
            )),
        }
    }
}

/// The value of a JSON string, by the type of the column.
fn text(text: &str, leaf: Leaf) -> Result<Value, String> {
    let refused = |what: &str| {
        Err(format!(
            "{} is {what}; leave the value out, or cast it to text",
            shorten(text)
        ))
    };
    let read: String = match leaf {
        Leaf::Text | Leaf::Json => text.into(),
        Leaf::Time => match text.parse::<jiff::Timestamp>() {
            Ok(time) => time.to_string(),
            Err(_) => return refused("no point in time from the year 1 to 9999"),
        },
        Leaf::Date => match text.parse::<jiff::civil::Date>() {
            Ok(date) => date.to_string(),
            Err(_) => return refused("no date from the year 1 to 9999"),
        },
        Leaf::Bytes => match bytes(text) {
            Some(bytes) => STANDARD.encode(bytes),
            None => return refused("not in the format `hex`"),
        },
        Leaf::Decimal | Leaf::Float | Leaf::Integer | Leaf::Bool => {
            return refused("no finite number");
        }
    };
    Ok(Value::String(read.into()))
}

/// The bytes that `\x` and hexadecimal digits stand for.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

/// The number that `written` is, if a 64-bit integer or a float denotes exactly the same decimal number. Of a float that
/// is the shortest decimal number that is read as it.
fn exact(written: &str) -> Option<Value> {
    if !written.contains(['.', 'e', 'E']) {
        if let Ok(int) = written.parse() {
            return Some(Value::Int(int));
        }
        if let Ok(uint) = written.parse() {
            return Some(Value::Uint(uint));
        }
    }
    let float: f64 = written.parse().ok()?;
    let same = float.is_finite() && decimal(written) == decimal(&format!("{float:e}"));
    same.then_some(Value::Float(float))
}

/// A decimal number in one form for all its spellings: whether it is negative, its digits without zeros at the ends, and
/// the power of ten of the last one.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let exponent: i64 = exponent.parse().ok()?;
    let shift = i64::try_from(zeros).ok()? - i64::try_from(fraction.len()).ok()?;
    match significant {
        "" => Some((false, String::new(), 0)),
        _ => Some((negative, significant.into(), exponent.checked_add(shift)?)),
    }
}

/// The first 40 characters of a text, which may be very long.
pub(crate) fn shorten(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
