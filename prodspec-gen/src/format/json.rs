//! JSON as defined by RFC 8259, parsed with `jiter`, which reports the position of each token.

use jiter::{Jiter, JiterError, Peek};
use plugin_sdk::{
    Problem,
    document::{Node, Value},
};

use super::{Format, Limits, Lines, check_root, check_unique, number, template, too_deep};

/// The JSON format. Each file is one document.
#[derive(Debug, Clone, Copy)]
pub struct Json;

impl Format for Json {
    const NAME: &'static str = "JSON";
    const EXTENSIONS: &'static [&'static str] = &["json"];
    const END: Option<&'static str> = None;

    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
        let mut builder = Builder {
            lines: Lines::of(text),
            text,
            tokens: Jiter::new(text.as_bytes()),
            limits,
        };
        let root = match builder.tokens.peek() {
            Ok(peek) => builder.node(peek, 1)?,
            Err(error) => return Err(builder.wrong(&error)),
        };
        if let Err(error) = builder.tokens.finish() {
            return Err(builder.wrong(&error));
        }
        Ok(vec![check_root(root)?])
    }
}

struct Builder<'t> {
    lines: Lines<'t>,
    text: &'t str,
    tokens: Jiter<'t>,
    limits: &'t Limits,
}

impl Builder<'_> {
    fn wrong(&self, error: &JiterError) -> Problem {
        let problem = self.lines.wrong(&error.error_type, error.index);
        template::explain(self.text, self.limits, problem, true)
    }

    fn node(&mut self, peek: Peek, depth: usize) -> Result<Node, Problem> {
        let offset = self.tokens.current_index();
        if depth > self.limits.depth {
            let (line, column) = self.lines.at(offset);
            return Err(too_deep(self.limits, line, column));
        }
        let value = match peek {
            Peek::Null => self.tokens.known_null().map(|()| Value::Null),
            Peek::True | Peek::False => self.tokens.known_bool(peek).map(Value::Bool),
            Peek::String => self
                .tokens
                .known_str()
                .map(|text| Value::String(text.into())),
            Peek::Array => return self.items(offset, depth),
            Peek::Object => return self.entries(offset, depth),
            _ => return self.number(peek, offset),
        };
        match value {
            Ok(value) => Ok(self.lines.node(value, offset)),
            Err(error) => Err(self.wrong(&error)),
        }
    }

    fn number(&mut self, peek: Peek, offset: usize) -> Result<Node, Problem> {
        if let Err(error) = self.tokens.known_number_bytes(peek) {
            return Err(self.wrong(&error));
        }
        let written = &self.text[offset..self.tokens.current_index()];
        let value = if written.contains(['.', 'e', 'E']) {
            number::float(written)
        } else {
            number::integer(written, 10)
        };
        match value {
            Ok(value) => Ok(self.lines.node(value, offset)),
            Err(why) => Err(self.lines.wrong(why, offset)),
        }
    }

    fn items(&mut self, offset: usize, depth: usize) -> Result<Node, Problem> {
        let mut items = Vec::new();
        let mut next = self.tokens.known_array();
        loop {
            match next {
                Ok(Some(peek)) => items.push(self.node(peek, depth + 1)?),
                Ok(None) => return Ok(self.lines.node(Value::Sequence(items), offset)),
                Err(error) => return Err(self.wrong(&error)),
            }
            next = self.tokens.array_step();
        }
    }

    fn entries(&mut self, offset: usize, depth: usize) -> Result<Node, Problem> {
        let mut entries = Vec::new();
        let mut before = self.tokens.current_index();
        let mut key = self.tokens.known_object().map(|key| key.map(Box::from));
        loop {
            let text: Box<str> = match key {
                Ok(Some(text)) => text,
                Ok(None) => break,
                Err(error) => return Err(self.wrong(&error)),
            };
            // Only white space and at most one comma or brace separate the last token from the key.
            let quote = self.text[before..].find('"').unwrap_or_default();
            let name = self.lines.name(&text, before + quote);
            let value = match self.tokens.peek() {
                Ok(peek) => self.node(peek, depth + 1)?,
                Err(error) => return Err(self.wrong(&error)),
            };
            entries.push((name, value));
            before = self.tokens.current_index();
            key = self.tokens.next_key().map(|key| key.map(Box::from));
        }
        check_unique(&entries)?;
        Ok(self.lines.node(Value::Map(entries), offset))
    }
}
