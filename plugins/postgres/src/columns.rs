//! The columns of a query: which types can be read, and the statement that lets the server write them as JSON.
//!
//! The server knows its types best. So it turns each value into the text of a JSON value; what is left to
//! [`value`](crate::value) is to read JSON, and to refuse what JSON or canonical JSON cannot hold.

use std::fmt::Write;

use sqlx::{
    Column as _, TypeInfo as _,
    postgres::{PgColumn, PgTypeInfo, PgTypeKind},
};

use crate::query::Query;

/// A column that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) leaf: Leaf,
    /// Whether they are arrays, of any number of dimensions.
    pub(crate) array: bool,
}

/// The type of single values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf {
    Integer,
    Decimal,
    Float,
    Bool,
    Text,
    Json,
    Time,
    Date,
    Bytes,
}

/// Checks the columns of a query.
///
/// # Errors
/// Every reason why the query cannot be read, each with the column that it is about, or an empty text.
pub(crate) fn check(
    query: &Query,
    described: &[PgColumn],
) -> Result<Vec<Column>, Vec<(String, String)>> {
    let (mut columns, mut wrong) = (Vec::<Column>::new(), Vec::new());
    for column in described {
        let name = column.name();
        let again = columns.iter().any(|other| &*other.name == name);
        match kind(column.type_info()) {
            _ if again => wrong.push((
                name.into(),
                "there are two columns of this name; rename one with `as`".into(),
            )),
            Some(kind) => columns.push(Column {
                name: name.into(),
                kind,
            }),
            None => wrong.push((name.into(), unsupported(column.type_info()))),
        }
    }
    if described.is_empty() {
        wrong.push((
            String::new(),
            "gives no columns; write a query that selects some".into(),
        ));
    }
    if query.key.is_empty() {
        wrong.push((
            String::new(),
            "has no key column; name one, so that rows have names and an order".into(),
        ));
    }
    for key in &query.key {
        let column = columns.iter().find(|column| *column.name == **key);
        let known = described.iter().any(|column| column.name() == key);
        match column.map(|column| column.kind) {
            Some(Kind {
                leaf: Leaf::Integer | Leaf::Text,
                array: false,
            }) => {}
            Some(_) => wrong.push((
                key.clone(),
                "a key must be a text or an integer; cast it to text".into(),
            )),
            None if known => {}
            None => wrong.push((
                key.clone(),
                "is the key, but the query gives no such column; select it".into(),
            )),
        }
    }
    match wrong.is_empty() {
        true => Ok(columns),
        false => Err(wrong),
    }
}

fn unsupported(of: &PgTypeInfo) -> String {
    let name = of.name().to_lowercase();
    let advice = match name.trim_end_matches("[]") {
        "timestamp" => "say which zone it is in, with `at time zone`, or cast it to text",
        _ => "cast it to text, or to jsonb with `to_jsonb`",
    };
    format!("values of the type `{name}` cannot be read; {advice}")
}

/// The kind of a type. `None`: it cannot be read.
fn kind(of: &PgTypeInfo) -> Option<Kind> {
    match of.kind() {
        PgTypeKind::Array(element) => {
            let element = kind(element)?;
            Some(Kind {
                array: true,
                ..element
            })
        }
        PgTypeKind::Domain(base) => kind(base),
        PgTypeKind::Enum(_) => Some(single(Leaf::Text)),
        PgTypeKind::Simple => leaf(of.name()).map(single),
        PgTypeKind::Pseudo | PgTypeKind::Composite(_) | PgTypeKind::Range(_) => None,
    }
}

fn single(leaf: Leaf) -> Kind {
    Kind { leaf, array: false }
}

fn leaf(name: &str) -> Option<Leaf> {
    Some(match name {
        "INT2" | "INT4" | "INT8" | "OID" => Leaf::Integer,
        "NUMERIC" => Leaf::Decimal,
        "FLOAT4" | "FLOAT8" => Leaf::Float,
        "BOOL" => Leaf::Bool,
        "TEXT" | "VARCHAR" | "CHAR" | "NAME" | "UUID" => Leaf::Text,
        "JSON" | "JSONB" => Leaf::Json,
        "TIMESTAMPTZ" => Leaf::Time,
        "DATE" => Leaf::Date,
        "BYTEA" => Leaf::Bytes,
        _ => return None,
    })
}

/// The statement that reads at most `rows` rows of the query, each value as JSON.
pub(crate) fn statement(query: &Query, columns: &[Column], rows: u64) -> String {
    let values = columns
        .iter()
        .map(|column| format!("pg_catalog.to_json(q.{})::text", quoted(&column.name)));
    let order = query.key.iter().map(|key| {
        let column = columns.iter().find(|column| *column.name == **key);
        let is_text = column.is_some_and(|column| column.kind.leaf == Leaf::Text);
        // The order of the bytes, whatever the locale of the database is.
        match is_text {
            true => format!("q.{}::text collate \"C\"", quoted(key)),
            false => format!("q.{}", quoted(key)),
        }
    });
    let mut statement = String::from("select ");
    statement.push_str(&values.collect::<Vec<_>>().join(", "));
    let text = subquery(&query.sql);
    let order = order.collect::<Vec<_>>().join(", ");
    // Writing to a text cannot fail.
    let _ = write!(
        statement,
        " from (\n{text}\n) as q order by {order} limit {rows}"
    );
    statement
}

/// The statement that reads the one column of a query as text, at most two rows.
pub(crate) fn as_text(sql: &str, column: &str) -> String {
    let (column, text) = (quoted(column), subquery(sql));
    format!("select q.{column}::text from (\n{text}\n) as q limit 2")
}

/// The text of a query without what must not be at the end of a subquery. A line break after it ends a comment.
fn subquery(sql: &str) -> &str {
    sql.trim_end().trim_end_matches(';')
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_survives_comments_semicolons_and_quotes() {
        let query = Query::new("q", ["a\"b", "n"], "select * from t; ");
        let text = Column {
            name: "a\"b".into(),
            kind: single(Leaf::Text),
        };
        let number = Column {
            name: "n".into(),
            kind: single(Leaf::Integer),
        };
        let statement = statement(&query, &[text, number], 5);
        let expected = "select pg_catalog.to_json(q.\"a\"\"b\")::text, pg_catalog.to_json(q.\"n\")::text from (\n\
                        select * from t\n) as q order by q.\"a\"\"b\"::text collate \"C\", q.\"n\" limit 5";
        assert_eq!(statement, expected);
    }
}
