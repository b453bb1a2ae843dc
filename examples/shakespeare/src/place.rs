//! Where things are: the state directory's layout, known here only.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::model::{Manifest, SOURCE};

/// A state directory.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// The state directory at `dir`, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// Makes the directory, and a manifest if there is none. Says whether it made one.
    ///
    /// # Errors
    /// When the directory or the manifest cannot be written.
    pub fn prepare(&mut self) -> io::Result<bool> {
        fs::create_dir_all(self.cells())?;
        self.0 = self.0.canonicalize()?;
        let missing = !self.manifest().exists();
        if missing {
            fs::write(self.manifest(), Manifest::DEFAULT)?;
        }
        Ok(missing)
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

    /// Where the running control plane listens.
    pub fn control(&self) -> PathBuf {
        self.0.join("control.json")
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
