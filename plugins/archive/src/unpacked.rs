//! One or several archives at one revision.

use plugin_sdk::{Problem, Problems};
use prodspec_gen::tree::{Content, Entry, Selection, Snapshot, Stop};
use prodspec_model::Revision;
use sha2::{Digest, Sha256};

use crate::{
    files::{Files, Limits},
    layer::Reading,
};

/// The bytes of archives, and the files in them once they are listed.
pub(crate) struct Unpacked {
    pub(crate) revision: Revision,
    /// Each with its name for problems, lowest layer first.
    pub(crate) archives: Vec<(String, Vec<u8>)>,
    pub(crate) layered: bool,
    pub(crate) limits: Limits,
    pub(crate) stop: Stop,
    pub(crate) files: Files,
}

impl Snapshot for Unpacked {
    fn revision(&self) -> Revision {
        self.revision.clone()
    }

    fn list(&mut self, selection: &Selection) -> Result<Vec<Entry>, Problems> {
        let reading = Reading {
            selection,
            limits: &self.limits,
            stop: &self.stop,
            whiteouts: self.layered,
        };
        self.files = Files::default();
        for (name, archive) in &self.archives {
            let layer = reading.read(archive).map_err(|mut problems| {
                problems.for_each_mut(|problem| {
                    problem.document = match problem.document.as_str() {
                        "" => name.clone(),
                        path => format!("{path} in {name}"),
                    };
                });
                problems
            })?;
            self.files.lay(layer);
        }
        Ok(self.files.entries())
    }

    fn read(&mut self, entry: &Entry, cap: u64) -> Result<Content, Problem> {
        self.files.read(entry.path(), cap)
    }
}

/// The SHA-256 digest of bytes, as image layouts and `sha256sum` write it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
