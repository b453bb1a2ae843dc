//! Finds files in directories, level by level, with every link in their paths followed once.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use plugin_sdk::Problem;

use super::{
    links::Links,
    scope::{MAX_LEVELS, is_hidden},
    stable::{Found, at, cannot_read},
};

/// Why a link to a directory is refused.
const LINKED_DIRECTORY: &str = "is a link to a directory, which is not followed; move the directory here, or read it as a source of its own";

/// The files of a directory that a walk finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// Files with one of these extensions. Hidden files and directories are ignored, and links to directories are refused.
    Extensions(&'static [&'static str]),
    /// All files, hidden ones and those behind links to directories included, but not the content of directories named
    /// `.git`.
    #[cfg(unix)]
    All,
}

impl Wanted {
    /// Whether entries of this name are ignored, whatever they are.
    pub(super) fn ignores(self, name: &OsStr) -> bool {
        match self {
            Self::Extensions(_) => is_hidden(name),
            #[cfg(unix)]
            Self::All => name == ".git",
        }
    }

    /// Whether files of this name are wanted.
    pub(super) fn has(self, name: &OsStr) -> bool {
        match self {
            Self::Extensions(known) => {
                let extension = Path::new(name).extension();
                let is_known = extension.is_some_and(|it| known.iter().any(|known| it == *known));
                is_known && !self.ignores(name)
            }
            #[cfg(unix)]
            Self::All => !self.ignores(name),
        }
    }
}

/// The files found so far, and the links followed.
#[derive(Debug)]
pub(crate) struct Walk {
    wanted: Wanted,
    links: Links,
    folders: Vec<Directory>,
    files: Vec<Found>,
}

/// A directory that a walk has read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Directory {
    /// The path under which it is reported, with links.
    pub(super) path: PathBuf,
    /// The path without links.
    pub(super) target: PathBuf,
}

/// Everything on which the list of files of a walk depends.
#[derive(Debug, Clone, PartialEq)]
pub struct Passed {
    pub(super) wanted: Wanted,
    /// The directories that were read. The first is the root.
    pub(super) folders: Vec<Directory>,
    /// The links and directories on the way to the root, and to the targets of links.
    pub(super) links: Links,
}

/// What a walk does with an entry of a directory.
enum Entry {
    Folder,
    File,
    Link,
    Ignored,
}

impl Walk {
    pub(crate) fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            links: Links::default(),
            folders: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The files found, in the order in which they were found.
    pub(crate) fn into_files(self) -> Vec<Found> {
        self.files
    }

    /// The files found, and everything on which their list depends.
    pub(super) fn into_parts(self) -> (Vec<Found>, Passed) {
        let passed = Passed {
            wanted: self.wanted,
            folders: self.folders,
            links: self.links,
        };
        (self.files, passed)
    }

    /// Adds the files in the directory at `root` and below it, sorted by path. Links in the path of `root` are resolved
    /// once, so that all files come from the same directory.
    pub(super) fn directory(&mut self, root: &Path) -> Result<(), Problem> {
        let reached = self.links.resolve(root);
        let reached = reached.map_err(|error| cannot_read(root, &error))?;
        self.folder(root, &reached, 0)
    }

    /// Adds the file at `path`, or the files in the directory at `path`.
    #[cfg(unix)]
    pub(crate) fn file_or_directory(&mut self, path: &Path) -> Result<(), Problem> {
        let cannot = |error| cannot_read(path, &error);
        let target = self.links.resolve(path).map_err(cannot)?;
        if fs::symlink_metadata(&target).map_err(cannot)?.is_dir() {
            return self.folder(path, &target, 0);
        }
        self.files.push(Found::direct(path.into(), target));
        Ok(())
    }

    /// Adds the files in the folder that is reported as `path` and reached as `target`, and below it. The order of the
    /// names, folder by folder, is the order of the paths.
    fn folder(&mut self, path: &Path, target: &Path, level: usize) -> Result<(), Problem> {
        let cannot = |error| cannot_read(path, &error);
        if level > MAX_LEVELS {
            let message = "more than 16 levels of directories; flatten them";
            return Err(at(path, message));
        }
        self.folders.push(Directory {
            path: path.into(),
            target: target.into(),
        });
        let mut entries = Vec::new();
        for entry in fs::read_dir(target).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            entries.push((entry.file_name(), self.kind(&entry).map_err(cannot)?));
        }
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, kind) in entries {
            let (path, target) = (|| path.join(&name), || target.join(&name));
            match kind {
                Entry::Folder => self.folder(&path(), &target(), level + 1)?,
                Entry::File => self.files.push(Found::direct(path(), target())),
                Entry::Link => self.link(&path(), &target(), level)?,
                Entry::Ignored => {}
            }
        }
        Ok(())
    }

    fn kind(&self, entry: &fs::DirEntry) -> io::Result<Entry> {
        let name = entry.file_name();
        if self.wanted.ignores(&name) {
            return Ok(Entry::Ignored);
        }
        let kind = entry.file_type()?;
        Ok(match kind {
            kind if kind.is_dir() => Entry::Folder,
            kind if kind.is_symlink() => Entry::Link,
            _ if !self.wanted.has(&name) => Entry::Ignored,
            _ => Entry::File,
        })
    }

    /// Adds what is behind a link in a folder.
    fn link(&mut self, path: &Path, target: &Path, level: usize) -> Result<(), Problem> {
        #[cfg(unix)]
        if let (Wanted::All, Ok(target)) = (self.wanted, self.links.resolve(target)) {
            match fs::symlink_metadata(&target) {
                Ok(metadata) if metadata.is_dir() => return self.folder(path, &target, level + 1),
                // A link without a target is no file for a program either. Editors lock files with such links.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                _ => {}
            }
        }
        let _ = level;
        // R44: whatever its name, because a directory that is passed over could have files that are wanted.
        if self.leads_to_directory(target) {
            self.files
                .push(Found::refused(path.into(), LINKED_DIRECTORY));
        } else if path.file_name().is_some_and(|name| self.wanted.has(name)) {
            let found = Found::linked(path.into(), target, &mut self.links);
            self.files.push(found);
        }
        Ok(())
    }

    fn leads_to_directory(&mut self, link: &Path) -> bool {
        let target = self.links.resolve(link);
        target.is_ok_and(|target| fs::symlink_metadata(target).is_ok_and(|it| it.is_dir()))
    }
}
