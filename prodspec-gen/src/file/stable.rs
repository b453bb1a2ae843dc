//! Reads files in one consistent state. Links are resolved once, and only regular files are opened. The files found
//! before the first byte is read are compared with the files found after the last byte was read.
//!
//! A file whose state is known from an earlier reading is not opened again.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use plugin_sdk::{Problem, Problems};

use super::links::Links;
use crate::kept::Placed;

/// Number of times that files are read while they keep changing, before it is reported as a problem.
pub(super) const TRIES: u32 = 5;

/// The age from which the state of a file tells its content. Longer than a tick of the clock of any file system.
const TICK: Duration = Duration::from_secs(3);

/// The message of that problem.
pub(super) const CHANGES: &str =
    "changes while it is being read; read it again when it no longer changes";

/// Pairs of a file's path and its bytes.
pub(crate) type Files = Vec<(PathBuf, Vec<u8>)>;

/// A file to be read, in the state in which it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The path under which the file is reported, with links.
    path: PathBuf,
    /// The file at that path, or the reason why it cannot be read.
    there: Result<There, Problem>,
}

/// The regular file that a path leads to.
#[derive(Debug, Clone, PartialEq)]
struct There {
    /// The path without links.
    target: PathBuf,
    seen: Seen,
}

/// The metadata that identifies the state of a file without reading it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    inode: (u64, u64),
    len: u64,
    modified: Option<SystemTime>,
    /// When the content or the metadata changed last. Unlike `modified`, programs cannot set it. `None`: the system
    /// does not tell.
    changed: Option<SystemTime>,
}

impl Seen {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: inode(metadata),
            len: metadata.len(),
            modified: metadata.modified().ok(),
            changed: changed(metadata),
        }
    }

    /// Whether the state was old enough at the time `now` to tell the content: a later change would show. Soon after a
    /// change, the clock of the file system may give the next change the same time.
    fn is_settled(&self, now: SystemTime) -> bool {
        let old = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age >= TICK);
        self.changed.or(self.modified).is_some_and(old)
    }
}

impl Placed for Found {
    fn place(&self) -> &Path {
        &self.path
    }
}

impl Found {
    /// Finds the file that is reported as `path` at the target of `way`, which may contain links.
    pub(crate) fn linked(path: PathBuf, way: &Path, links: &mut Links) -> Self {
        let target = links
            .resolve(way)
            .map_err(|error| cannot_read(&path, &error));
        let there = target.and_then(|target| There::at(&path, target));
        Self { path, there }
    }

    /// An entry at `path` that is refused, such as a link to a directory.
    pub(super) fn refused(path: PathBuf, message: &str) -> Self {
        let there = Err(at(&path, message));
        Self { path, there }
    }

    /// Finds the file that is reported as `path` at `target`, which contains no links.
    pub(crate) fn direct(path: PathBuf, target: PathBuf) -> Self {
        let there = There::at(&path, target);
        Self { path, there }
    }

    /// Finds the file that is reported as `path` at `target` again, if there is one. An error: its directory has to be
    /// listed, because there is no file now, but a link or a directory.
    pub(super) fn again(path: &Path, target: &Path) -> io::Result<Option<Self>> {
        let metadata = match fs::symlink_metadata(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        if metadata.is_dir() || metadata.is_symlink() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let there = There::of(path, target.into(), &metadata);
        let path = path.into();
        Ok(Some(Self { path, there }))
    }

    /// The path of the file without links. `None`: it cannot be read.
    pub(super) fn target(&self) -> Option<&Path> {
        self.there.as_ref().ok().map(|there| &*there.target)
    }

    /// The length of the file in bytes. Zero if it cannot be read.
    pub(super) fn len(&self) -> u64 {
        self.there.as_ref().map_or(0, |there| there.seen.len)
    }

    /// Whether the state of the file tells its content, at the time `now` of its listing.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        self.there
            .as_ref()
            .is_ok_and(|there| there.seen.is_settled(now))
    }

    /// Reads the file, which may have at most `cap` bytes. `None`: the file has changed since it was found.
    pub(super) fn read(&self, cap: u64) -> Result<Option<Vec<u8>>, Problem> {
        let There { target, seen } = self.there.as_ref().map_err(Problem::clone)?;
        if seen.len > cap {
            let path = self.path.display().to_string();
            return Err(too_long(seen.len, cap).at(path, 0, 0));
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
        Self::of(path, target, &metadata)
    }

    fn of(path: &Path, target: PathBuf, metadata: &Metadata) -> Result<Self, Problem> {
        if !metadata.is_file() {
            return Err(at(
                path,
                "is not a regular file; directories, pipes, sockets and devices are not read: name a file, or move it elsewhere",
            ));
        }
        let seen = Seen::of(metadata);
        Ok(Self { target, seen })
    }
}

/// Finds the files of a reading.
pub(crate) trait Look {
    /// What a listing finds: at least the files that may have to be read.
    type Listing: AsRef<[Found]>;

