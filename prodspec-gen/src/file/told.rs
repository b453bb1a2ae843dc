//! Which files a reading has to look at: those about which the system has told since the reading before, or all (R43).
//!
//! Only Linux tells in a way that can be relied on. On other systems, and where the watches cannot be set up, a reading
//! looks at all files.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

#[cfg(target_os = "linux")]
use super::inotify::{Files, Watches};
use super::{stable::Found, walk::Passed};
#[cfg(not(target_os = "linux"))]
use silent::{Files, Watches};

/// The time after which all files are listed, although the system tells of changes. Default of the setting.
pub(super) const LIST_AFTER: Duration = Duration::from_secs(300);

/// The files that a reading looks at, sorted by path.
#[derive(Debug, PartialEq)]
pub(super) enum Listing {
    /// All files, and what their list depends on.
    All(Vec<Found>, Option<Passed>),
    /// Some files, and the paths of those that are not there any more. All other files are as they were.
    Some(Vec<Found>, Vec<PathBuf>),
}

impl AsRef<[Found]> for Listing {
    fn as_ref(&self) -> &[Found] {
        let (Self::All(files, _) | Self::Some(files, _)) = self;
        files
    }
}

/// What the system has told about a directory since it was read last.
#[derive(Debug, Default)]
pub(super) struct Told {
    watches: Option<Watches>,
    /// Whether the files that are kept were listed after the watches were set up.
    relied_on: bool,
    /// When all files were listed last, or the watches could not be set up.
    listed: Option<SystemTime>,
    files: Files,
}

impl Told {
    /// The files to look at, if the watches can be relied on. `after` is the time after which all files are listed.
    pub(super) fn listing(&mut self, now: SystemTime, after: Duration) -> Option<Listing> {
        if !self.relied_on || self.is_due(now, after) {
            self.forget();
        }
        self.look()
    }

    /// Looks at the files about which the system has told so far. `None`: all files have to be listed, also by later
    /// readings until one of them is kept.
    pub(super) fn look(&mut self) -> Option<Listing> {
        let listing = self.looked();
        if listing.is_none() {
            self.forget();
        }
        listing
    }

    fn looked(&mut self) -> Option<Listing> {
        if !self.watches.as_ref()?.told(&mut self.files) {
            return None;
        }
        let (mut files, mut gone) = (Vec::new(), Vec::new());
        for (path, target) in &self.files {
            match Found::again(path, target).ok()? {
                Some(found) => files.push(found),
                None => gone.push(path.clone()),
            }
        }
        Some(Listing::Some(files, gone))
    }

    /// Sets up watches on everything that a listing of all files depends on. Another listing has to follow. If it is not
    /// possible, it is tried again after the time `after`.
    pub(super) fn watch(&mut self, passed: &Passed, now: SystemTime, after: Duration) {
        if !self.is_due(now, after) {
            return;
        }
        self.listed = Some(now);
        match Watches::on(passed) {
            Ok(watches) => self.watches = Some(watches),
            Err(error) => {
                let directory = passed.folders.first().map(|root| root.path.display());
                let directory = directory.map(|path| path.to_string()).unwrap_or_default();
                tracing::debug!(%directory, %error, "the system does not tell of all changes in a directory; each reading looks at all of its files");
            }
        }
    }

    /// Whether the watches are set up, and another listing has to follow.
    pub(super) fn is_new(&self) -> bool {
        self.watches.is_some() && !self.relied_on
    }

    /// Notes that the files that were looked at are kept.
    pub(super) fn kept(&mut self) {
        self.files.clear();
        self.relied_on = self.watches.is_some();
    }

    /// Ends the watches. They are set up again with the next listing of all files.
    fn forget(&mut self) {
        if self.watches.take().is_some() {
            self.listed = None;
        }
        self.relied_on = false;
        self.files.clear();
    }

    /// Whether the time has come to list all files. True after a clock that went back.
    fn is_due(&self, now: SystemTime, after: Duration) -> bool {
        let listed = self.listed.map(|listed| now.duration_since(listed));
        !matches!(listed, Some(Ok(age)) if age < after)
    }
}

/// Systems that do not tell of changes.
#[cfg(not(target_os = "linux"))]
mod silent {
    use std::{collections::BTreeMap, io, path::PathBuf};

    use super::Passed;

    pub(super) type Files = BTreeMap<PathBuf, PathBuf>;

    #[derive(Debug)]
    pub(super) struct Watches;

    impl Watches {
        pub(super) fn on(_: &Passed) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn told(&self, _: &mut Files) -> bool {
            false
        }
    }
}
