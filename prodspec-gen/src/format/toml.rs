//! TOML, parsed with the `toml` crate, which reports positions and limits the nesting itself.

use plugin_sdk::{
    Problem,
    document::{Node, Value},
};
use toml::{
    Spanned,
    de::{DeInteger, DeTable, DeValue},
};

use super::{Format, Limits, Lines, number, template, too_deep};

/// The TOML format. Each file is one document.
#[derive(Debug, Clone, Copy)]
pub struct Toml;

impl Format for Toml {
    const NAME: &'static str = "TOML";
    const EXTENSIONS: &'static [&'static str] = &["toml"];
    const END: Option<&'static str> = Some("# end");

    fn parse(text: &str, limits: &Limits) -> Result<Vec<Node>, Problem> {
        let lines = Lines::of(text);
        let table = DeTable::parse(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            template::explain(text, limits, lines.wrong(error.message(), offset), true)
        })?;
        if table.get_ref().is_empty() {
            return Ok(Vec::new());
        }
        let builder = Builder { lines, limits };
        let root = builder.table(table.get_ref(), 1)?;
        Ok(vec![builder.lines.node(root, 0)])
    }
}

struct Builder<'t> {
    lines: Lines<'t>,
    limits: &'t Limits,
}

impl Builder<'_> {
    fn node(&self, value: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Problem> {
        let offset = value.span().start;
        if depth > self.limits.depth {
            let (line, column) = self.lines.at(offset);
            return Err(too_deep(self.limits, line, column));
        }
        let wrong = |why| self.lines.wrong(why, offset);
        let read = match value.get_ref() {
            DeValue::String(text) => Value::String(text.as_ref().into()),
            DeValue::Integer(int) => integer(int).map_err(wrong)?,
            DeValue::Float(float) => number::float(float.as_str()).map_err(wrong)?,
            DeValue::Boolean(is) => Value::Bool(*is),
            DeValue::Datetime(time) => Value::String(time.to_string().into()),
            DeValue::Array(items) => Value::Sequence(
                items
                    .iter()
                    .map(|item| self.node(item, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
            DeValue::Table(table) => self.table(table, depth)?,
        };
        Ok(self.lines.node(read, offset))
    }

    fn table(&self, table: &DeTable<'_>, depth: usize) -> Result<Value, Problem> {
        let entry = |(key, value): (&Spanned<_>, &Spanned<_>)| {
            let key: &Spanned<std::borrow::Cow<'_, str>> = key;
            let name = self.lines.name(key.get_ref(), key.span().start);
            Ok((name, self.node(value, depth + 1)?))
        };
        table
            .iter()
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Value::Map)
    }
}

fn integer(int: &DeInteger<'_>) -> Result<Value, String> {
    number::integer(int.as_str(), int.radix())
}
