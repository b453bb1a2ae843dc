//! The input files of a program: their state before and after a run, and the digest of their content. As with sources
//! of files, an unchanged file is not opened again.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use plugin_sdk::{Problem, Problems};
use prodspec_model::Digest;

use super::task::Task;
use crate::{
    file::{
        stable::{self, Found},
        walk::{Walk, Wanted},
    },
    kept::Placed,
};

/// Maximum number of input files of one program.
const MOST_FILES: usize = 20_000;

/// The input files as they were read last.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    files: BTreeMap<PathBuf, Kept>,
    /// The number of files that were opened so far.
    pub(super) opened: u64,
}

#[derive(Debug)]
struct Kept {
    found: Found,
    /// Whether the state `found` tells the content: the file is not read again.
    settled: bool,
    digest: Digest,
}

/// All input files at one moment.
#[derive(Debug, PartialEq)]
pub(super) struct State {
    files: Vec<Found>,
    /// Digest of the paths and the content.
    pub(super) digest: Digest,
}

impl Inputs {
    /// Reads all input files in one consistent state, as of the time `now`.
    ///
    /// # Errors
    /// One problem for each file that cannot be read, or one problem when the files keep changing.
    pub(super) fn read(&mut self, task: &Task, now: SystemTime) -> Result<State, Problems> {
        let place = task.input_paths().next().unwrap_or_default();
        let known = |found: &[Found]| found.iter().map(|found| self.knows(found)).collect();
        let (files, read) = stable::read_all(&place, || list(task), known, task.input_limit)?;
        self.opened += read.len() as u64;
        let mut read: BTreeMap<PathBuf, Vec<u8>> = read.into_iter().collect();
        let mut before = std::mem::take(&mut self.files);
        for found in &files {
            let path = found.place();
            let kept = match read.remove(path) {
                Some(bytes) => Some(Kept {
                    found: found.clone(),
                    settled: found.is_settled(now),
                    digest: Digest::of(&bytes),
                }),
                None => before.remove(path),
            };
            self.files.extend(kept.map(|kept| (path.into(), kept)));
        }
        let digest = self.digest(task);
        Ok(State { files, digest })
    }

    /// Whether the content of a file is known, so that it is not read again.
    fn knows(&self, found: &Found) -> bool {
        let kept = self.files.get(found.place());
        kept.is_some_and(|kept| kept.settled && kept.found == *found)
    }

    /// The digest of all paths, relative to the working directory of the program, and all content.
    fn digest(&self, task: &Task) -> Digest {
        let mut digests = Vec::new();
        for (path, kept) in &self.files {
            let below = task
                .dir
                .as_ref()
                .and_then(|dir| path.strip_prefix(dir).ok());
            let path = below.unwrap_or(path).as_os_str().as_encoded_bytes();
            digests.extend_from_slice(&Digest::of(path).0);
            digests.extend_from_slice(&kept.digest.0);
        }
        Digest::of(&digests)
    }
}

/// All input files, sorted by path.
fn list(task: &Task) -> Result<Vec<Found>, Problem> {
    let mut walk = Walk::new(Wanted::All);
    for input in task.input_paths() {
        walk.file_or_directory(&input)?;
    }
    let mut files = walk.into_files();
    if files.len() > MOST_FILES {
        let files = files.len();
        return Err(task.problem(format!(
            "{files} input files, {MOST_FILES} are allowed; declare only the files and directories that the program reads"
        )));
    }
    files.sort_by(|a, b| a.place().cmp(b.place()));
    files.dedup_by(|a, b| a.is_same_place(b));
    Ok(files)
}
