//! What the Linux kernel tells about the files of a directory.
//!
//! The kernel queues an event before the system call that makes the change returns. A reader that empties the queue in
//! its own thread therefore sees every change that was complete before. With a thread that hands events over, a reading
//! could miss the change it was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    mem::MaybeUninit,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags},
    io::Errno,
};

use super::walk::{Passed, Wanted};

/// Numbers of the file systems whose every change passes through this kernel: ext2 to ext4, XFS, Btrfs, bcachefs, F2FS,
/// ZFS, tmpfs, ramfs, overlayfs. Other file systems may be changed by other machines.
const LOCAL: [u32; 9] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xCA45_1A4E,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
];

/// The events of all directories that are watched: an entry comes or goes, or its rights change.
const ENTRIES: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF);

/// The events of directories whose files are read: the content of a file changes too.
const CONTENT: WatchFlags = ENTRIES
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::CLOSE_WRITE);

/// How each directory is watched. Directories that are reached by two paths have the events of both.
const HOW: WatchFlags = WatchFlags::ONLYDIR
    .union(WatchFlags::DONT_FOLLOW)
    .union(WatchFlags::MASK_ADD);

/// The files that were told about: the path under which each is reported, and its path without links.
pub(super) type Files = BTreeMap<PathBuf, PathBuf>;

/// Running watches on everything on which the files of a directory depend.
#[derive(Debug)]
pub(super) struct Watches {
    queue: OwnedFd,
    wanted: Wanted,
    /// The directories of each watch. Several paths can lead to one directory.
    directories: BTreeMap<i32, Vec<Watched>>,
    /// The links and directories on the way, and the targets of links.
    passed: BTreeSet<PathBuf>,
    /// The root and its inode, which a mount changes without an event.
    root: (PathBuf, Option<(u64, u64)>),
}

/// A directory that is watched.
#[derive(Debug, Clone)]
struct Watched {
    /// The path without links.
    target: PathBuf,
    /// The path under which the directory is reported, if its files are read.
    path: Option<PathBuf>,
}

impl Watches {
    /// Watches everything that a walk has passed. A listing after this call and all later events give the present files.
    ///
    /// # Errors
    /// When a directory cannot be watched, or a file system does not tell of all changes.
    pub(super) fn on(passed: &Passed) -> io::Result<Self> {
        let root = passed.folders.first().map(|root| root.target.clone());
        let root = root.unwrap_or_default();
        let mut watches = Self {
            queue: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            wanted: passed.wanted,
            directories: BTreeMap::new(),
            passed: passed.links.passed().map(Path::to_owned).collect(),
            root: (root.clone(), inode(&root)),
        };
        // In the order of their paths each directory comes after its parents. What replaces it is told by its parent.
        let mut all = BTreeMap::new();
        for path in passed.links.passed() {
            let holder = path.parent().unwrap_or(path).to_owned();
            let flags = all.entry(holder).or_insert((ENTRIES, None));
            // Links lead to files in directories that are not read.
            if !path.is_dir() {
                flags.0 = CONTENT;
            }
        }
        for folder in &passed.folders {
            all.insert(folder.target.clone(), (CONTENT, Some(folder.path.clone())));
        }
        for (target, (flags, path)) in all {
            watches.watch(Watched { target, path }, flags)?;
        }
        Ok(watches)
    }

    fn watch(&mut self, directory: Watched, flags: WatchFlags) -> io::Result<()> {
        let watch = inotify::add_watch(&self.queue, &directory.target, flags | HOW)?;
        if flags == CONTENT {
            let kind = rustix::fs::statfs(&directory.target)?.f_type;
            if !LOCAL.iter().any(|local| u32::try_from(kind) == Ok(*local)) {
                let message = "changes on this file system may come from other machines";
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
        }
        self.directories.entry(watch).or_default().push(directory);
        Ok(())
    }

    /// Adds the files that have changed since the last call to `files`. Every change that was complete before the call
    /// is among them.
    ///
    /// Returns false if only a new listing can tell what has changed: events were lost, or a directory or a link has
    /// changed.
    pub(super) fn told(&self, files: &mut Files) -> bool {
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 16_384];
        let mut events = Reader::new(&self.queue, &mut buffer);
        loop {
            match events.next() {
                Ok(event) if self.take(&event, files) => {}
                Err(Errno::INTR) => {}
                // The queue is empty.
                Err(Errno::WOULDBLOCK) => return inode(&self.root.0) == self.root.1,
                _ => return false,
            }
        }
    }

    /// Takes in one event. Returns false if only a new listing can tell what has changed.
    fn take(&self, event: &Event<'_>, files: &mut Files) -> bool {
        let (Some(name), Some(directories)) =
            (event.file_name(), self.directories.get(&event.wd()))
        else {
            // The queue was full, or a directory that is watched has changed itself.
            return false;
        };
        let name = OsStr::from_bytes(name.to_bytes());
        directories.iter().all(|directory| {
            let target = directory.target.join(name);
            let folder = directory.path.as_ref();
            if self.passed.contains(&target) {
                return false;
            }
            if event.events().contains(ReadFlags::ISDIR) {
                return folder.is_none() || self.wanted.ignores(name);
            }
            match folder {
                Some(folder) if self.wanted.has(name) => {
                    files.insert(folder.join(name), target);
                    true
                }
                // Whatever its name, a link can lead to a directory, which is refused.
                Some(_) if !self.wanted.ignores(name) => !is_link(&target),
                _ => true,
            }
        })
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}
