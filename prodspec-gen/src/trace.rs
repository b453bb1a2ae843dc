//! Traces: where an asset comes from, with today's line.

use std::fmt;

use plugin_sdk::FieldEdit;
use prodspec_model::{AssetId, Provenance, Revision, SourceName};
use serde::Serialize;

/// Where an asset comes from: its generators, and the field of a document with the line that it has today.
///
/// Displayed on one line: ``job/us: made by shakespeare, amended by owners, from `clusters.us` in manifest.yaml#0:31:5``.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Trace {
    /// Id of the asset that is traced.
    pub asset: AssetId,
    /// The id that the asset had before, if it says that it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<AssetId>,
    /// The generators, and the field of a document, as of the last good run.
    pub provenance: Provenance,
    /// The revision of the source that the last good run read. `None`: the generator names no document.
    pub revision: Option<Revision>,
    /// The place of the document and the position of the field, from 1. `None`: the generator names no document.
    pub place: Option<Place>,
}

/// The place of a field in a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The place of the document, such as `manifest.yaml#0`.
    pub document: String,
    /// Line of the field, from 1; 0 when unknown.
    pub line: u32,
    /// Column of the field, from 1; 0 when unknown.
    pub column: u32,
}

/// A field of the entry that an asset was made from, as of the last good run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EntryField {
    /// The source that has the entry.
    pub source: SourceName,
    /// The edit that would change nothing: document and path of the field, and its value. `None`: it is not there.
    pub edit: FieldEdit,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Provenance {
            generator,
            amenders,
            source,
            path,
            ..
        } = &self.provenance;
        write!(f, "{}: made by {generator}", self.asset)?;
        if let Some(from) = &self.moved_from {
            write!(f, ", moved from {from}")?;
        }
        if !amenders.is_empty() {
            write!(f, ", amended by {}", amenders.join(" and "))?;
        }
        let Some(Place {
            document,
            line,
            column,
        }) = &self.place
        else {
            return Ok(());
        };
        f.write_str(", from ")?;
        if !path.is_empty() {
            write!(f, "`{path}` in ")?;
        }
        f.write_str(document)?;
        if *line > 0 {
            write!(f, ":{line}:{column}")?;
        }
        if let Some(revision) = &self.revision {
            write!(f, " (source {source} at {})", revision.0)?;
        }
        Ok(())
    }
}
