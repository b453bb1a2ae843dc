//! The files of one commit.

use gix::{
    ObjectId, Repository,
    bstr::{BStr, ByteSlice},
    object::tree::EntryKind,
};
use plugin_sdk::{Problem, Problems, with_causes};
use prodspec_gen::tree::{Content, ContentId, Entry, Selection, Snapshot};
use prodspec_model::Revision;

use crate::fetch::Found;

/// A commit in the clone. Its objects never change.
pub(crate) struct Commit<'g> {
    found: Found,
    /// Set when an object cannot be read.
    damaged: &'g mut bool,
}

impl<'g> Commit<'g> {
    pub(crate) fn new(found: Found, damaged: &'g mut bool) -> Self {
        Self { found, damaged }
    }

    fn broken(&mut self, error: &gix::Error) -> Problem {
        *self.damaged = true;
        let error = with_causes(error);
        Problem::new(format!(
            "cannot be read from the clone: {error}; the next reading clones again"
        ))
    }
}

impl Snapshot for Commit<'_> {
    fn revision(&self) -> Revision {
        Revision(self.found.id.to_string().into())
    }

    fn list(&mut self, selection: &Selection) -> Result<Vec<Entry>, Problems> {
        let mut entries = Vec::new();
        let mut ahead = vec![(String::new(), self.found.tree)];
        while let Some((directory, id)) = ahead.pop() {
            let walked = walk(&self.found.clone, id, &directory, selection, &mut entries);
            let below = walked.map_err(|error| self.broken(&error).at(directory, 0, 0))?;
            ahead.extend(below);
        }
        Ok(entries)
    }

    fn read(&mut self, entry: &Entry, cap: u64) -> Result<Content, Problem> {
        let id = entry.id().map_or(&[][..], ContentId::bytes);
        let id = ObjectId::try_from(id).map_err(Problem::new)?;
        let header = self.found.clone.find_header(id);
        let len = header.map_err(|error| self.broken(&error))?.size();
        if len > cap {
            return Ok(Content::TooLong(len));
        }
        let bytes = match self.found.clone.find_blob(id) {
            Ok(mut blob) => Ok(blob.take_data()),
            Err(error) => Err(error),
        };
        let bytes = bytes.map_err(|error| self.broken(&error))?;
        Ok(Content::Bytes(bytes))
    }
}

/// Adds the files of one directory to `entries`, and returns its directories that may have more.
fn walk(
    clone: &Repository,
    id: ObjectId,
    directory: &str,
    selection: &Selection,
    entries: &mut Vec<Entry>,
) -> Result<Vec<(String, ObjectId)>, gix::Error> {
    let mut below = Vec::new();
    let tree = clone.find_tree(id)?;
    for entry in tree.iter() {
        let entry = entry?;
        let path = beneath(directory, entry.filename());
        match entry.mode().kind() {
            EntryKind::Tree => match selection.enters(&path) {
                Ok(true) => below.push((path, entry.object_id())),
                Ok(false) => {}
                Err(problem) => entries.push(Entry::refused(path, problem.message)),
            },
            EntryKind::Blob | EntryKind::BlobExecutable => {
                let id = ContentId::from(entry.object_id().as_slice());
                entries.push(match entry.filename().to_str() {
                    Ok(_) => Entry::file(path, id),
                    Err(_) => Entry::refused(path, "its name is not UTF-8; rename it"),
                });
            }
            EntryKind::Link => {
                let message = "is a symbolic link, which is not followed; replace it by a file";
                entries.push(Entry::refused(path, message));
            }
            EntryKind::Commit => {
                let message = "is a submodule, which is not fetched; move the files here, or read the other repository as a source of its own";
                entries.push(Entry::refused(path, message));
            }
        }
    }
    Ok(below)
}

fn beneath(directory: &str, name: &BStr) -> String {
    match directory {
        "" => name.to_str_lossy().into_owned(),
        _ => format!("{directory}/{}", name.to_str_lossy()),
    }
}
