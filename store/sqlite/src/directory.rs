//! The directory of a store, and the lock that gives it to one process at a time.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::Error;

const LOCK: &str = "lock";

/// A locked directory. The operating system releases the lock when this process ends, in whatever way.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    lock: File,
}

impl Directory {
    /// Creates `path` if needed and locks it. Fails if another process holds the lock.
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

    /// Creates `path` if needed and locks it. Waits while another process holds the lock.
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
        // An absolute path stays valid if the process changes its working directory.
        let path = std::path::absolute(path).map_err(io)?;
        let mut file = loop {
            let mut file = lock_file(&path)?;
            lock(&mut file)?;
            // If the lock file was removed meanwhile, the lock on it does not stop other processes.
            let held = file.metadata().map_err(io)?;
            if number_of(&path.join(LOCK)).map_err(io)? == Some((held.dev(), held.ino())) {
                break file;
            }
        };
        // The process id is only for the error message that other processes show.
        let named = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        named.map_err(io)?;
        Ok(Self { path, lock: file })
    }

    /// Records device and inode of the store's files, to detect their removal later.
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

    /// Path of SQLite's write-ahead log.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("plane.sqlite3-wal")
    }

    /// Path of the record of the newest acknowledged commit.
    pub(crate) fn acked(&self) -> PathBuf {
        self.path.join("plane.acked")
    }

    /// Makes the directory's entries durable, so that the files survive a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

/// The files of an open store, by path, device and inode.
#[derive(Debug)]
pub(crate) struct Identity(Vec<(PathBuf, (u64, u64))>);

impl Identity {
    /// Checks that all files are still the ones that were opened. Otherwise returns the path of one that is not.
    pub(crate) fn check(&self) -> Result<(), PathBuf> {
        let gone = |(path, number): &&(PathBuf, (u64, u64))| {
            // A file that cannot be examined is not known to be gone.
            number_of(path).is_ok_and(|found| found != Some(*number))
        };
        let gone = self.0.iter().find(gone);
        gone.map_or(Ok(()), |(path, _)| Err(path.clone()))
    }
}

/// Device and inode of the file at `path`, or `None` if there is no file.
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
        // The new directory entry has to survive a power cut.
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