    /// Lists the files in their present state.
    fn list(&mut self) -> Result<Self::Listing, Problem>;

    /// Whether each file of a listing is known, which means that it is not read again.
    fn known(&self, listing: &Self::Listing) -> Vec<bool>;

    /// Whether a listing of known files is compared with another one too, although no file is read.
    fn is_compared(&self) -> bool {
        false
    }

    /// Lists the files again, after the last of them was read. Returns whether they are as they were.
    fn stayed(&mut self, listing: &Self::Listing) -> bool;
}

/// Lists all files with `list`, before and after a reading.
struct Twice<L, K> {
    list: L,
    known: K,
}

impl<L, K> Look for Twice<L, K>
where
    L: Fn() -> Result<Vec<Found>, Problem>,
    K: Fn(&[Found]) -> Vec<bool>,
{
    type Listing = Vec<Found>;

    fn list(&mut self) -> Result<Vec<Found>, Problem> {
        (self.list)()
    }

    fn known(&self, found: &Vec<Found>) -> Vec<bool> {
        (self.known)(found)
    }

    fn stayed(&mut self, found: &Vec<Found>) -> bool {
        (self.list)().is_ok_and(|after| after == *found)
    }
}

/// Reads all files that `list` finds at `place` in one consistent state: a second listing after the reading must find the
/// same files. Files for which `known` returns true are not opened; if that is all of them, one listing suffices.
/// Returns the files found, and the bytes of those that were read. `cap` is the maximum of the total length of all files
/// in bytes.
///
/// # Errors
/// One problem for each file that cannot be read, or one problem when the files keep changing.
pub(crate) fn read_all(
    place: &Path,
    list: impl Fn() -> Result<Vec<Found>, Problem>,
    known: impl Fn(&[Found]) -> Vec<bool>,
    cap: u64,
) -> Result<(Vec<Found>, Files), Problems> {
    read(place, &mut Twice { list, known }, cap)
}

/// Reads the files that `look` finds, as [`read_all`] does.
pub(super) fn read<L: Look>(
    place: &Path,
    look: &mut L,
    cap: u64,
) -> Result<(L::Listing, Files), Problems> {
    let mut last = at(place, CHANGES);
    for _ in 0..TRIES {
        let listing = match look.list() {
            Ok(listing) => listing,
            Err(problem) => {
                last = problem;
                continue;
            }
        };
        let (known, found) = (look.known(&listing), listing.as_ref());
        let all = known.iter().all(|known| *known) && total(found) <= cap;
        if all && !look.is_compared() {
            return Ok((listing, Files::new()));
        }
        let read = read_once(found, &known, cap);
        let stayed = look.stayed(&listing);
        match read.transpose() {
            Some(files) if stayed => return files.map(|files| (listing, files)),
            _ => last = at(place, CHANGES),
        }
    }
    Err(last.into())
}

fn total(found: &[Found]) -> u64 {
    found.iter().map(Found::len).fold(0, u64::saturating_add)
}

/// Reads all files once that are not known. `None`: a file has changed since it was found.
fn read_once(found: &[Found], known: &[bool], cap: u64) -> Result<Option<Files>, Problems> {
    let mut left = cap;
    let (mut files, mut problems) = (Vec::new(), Problems::none());
    for (file, known) in found.iter().zip(known) {
        if *known && file.len() <= left {
            left -= file.len();
            continue;
        }
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

/// The problem of a file with more than `cap` bytes.
pub(crate) fn too_long(len: u64, cap: u64) -> Problem {
    Problem::new(format!(
        "{len} bytes long, {cap} are allowed; split the file"
    ))
}

/// A problem with the file or directory at `path`.
pub(crate) fn at(path: &Path, message: impl std::fmt::Display) -> Problem {
    Problem::new(message).at(path.display().to_string(), 0, 0)
}

/// The problem for an error of the operating system at the file or directory at `path`.
pub(crate) fn cannot_read(path: &Path, error: &io::Error) -> Problem {
    at(path, format!("cannot be read: {error}"))
}

/// Opens a file without waiting and without following a link. If the file was replaced by a pipe or a link after it was
/// found, the caller notices it and does not wait.
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

#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;

    let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
    let nanos = Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).ok()?);
    SystemTime::UNIX_EPOCH.checked_add(seconds + nanos)
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<SystemTime> {
    None
}
