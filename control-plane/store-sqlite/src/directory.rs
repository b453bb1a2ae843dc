//! The directory of a store, and the lock that keeps every other process out of it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::Error;

const LOCK: &str = "lock";

/// A directory that no other process has open. The system releases it when this process ends, however it ends.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Locks `path`, creating it if it is not there.
    pub(crate) fn lock(path: &Path) -> Result<Self, Error> {
        Self::lock_by(path, |file| match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                let _ = file.read_to_string(&mut by);
                Err(Error::InUse {
                    dir: path.to_owned(),
                    by: by.trim().to_owned(),
                })
            }
            Err(TryLockError::Error(source)) => Err(io_error(path, source)),
        })
    }

    /// Locks `path`, waiting for another process that has it open to end.
    pub(crate) fn lock_wait(path: &Path) -> Result<Self, Error> {
        Self::lock_by(path, |file| {
            file.lock().map_err(|source| io_error(path, source))
        })
    }

    fn lock_by(
        path: &Path,
        mut lock: impl FnMut(&mut File) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let io = |source| io_error(path, source);
        // The process may change its own directory; this one stays where it is.
        let path = std::path::absolute(path).map_err(io)?;
        let mut file = loop {
            let mut file = lock_file(&path)?;
            lock(&mut file)?;
            // It may have been removed in the meantime: then the lock keeps no other process out.
            let held = file.metadata().map_err(io)?;
            if number_of(&path.join(LOCK)).map_err(io)? == Some((held.dev(), held.ino())) {
                break file;
            }
        };
        // Only for the message that others get.
        let named = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        named.map_err(io)?;
        Ok(Self { path, lock: file })
    }

    /// Which files these are.
    pub(crate) fn identity(&self) -> io::Result<Identity> {
        let held = self.lock.metadata()?;
        let mut files = vec![(self.path.join(LOCK), (held.dev(), held.ino()))];
        for path in [self.path.clone(), self.database(), self.log(), self.acked()] {
            if let Some(number) = number_of(&path)? {
                files.push((path, number));
            }
        }
        Ok(Identity(files))
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

/// The files of an open store, by path and inode.
#[derive(Debug)]
pub(crate) struct Identity(Vec<(PathBuf, (u64, u64))>);

impl Identity {
    /// Looks whether all of them are still where they were opened; otherwise answers which is not.
    pub(crate) fn check(&self) -> Result<(), PathBuf> {
        let gone = |(path, number): &&(PathBuf, (u64, u64))| {
            // What cannot be looked at is not known to be gone.
            number_of(path).is_ok_and(|found| found != Some(*number))
        };
        let gone = self.0.iter().find(gone);
        gone.map_or(Ok(()), |(path, _)| Err(path.clone()))
    }
}

/// Device and inode of what is at `path`, if there is anything.
fn number_of(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match std::fs::metadata(path) {
        Ok(file) => Ok(Some((file.dev(), file.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
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
    options.open(path.join(LOCK)).map_err(io)
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> Error {
    let path = path.to_owned();
    Error::Io { path, source }
}
