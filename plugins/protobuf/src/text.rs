//! The text format, which people write.

use std::marker::PhantomData;

use miette::Diagnostic;
use plugin_sdk::{Problem, document::Node};
use prodspec_gen::format::{Format, Limits};
use prost_reflect::{DynamicMessage, text_format::ParseError};

use crate::schema::{Schema, tree};

/// Files in the [text format](https://protobuf.dev/reference/protobuf/textformat-spec/), each of which is one message of
/// the schema. Documents are the trees of the JSON mapping: `is_on: true` is the field `isOn`, and 64-bit integers are
/// strings. A file with comments only is no document.
///
/// Sources that require an end marker ask for the last line `# end`.
#[derive(Debug)]
pub struct Text<S>(PhantomData<fn() -> S>);

impl<S: Schema> Format for Text<S> {
    const NAME: &'static str = "protobuf text";
    const EXTENSIONS: &'static [&'static str] = &["textproto", "txtpb", "textpb", "pbtxt"];
    const END: Option<&'static str> = Some("# end");

    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
        if shape(text, limits)? == Shape::Blank {
            return Ok(Vec::new());
        }
        let message = DynamicMessage::parse_text_format(S::message()?, text);
        let message = message.map_err(|error| problem(&error, text))?;
        Ok(vec![tree(&message)?])
    }
}

/// What a text looks like before it is parsed.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// There are only comments and spaces.
    Blank,
    /// There are tokens, not nested too deep.
    Fields,
}

/// Looks at the brackets of a text, because the parser has no limit of its own for their depth.
///
/// # Errors
/// When they are nested deeper than the limit.
fn shape(text: &str, limits: &Limits) -> Result<Shape, Problem> {
    let mut shape = Shape::Blank;
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'#' => drop(bytes.find(|(_, byte)| *byte == b'\n')),
            byte if byte.is_ascii_whitespace() => {}
            quote @ (b'"' | b'\'') => {
                shape = Shape::Fields;
                while let Some((_, byte)) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        byte if byte == quote => break,
                        _ => {}
                    }
                }
            }
            byte => {
                shape = Shape::Fields;
                match byte {
                    b'{' | b'<' | b'[' => depth += 1,
                    b'}' | b'>' | b']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                if depth > limits.depth {
                    let message = format!("nested deeper than {} levels; flatten it", limits.depth);
                    return Err(place(Problem::new(message), text, at));
                }
            }
        }
    }
    Ok(shape)
}

/// The problem for an error of the parser, with its position; at the end of the text if that came too early.
fn problem(error: &ParseError, text: &str) -> Problem {
    let label = error.labels().and_then(|mut labels| labels.next());
    let at = label.map_or(text.len(), |label| label.offset());
    place(Problem::new(error), text, at)
}

/// Sets the line and column of a byte.
fn place(problem: Problem, text: &str, at: usize) -> Problem {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].chars().count() + 1;
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    problem.at("", number(line), number(column))
}
