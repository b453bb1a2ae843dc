//! Manifests in JSON: any number of objects, one after the other, with the numbers that `kubectl` reads.

use plugin_sdk::{
    Problem,
    document::{Node, Value},
};
use prodspec_gen::format::{Format, Json, Limits};

use super::{scalar::json_number, shift};

/// Parses all objects of a JSON text.
///
/// # Errors
/// The first problem, with its position.
pub(super) fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
    let mut roots = Vec::new();
    let mut from = Place::default();
    loop {
        let rest = &text[from.offset..];
        from.pass(&rest[..rest.len() - rest.trim_start().len()]);
        let rest = &text[from.offset..];
        if rest.is_empty() {
            return Ok(roots);
        }
        let value = &rest[..length(rest)];
        let root = Json::parse(value, limits).map_err(|mut problem| {
            problem.column += if problem.line == 1 { from.columns } else { 0 };
            problem.line += from.lines;
            let message = problem.message;
            problem.message = format!("begins with `{{` and is read as JSON: {message}");
            problem
        })?;
        for mut root in root {
            shift(&mut root, from.lines, from.columns);
            as_kubectl(&mut root)?;
            roots.push(root);
        }
        from.pass(value);
    }
}

/// How much of a text comes before a value.
#[derive(Debug, Default)]
struct Place {
    offset: usize,
    lines: u32,
    /// Characters in the line of the value.
    columns: u32,
}

impl Place {
    fn pass(&mut self, text: &str) {
        self.offset += text.len();
        for character in text.chars() {
            if character == '\n' {
                self.lines += 1;
                self.columns = 0;
            } else {
                self.columns += 1;
            }
        }
    }
}

/// The length of the first value of a text. All of it if the value is not JSON: the parser says what is wrong.
fn length(text: &str) -> usize {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => text.len(),
    }
}

/// Turns the numbers of a tree into those that `kubectl` reads.
fn as_kubectl(node: &mut Node) -> Result<(), Problem> {
    match &mut node.value {
        Value::Float(float) => node.value = json_number(*float),
        Value::Uint(int) => {
            let message = format!(
                "the integer {int} does not fit 64 bits with a sign, and kubectl reads another number; quote it if it is text"
            );
            return Err(Problem::new(message).at("", node.line, node.column));
        }
        Value::Sequence(items) => items.iter_mut().try_for_each(as_kubectl)?,
        Value::Map(entries) => {
            let mut values = entries.iter_mut().map(|(_, value)| value);
            values.try_for_each(as_kubectl)?;
        }
        _ => {}
    }
    Ok(())
}
