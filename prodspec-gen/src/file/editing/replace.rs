//! Replaces a file exactly once: written beside, made durable, compared, exchanged.
//!
//! A process that dies at any point leaves the file as it was before or as it is after, never a part of it. What another
//! program writes meanwhile is not lost: where the system can exchange two files, the file that was exchanged is
//! compared once more, and comes back if it is not the one that was read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use plugin_sdk::ChangeId;
use prodspec_model::Digest;

/// A point at which a process could die while it replaces a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// The new file is there, but empty.
    Created,
    /// The new file is written.
    Written,
    /// The new file is durable.
    Durable,
    /// The old file is still the one that was read.
    Compared,
    /// The new file has its place.
    Exchanged,
    /// The old file is the one that was read, also after the exchange.
    Confirmed,
    /// The old file is gone.
    Removed,
}

/// Why a file was not replaced.
#[derive(Debug)]
pub(super) enum Moved {
    /// The file is not the one that was read any more.
    Changed,
    /// The file stays as it was.
    NotReplaced(io::Error),
    /// The file was replaced, but a crash of the machine may bring back the old one.
    Unknown(io::Error),
}

/// The replacement of one file.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    /// The path of the file, without links.
    pub(super) path: &'a Path,
    /// The change that replaces it. No other change uses the same name for its new file.
    pub(super) id: &'a ChangeId,
    /// Digest of the content that is replaced.
    pub(super) before: Digest,
    /// The new content.
    pub(super) text: &'a [u8],
}

impl Replacement<'_> {
    /// Replaces the file. `reached` is called at each point at which a process could die.
    ///
    /// # Errors
    /// See [`Moved`].
    pub(super) fn make(
        &self,
        reached: &mut dyn FnMut(Point) -> io::Result<()>,
    ) -> Result<(), Moved> {
        let beside = self.beside();
        let prepared = self.prepare(&beside, reached);
        if let Err(error) = prepared {
            return Err(Moved::NotReplaced(error));
        }
        if !self.is_unchanged(self.path) {
            // The new file is not needed any more. One that stays is hidden, and no source reads it.
            let _ = fs::remove_file(&beside);
            return Err(Moved::Changed);
        }
        reached(Point::Compared).map_err(Moved::NotReplaced)?;
        let exchanged = exchange(&beside, self.path).map_err(Moved::NotReplaced)?;
        reached(Point::Exchanged).map_err(Moved::Unknown)?;
        if exchanged {
            if !self.is_unchanged(&beside) {
                exchange(&beside, self.path).map_err(Moved::Unknown)?;
                let _ = fs::remove_file(&beside);
                return Err(Moved::Changed);
            }
            reached(Point::Confirmed).map_err(Moved::Unknown)?;
            fs::remove_file(&beside).map_err(Moved::Unknown)?;
        }
        reached(Point::Removed).map_err(Moved::Unknown)?;
        self.sync_directory().map_err(Moved::Unknown)
    }

    /// The path of the new file: hidden, in the same directory.
    fn beside(&self) -> PathBuf {
        self.path.with_file_name(format!(".{}.edit", self.id))
    }

    /// Writes the new file, with the permissions of the old one, and makes it durable.
    fn prepare(
        &self,
        beside: &Path,
        reached: &mut dyn FnMut(Point) -> io::Result<()>,
    ) -> io::Result<()> {
        let old = fs::metadata(self.path)?;
        // A process that died may have left one.
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(beside)?;
        reached(Point::Created)?;
        file.set_permissions(old.permissions())?;
        keep_owner(beside, &old);
        file.write_all(self.text)?;
        reached(Point::Written)?;
        file.sync_all()?;
        reached(Point::Durable)
    }

    fn is_unchanged(&self, path: &Path) -> bool {
        fs::read(path).is_ok_and(|bytes| Digest::of(&bytes) == self.before)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let directory = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// Gives the new file the owner of the old one. Only some users may; for all others the file gets their own.
#[cfg(unix)]
fn keep_owner(new: &Path, old: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt, chown};

    let _ = chown(new, Some(old.uid()), Some(old.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &Path, _: &fs::Metadata) {}

/// Gives the file `new` the place of `old`. Returns whether `old` is at the place of `new` now; otherwise it is gone.
#[cfg(target_os = "linux")]
fn exchange(new: &Path, old: &Path) -> io::Result<bool> {
    use rustix::{
        fs::{CWD, RenameFlags, renameat_with},
        io::Errno,
    };

    match renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        // Some file systems cannot exchange files.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => fs::rename(new, old).map(|()| false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(new: &Path, old: &Path) -> io::Result<bool> {
    fs::rename(new, old).map(|()| false)
}
