//! A query of a source: its text, and the columns that name its rows.

use std::sync::Arc;

/// A query whose rows are documents.
///
/// ```
/// use plugins_postgres::Query;
/// // A document `services/eu/web` for the row with the region `eu` and the name `web`.
/// let services = Query::new("services", ["region", "name"], "select region, name, replicas from services");
/// // One document `quotas`, which is the list of all rows.
/// let quotas = Query::new("quotas", ["team"], "select team, cores from quotas").as_one_document();
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    pub(crate) name: Arc<str>,
    pub(crate) key: Vec<String>,
    pub(crate) sql: String,
    pub(crate) whole: bool,
}

impl Query {
    /// A query named `name`, unique in its source. Each row is a document, a map from column to value, and is known as
    /// the name of the query and the values of the `key` columns, joined by slashes. No two rows may have the same name.
    ///
    /// The key columns are texts, UUIDs or integers, and never null. The text is one `select` (or `values`, or `with`),
    /// without parameters. It is run as a subquery, sorted by the key. Texts are sorted by their bytes.
    pub fn new<K: Into<String>>(
        name: &str,
        key: impl IntoIterator<Item = K>,
        sql: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            key: key.into_iter().map(Into::into).collect(),
            sql: sql.into(),
            whole: false,
        }
    }

    /// Makes one document of all rows: their list, sorted by the key. It is known by the name of the query, also when
    /// there is no row.
    #[must_use]
    pub fn as_one_document(mut self) -> Self {
        self.whole = true;
        self
    }
}
