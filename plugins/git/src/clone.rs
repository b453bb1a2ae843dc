//! The clone on disk: a bare repository in a directory of its own, made when needed, removed when it cannot be used.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use gix::{ThreadSafeRepository, create, open};
use plugin_sdk::{Problem, with_causes};
use tempfile::TempDir;

/// Each commit that is fetched adds a pack. With more packs than this the clone is made again.
const MOST_PACKS: usize = 50;

/// A directory for one clone. Made with the first reading.
#[derive(Debug, Default)]
pub(crate) struct Clone {
    /// The directory that the user named. `None`: a temporary one.
    kept_in: Option<PathBuf>,
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    repository: PathBuf,
    /// Removes the temporary directory when dropped.
    _temporary: Option<TempDir>,
    /// Locked for as long as this process uses the clone.
    lock: Option<File>,
}

impl Clone {
    pub(crate) fn kept_in(directory: PathBuf) -> Self {
        Self {
            kept_in: Some(directory),
            place: None,
        }
    }

    /// Opens the clone, and makes it if there is none. `name` tells it from other clones in the same directory.
    pub(crate) fn open(&mut self, name: &str) -> Result<gix::Repository, Problem> {
        let path = self.place(name)?.repository.clone();
        if packs(&path) > MOST_PACKS {
            remove(&path)?;
        }
        let options = || open::Options::isolated().with(gix::sec::Trust::Full);
        let opened = match path.join("HEAD").exists() {
            true => options().open_path_as_is(true).open(&path),
            false => {
                remove(&path)?;
                fs::create_dir_all(&path).map_err(|error| cannot("make", &path, &error))?;
                let new = create::Options::default();
                ThreadSafeRepository::init_opts(&path, create::Kind::Bare, new, options())
            }
        };
        let opened = opened.map_err(|error| {
            let error = with_causes(&error);
            Problem::new(format!("cannot open the clone: {error}")).at(path.to_string_lossy(), 0, 0)
        });
        opened.map(|repository| repository.to_thread_local())
    }

    /// Removes the clone. The next [`Self::open`] makes it again.
    pub(crate) fn remove(&self) -> Result<(), Problem> {
        let place = self.place.as_ref();
        place.map_or(Ok(()), |place| remove(&place.repository))
    }

    fn place(&mut self, name: &str) -> Result<&Place, Problem> {
        let place = match self.place.take() {
            Some(place) => place,
            None => match &self.kept_in {
                Some(directory) => Place::kept_in(directory, name)?,
                None => Place::temporary()?,
            },
        };
        Ok(self.place.insert(place))
    }
}

impl Place {
    fn temporary() -> Result<Self, Problem> {
        let made = tempfile::Builder::new().prefix("git-source-").tempdir();
        let made = made.map_err(|error| cannot("make", &std::env::temp_dir(), &error))?;
        Ok(Self {
            repository: made.path().join("clone.git"),
            _temporary: Some(made),
            lock: None,
        })
    }

    fn kept_in(directory: &Path, name: &str) -> Result<Self, Problem> {
        let start = &name[..name.len().min(16)];
        fs::create_dir_all(directory).map_err(|error| cannot("make", directory, &error))?;
        let path = directory.join(format!("{start}.lock"));
        let lock = File::create(&path).map_err(|error| cannot("make", &path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = "another source reads the same ref with a clone in this directory; name another directory";
                return Err(Problem::new(message).at(directory.to_string_lossy(), 0, 0));
            }
            Err(TryLockError::Error(error)) => return Err(cannot("lock", &path, &error)),
        }
        Ok(Self {
            repository: directory.join(format!("{start}.git")),
            _temporary: None,
            lock: Some(lock),
        })
    }
}

impl Drop for Place {
    /// Unlocks at once: a program that is just being started may have a copy of the file, and would keep it locked.
    fn drop(&mut self) {
        let _ = self.lock.as_ref().map(File::unlock);
    }
}

fn packs(repository: &Path) -> usize {
    let files = fs::read_dir(repository.join("objects/pack"));
    let packs = files.into_iter().flatten().flatten();
    let packs = packs.filter(|file| file.path().extension().is_some_and(|it| it == "pack"));
    packs.count()
}

fn remove(repository: &Path) -> Result<(), Problem> {
    match fs::remove_dir_all(repository) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(cannot("remove", repository, &error))
        }
        _ => Ok(()),
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Problem {
    let message = format!(
        "cannot {what} it for the clone of a repository: {error}; name a directory that this process may change"
    );
    Problem::new(message).at(path.to_string_lossy(), 0, 0)
}
