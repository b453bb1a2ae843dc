//! Files that survive a crash of their process: journals of JSON lines, files that are replaced as a whole, and the lock
//! of a directory. Cells and the press share them.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

/// A file to which JSON lines are appended.
#[derive(Debug)]
pub(super) struct Lines(File);

impl Lines {
    /// Opens the file at `path`, or creates it. If a crash left an incomplete last line, ends that line, so that it does
    /// not spoil the next one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let torn = fs::read(path).is_ok_and(|old| old.last().is_some_and(|end| *end != b'\n'));
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if torn {
            file.write_all(b"\n")?;
        }
        if let Some(dir) = path.parent() {
            File::open(dir)?.sync_all()?;
        }
        Ok(Self(file))
    }

    /// Appends one line. The line is on disk when this returns.
    pub(super) fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.0.write_all(&bytes)?;
        self.0.sync_data()
    }
}

/// Returns the complete lines of the journal at `path`; none if there is no such file. An incomplete line is skipped: what
/// it says did not take effect.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Replaces a file atomically and syncs its content to disk.
pub(super) fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(draft, path)
}

/// Takes the lock of a process's directory; returns none if another process has it. The kernel releases the lock when the
/// process ends, for whatever reason.
pub(super) fn lock(dir: &Path) -> io::Result<Option<File>> {
    let file = File::create(dir.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
