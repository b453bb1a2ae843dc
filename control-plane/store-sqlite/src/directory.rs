//! The directory of a store, and the lock that keeps every other process out of it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
};

use crate::Error;

/// A directory that no other process has open. The system releases it when this process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    /// Locks `path`, creating it if it is not there.
    pub(crate) fn lock(path: &Path) -> Result<Self, Error> {
        let mut file = lock_file(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                let _ = file.read_to_string(&mut by);
                return Err(Error::InUse {
                    dir: path.to_owned(),
                    by: by.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(io_error(path, source)),
        }
        Self::locked(path, file)
    }

    /// Locks `path`, waiting for whoever has it open to end.
    pub(crate) fn lock_wait(path: &Path) -> Result<Self, Error> {
        let file = lock_file(path)?;
        file.lock().map_err(|source| io_error(path, source))?;
        Self::locked(path, file)
    }

    fn locked(path: &Path, mut file: File) -> Result<Self, Error> {
        // Only for the message that others get.
        let named = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        named.map_err(|source| io_error(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: file,
        })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join("plane.sqlite3")
    }

    /// SQLite's log beside the database.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("plane.sqlite3-wal")
    }

    /// The record of the newest acknowledged commit.
    pub(crate) fn acked(&self) -> PathBuf {
        self.path.join("plane.acked")
    }

    /// Makes the files in it survive a power cut as their content does.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn lock_file(path: &Path) -> Result<File, Error> {
    let io = |source| io_error(path, source);
    if !path.is_dir() {
        std::fs::create_dir_all(path).map_err(io)?;
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        // The new directory must survive a power cut as its content does.
        let parent = File::open(parent.unwrap_or(Path::new("."))).map_err(io)?;
        parent.sync_all().map_err(io)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path.join("lock")).map_err(io)
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    Error::Io { path, source }
}
