//! Edits of documents as text: single fields change, and all other bytes stay, comments and order included.
//! Needs the feature `files`.
//!
//! Texts are changed by splices at the positions that the parser reports; for TOML this is `toml_edit`. Each result is
//! parsed again and compared with the text before: only the edited fields differ, or the edit is refused.
//!
//! ```
//! use prodspec_gen::{edit::{self, Edit}, format::Limits};
//! use serde_json::json;
//!
//! let text = "clusters:\n- name: eu # the first\n  replicas: 3\n";
//! let edits = [Edit {
//!     document: 0,
//!     path: "clusters[0].replicas".parse()?,
//!     was: Some(json!(3)),
//!     to: Some(json!(5)),
//! }];
//! let edited = edit::yaml(text, &edits, &Limits::default())?;
//! assert_eq!(edited, "clusters:\n- name: eu # the first\n  replicas: 5\n");
//!
//! let refused = edit::yaml(&edited, &edits, &Limits::default()).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "`clusters[0].replicas`, line 3, is 5, but 3 was expected; read the file again and decide anew",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod block;
pub(crate) mod file;
mod flow;
mod json_tree;
mod place;
mod plan;
mod proof;
mod refused;
mod rounds;
mod sections;
#[cfg(test)]
mod tests;
mod text;
mod toml_tree;
mod tree;
pub(crate) mod value;
mod ways;
mod write;
mod yaml_tree;

use plugin_sdk::document::FieldPath;
use serde_json::Value;

pub use refused::Refused;

use self::{ways::Syntax, write::Dialect};
use crate::format::{Format, Json, Limits, Toml, Yaml};

/// A file format whose texts can be edited. Sources of such files are editable.
pub trait EditFormat: Format {
    /// Makes all `edits` of a text, or none.
    ///
    /// # Errors
    /// As [`yaml`](fn@yaml).
    fn edit(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused>;
}

impl EditFormat for Yaml {
    fn edit(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
        yaml(text, edits, limits)
    }
}

impl EditFormat for Json {
    fn edit(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
        json(text, edits, limits)
    }
}

impl EditFormat for Toml {
    fn edit(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
        toml(text, edits, limits)
    }
}

/// The change of one field of one document in a file. An edit of a source is a [`FieldEdit`](plugin_sdk::FieldEdit).
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The index of the document in its file, from 0; documents without content do not count.
    pub document: u32,
    /// The field. Indices of lists are those before all edits that are made together.
    pub path: FieldPath,
    /// The expected value. `None`: the field must not be there.
    pub was: Option<Value>,
    /// The new value. `None` removes the field.
    pub to: Option<Value>,
}

/// Makes all `edits` of a YAML text, or none.
///
/// Scalars keep their style if the new value can be written in it, block maps and lists get lines with the indentation
/// of the document, and flow collections stay on their lines. A field that is removed goes with its own lines and the
/// comments on them; `{}` or `[]` is left of a map or list whose last entry is removed. A field is added after the last
/// one of its map; an item is added to a list with the index after its last one.
///
/// ```
/// # use prodspec_gen::{edit::{self, Edit}, format::Limits};
/// # use serde_json::json;
/// let text = "base: &base {cpu: 1}\neu: *base\nus:\n  cpu: 2 # measured\n";
/// let edit = |path: &str, was, to| edit::yaml(
///     text,
///     &[Edit { document: 0, path: path.parse().unwrap(), was, to }],
///     &Limits::default(),
/// );
/// let edited = edit("us.memory", None, Some(json!("4Gi")))?;
/// assert_eq!(edited, format!("{text}  memory: 4Gi\n"));
///
/// let refused = edit("base.cpu", Some(json!(1)), Some(json!(3))).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "`base.cpu` cannot be changed alone: line 1 has the anchor &base, which an alias repeats; write the value out where it is used, then edit it",
/// );
/// # Ok::<(), edit::Refused>(())
/// ```
///
/// # Errors
/// When the text does not parse, a field is not there or does not have its expected value, two edits overlap, the field
/// is shared through an anchor, alias or merge key, or the result cannot be proven.
pub fn yaml(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    let syntax = Syntax {
        read: yaml_tree::read,
        dialect: Dialect::Yaml,
    };
    rounds::edit(text, edits, limits, syntax)
}

/// Makes all `edits` of a JSON text, or none. White space around other values stays.
///
/// ```
/// # use prodspec_gen::{edit::{self, Edit}, format::Limits};
/// # use serde_json::json;
/// let edit = Edit { document: 0, path: "b".parse()?, was: None, to: Some(json!([1])) };
/// let edited = edit::json("{\"a\": 1}\n", &[edit], &Limits::default())?;
/// assert_eq!(edited, "{\"a\": 1, \"b\": [1]}\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`yaml`](fn@yaml).
pub fn json(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    let syntax = Syntax {
        read: json_tree::read,
        dialect: Dialect::Json,
    };
    rounds::edit(text, edits, limits, syntax)
}

/// Makes all `edits` of a TOML text, or none.
///
/// A field is added after the last field of its own table, or beneath its header. Maps are written as inline tables; an
/// item that is added to an array of tables gets a header. Date-times are text: a new one is written in quotes.
///
/// ```
/// # use prodspec_gen::{edit::{self, Edit}, format::Limits};
/// # use serde_json::json;
/// let text = "[eu] # the first\nreplicas = 3\n\n[us]\n";
/// let edit = Edit { document: 0, path: "eu.labels".parse()?, was: None, to: Some(json!({"tier": "web"})) };
/// let edited = edit::toml(text, &[edit], &Limits::default())?;
/// assert_eq!(edited, "[eu] # the first\nreplicas = 3\nlabels = { tier = \"web\" }\n\n[us]\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`yaml`](fn@yaml). A table that only longer headers name cannot get a field, because it has no place of its own.
pub fn toml(text: &str, edits: &[Edit], limits: &Limits) -> Result<String, Refused> {
    let syntax = Syntax {
        read: toml_tree::read,
        dialect: Dialect::Toml,
    };
    rounds::edit(text, edits, limits, syntax)
}
