//! Rows become documents: their names, their digests, and the trees of those that are not known yet.

use std::{collections::BTreeMap, sync::Arc};

use plugin_sdk::{
    Document, Problem, Problems,
    document::{Node, Value},
};
use prodspec_model::Digest;

use crate::{
    columns::{Column, Kind, Leaf},
    limits::Limits,
    memory::{Documents, Kept},
    query::Query,
    snapshot::Table,
    value,
};

/// Values of a row, each a JSON text. `None`: null.
type Row = [Option<Box<str>>];

/// How rows become documents.
pub(crate) struct Reader {
    /// The name of the source.
    pub(crate) source: Arc<str>,
    pub(crate) limits: Limits,
    /// The documents of the state before, which are used again where nothing has changed.
    pub(crate) before: Arc<Documents>,
}

impl Reader {
    /// The documents of all tables.
    ///
    /// # Errors
    /// All rows that cannot be read, and all names that two rows have.
    pub(crate) fn documents(&self, tables: &[Table]) -> Result<Documents, Problems> {
        let (mut documents, mut problems) = (Documents::new(), Problems::none());
        for table in tables {
            match table.query.whole {
                true => self.list(table, &mut documents, &mut problems),
                false => self.rows(table, &mut documents, &mut problems),
            }
        }
        match problems.is_empty() {
            true => Ok(documents),
            false => Err(problems),
        }
    }

    /// A document per row.
    fn rows(&self, table: &Table, documents: &mut Documents, problems: &mut Problems) {
        for (name, row) in named(table, problems) {
            let digest = digest(&table.query, &table.columns, [row]);
            let root = || self.map(&table.columns, row);
            self.add(table, &name, digest, root, documents, problems);
        }
    }

    /// One document of all rows.
    fn list(&self, table: &Table, documents: &mut Documents, problems: &mut Problems) {
        // Names must be unique here too, so that the order is that of the key alone.
        let rows = named(table, problems);
        let digest = digest(
            &table.query,
            &table.columns,
            rows.iter().map(|(_, row)| *row),
        );
        let root = || {
            let items = rows.iter().map(|(name, row)| {
                let map = self.map(&table.columns, row);
                map.map_err(|(column, why)| (format!("{name}: {column}"), why))
            });
            let items = items.collect::<Result<_, _>>()?;
            Ok(value::node(Value::Sequence(items)))
        };
        let name = table.query.name.clone();
        self.add(table, &name, digest, root, documents, problems);
    }

    /// Adds one document, the one of before if it has not changed.
    fn add(
        &self,
        table: &Table,
        name: &Arc<str>,
        digest: Digest,
        root: impl FnOnce() -> Result<Node, (String, String)>,
        documents: &mut Documents,
        problems: &mut Problems,
    ) {
        let same = self.before.get(name).filter(|kept| kept.digest == digest);
        let kept = match same {
            Some(kept) => Ok(kept.clone()),
            None => root().map(|root| {
                let document = Document::new(&self.source, &table.query.name, 0, root);
                let document = document.known_as(name.clone());
                Kept { digest, document }
            }),
        };
        match kept {
            Ok(kept) => {
                if documents.insert(name.clone(), kept).is_some() {
                    let message = "two queries give a document of this name; rename one query";
                    problems.push(Problem::new(message).at(&**name, 0, 0));
                }
            }
            Err((column, why)) => {
                let problem = Problem::new(format!("the value {why}"));
                problems.push(problem.field(column).at(&**name, 0, 0));
            }
        }
    }

    /// The map from column to value of a row.
    fn map(&self, columns: &[Column], row: &Row) -> Result<Node, (String, String)> {
        let entries = columns.iter().zip(row).map(|(column, json)| {
            let node = match json {
                None => Ok(value::node(Value::Null)),
                Some(json) => value::read(json, column.kind, self.limits.depth),
            };
            let node = node.map_err(|why| (column.name.to_string(), why))?;
            Ok((value::name(&column.name), node))
        });
        let entries = entries.collect::<Result<_, (String, String)>>()?;
        Ok(value::node(Value::Map(entries)))
    }
}

/// The rows of a table with the names of their documents. Rows without a name are problems, and rows with the same name.
fn named<'t>(table: &'t Table, problems: &mut Problems) -> Vec<(Arc<str>, &'t Row)> {
    let mut seen: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    let mut named = Vec::with_capacity(table.rows.len());
    for row in &table.rows {
        match name(table, row) {
            Ok(name) => {
                let name: Arc<str> = name.into();
                *seen.entry(name.clone()).or_default() += 1;
                named.push((name, &**row));
            }
            Err(problem) => problems.push(problem),
        }
    }
    for (name, rows) in seen.iter().filter(|(_, rows)| **rows > 1) {
        let columns = table.query.key.join(", ");
        let message = format!(
            "{rows} rows have this name, which is that of their key ({columns}); remove all but one, or add a column to the key"
        );
        problems.push(Problem::new(message).at(&**name, 0, 0));
    }
    named
}

/// The name of the document of a row.
fn name(table: &Table, row: &Row) -> Result<String, Problem> {
    let mut name = table.query.name.to_string();
    for key in &table.query.key {
        let at = table
            .columns
            .iter()
            .position(|column| *column.name == **key);
        let json = at.and_then(|at| row.get(at)?.as_deref());
        let kind = Kind {
            leaf: Leaf::Text,
            array: false,
        };
        let part = match json.map(|json| value::read(json, kind, 1).map(|node| node.value)) {
            Some(Ok(Value::String(text))) => text.into_string(),
            Some(Ok(Value::Int(int))) => int.to_string(),
            _ => String::new(),
        };
        if part.is_empty() {
            let message = "a row has no value, or an empty one, in this column of its key; give it one, or leave the row out with `where`";
            let place = format!("query `{}`", table.query.name);
            return Err(Problem::new(message).field(&**key).at(place, 0, 0));
        }
        name.push('/');
        name.push_str(&part);
    }
    Ok(name)
}

/// The digest of everything that decides what a document is: its rows, and how they are read.
fn digest<'r>(
    query: &Query,
    columns: &[Column],
    rows: impl IntoIterator<Item = &'r Row>,
) -> Digest {
    let mut bytes = Vec::new();
    let mut add = |text: &str| {
        bytes.extend((text.len() as u64).to_le_bytes());
        bytes.extend(text.as_bytes());
    };
    add(if query.whole { "list" } else { "row" });
    for column in columns {
        add(&column.name);
        add(&format!("{:?}", column.kind));
    }
    for row in rows {
        for json in row {
            // No JSON text is empty.
            add(json.as_deref().unwrap_or_default());
        }
    }
    Digest::of(&bytes)
}
