//! The manifest's file: its name, its size limit and its end marker. The text itself is the service's.

use control_plane::{generation::format::Limits, prelude::YamlFile};

/// Name of the source of truth, also its file name in the state directory.
pub const NAME: &str = "manifest.yaml";
/// Maximum size of a manifest, in bytes.
pub const LIMIT: u64 = 1 << 20;

/// Returns `file` as a manifest source: with the name, the end marker and the size limit that every manifest has.
pub fn source(file: YamlFile) -> YamlFile {
    let limits = Limits {
        bytes: LIMIT,
        ..Limits::default()
    };
    file.named(NAME).with_end_marker().limits(limits)
}
