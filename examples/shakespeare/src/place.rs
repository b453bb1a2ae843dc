//! Where things are: the state directory's layout, known here only.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::{
    control::socket,
    model::{Manifest, SOURCE},
};

/// A state directory.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// The state directory at `dir`, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// Makes the directory, for its user alone, and a manifest if there is none. Says whether it made one.
    ///
    /// # Errors
    /// When the directory or the manifest cannot be written, when other users may write to the directory, and when its
    /// path is too long for the socket in it.
    pub fn prepare(&mut self) -> io::Result<bool> {
        let mut directory = fs::DirBuilder::new();
        directory.recursive(true).mode(0o700).create(&self.0)?;
        self.0 = self.0.canonicalize()?;
        self.is_ours()?;
        socket::address(&self.control())?;
        fs::create_dir_all(self.cells())?;
        let missing = !self.manifest().exists();
        if missing {
            fs::write(self.manifest(), Manifest::DEFAULT)?;
        }
        Ok(missing)
    }

    /// Other users must not be able to put their own files in place of ours.
    fn is_ours(&self) -> io::Result<()> {
        let mode = self.0.metadata()?.mode();
        if mode & 0o022 == 0 {
            return Ok(());
        }
        let dir = self.0.display();
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "other users may write to {dir} (mode {:o}), and so act as the control plane: `chmod go-w {dir}`, or \
                 name another directory with --state",
                mode & 0o7777
            ),
        ))
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The source of truth.
    pub fn manifest(&self) -> PathBuf {
        self.0.join(SOURCE)
    }

    /// What the control plane remembers.
    pub fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// The socket that the running control plane listens on.
    pub fn control(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// What fires, one alert per line. Nothing, without it.
    pub fn alerts(&self) -> PathBuf {
        self.0.join("alerts")
    }

    /// The directories of all cells.
    pub fn cells(&self) -> PathBuf {
        self.0.join("cells")
    }

    /// The directory of one cell.
    pub fn cell(&self, name: &str) -> PathBuf {
        self.cells().join(name)
    }

    /// The service's database.
    pub fn database(&self) -> PathBuf {
        self.0.join("database.sqlite")
    }

    /// The cells that there are or were, by name.
    ///
    /// # Errors
    /// When the directory is there and cannot be read.
    pub fn cell_names(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.cells()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
}
