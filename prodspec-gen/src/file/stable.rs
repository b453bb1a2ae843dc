//! Reading files of one state: links are resolved once, regular files only are opened, and what was found before the
//! first byte was read is compared with what is there after the last one.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use plugin_sdk::{Problem, Problems};

use super::links::Links;

/// How often files are read that change meanwhile, before it is said.
const TRIES: u32 = 5;

/// What is said then.
const CHANGES: &str = "changes while it is being read; it is read again when it is quiet";

/// Files by their names, each with its bytes.
pub(super) type Files = Vec<(PathBuf, Vec<u8>)>;

/// A file to be read, as it was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// Its path as it is named, links included.
    path: PathBuf,
    /// What is there, or why it cannot be read.
    there: Result<There, Problem>,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq)]
struct There {
    /// The path without links.
    target: PathBuf,
    seen: Seen,
}

/// What identifies a state of a file from outside.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    inode: (u64, u64),
    len: u64,
    modified: Option<SystemTime>,
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: inode(metadata),
            len: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

impl Found {
    /// Goes where `way` leads, which is where the file named `path` is.
    pub(super) fn linked(path: PathBuf, way: &Path, links: &mut Links) -> Self {
        let target = links
            .resolve(way)
            .map_err(|error| cannot_read(&path, &error));
        let there = target.and_then(|target| There::at(&path, target));
        Self { path, there }
    }

    /// The file named `path` is at `target`, which has no links.
    pub(super) fn direct(path: PathBuf, target: PathBuf) -> Self {
        let there = There::at(&path, target);
        Self { path, there }
    }

    /// The path as it is named, to sort by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes, of which there may be `cap`. `None`: the file is not as it was found.
    fn read(&self, cap: u64) -> Result<Option<Vec<u8>>, Problem> {
        let There { target, seen } = self.there.as_ref().map_err(Problem::clone)?;
        if seen.len > cap {
            let message = format!("{} bytes long, {cap} are allowed; split it up", seen.len);
            return Err(at(&self.path, message));
        }
        let cannot = |error| cannot_read(&self.path, &error);
        let file = open(target).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if !metadata.is_file() || Seen::of(&metadata) != *seen {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut bounded = (&file).take(seen.len + 1);
        let read = bounded.read_to_end(&mut bytes).map_err(cannot)?;
        Ok((read as u64 == seen.len).then_some(bytes))
    }
}

impl There {
    fn at(path: &Path, target: PathBuf) -> Result<Self, Problem> {
        let metadata = fs::symlink_metadata(&target).map_err(|error| cannot_read(path, &error))?;
        if !metadata.is_file() {
            return Err(at(
                path,
                "is no regular file; directories, pipes, sockets and devices are not read: name a file, or move it away",
            ));
        }
        let seen = Seen::of(&metadata);
        Ok(Self { target, seen })
    }
}

/// The bytes of the file at `path`.
///
/// # Errors
/// When it cannot be read, is too long, is no regular file, or does not stay as it is.
pub(super) fn read_file(path: &Path, cap: u64) -> Result<Vec<u8>, Problems> {
    let list = || {
        Ok(vec![Found::linked(
            path.to_owned(),
            path,
            &mut Links::default(),
        )])
    };
    let files = read_all(path, list, cap)?;
    Ok(files.into_iter().flat_map(|(_, bytes)| bytes).collect())
}

/// Every file that `list` finds at `place`, each with its bytes: all of one state, at which listing them again finds
/// the same. `cap` bounds them together.
///
/// # Errors
/// Everything that cannot be read; and when files do not stay as they are.
pub(super) fn read_all(
    place: &Path,
    list: impl Fn() -> Result<Vec<Found>, Problem>,
    cap: u64,
) -> Result<Files, Problems> {
    let mut last = at(place, CHANGES);
    for _ in 0..TRIES {
        let found = match list() {
            Ok(found) => found,
            Err(problem) => {
                last = problem;
                continue;
            }
        };
        let read = read_once(&found, cap);
        let stayed = list().is_ok_and(|after| after == found);
        match read.transpose() {
            Some(files) if stayed => return files,
            _ => last = at(place, CHANGES),
        }
    }
    Err(last.into())
}

/// `None`: a file is not as it was found.
fn read_once(found: &[Found], cap: u64) -> Result<Option<Files>, Problems> {
    let mut left = cap;
    let (mut files, mut problems) = (Vec::new(), Problems::none());
    for file in found {
        match file.read(left) {
            Ok(Some(bytes)) => {
                left -= bytes.len() as u64;
                files.push((file.path.clone(), bytes));
            }
            Ok(None) => return Ok(None),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() {
        Ok(Some(files))
    } else {
        Err(problems)
    }
}

/// Something is wrong with the file or directory at `path`.
pub(super) fn at(path: &Path, message: impl std::fmt::Display) -> Problem {
    Problem::new(message).at(path.display().to_string(), 0, 0)
}

/// What the system says of the file or directory at `path`.
pub(super) fn cannot_read(path: &Path, error: &io::Error) -> Problem {
    at(path, format!("cannot be read: {error}"))
}

/// Opens without waiting, and no link: a pipe or a link that was put there meanwhile is noticed instead.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits();
    let flags = i32::try_from(flags).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;

    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> (u64, u64) {
    (0, 0)
}
