//! The layout of the state directory. Other modules get the paths of its files from here.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use crate::{manifest, socket};

/// A state directory, and the paths of the files in it.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// Creates the layout for the state directory `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// Creates the directory with mode 0700, and the given manifest if there is none. Returns true if it wrote the
    /// manifest.
    ///
    /// # Errors
    /// When the directory or the manifest cannot be written, when other users may write to the directory, or when its
    /// path is too long for the control socket in it.
    pub fn prepare(&mut self, manifest: &str) -> io::Result<bool> {
        let mut directory = fs::DirBuilder::new();
        directory.recursive(true).mode(0o700).create(&self.0)?;
        self.0 = self.0.canonicalize()?;
        self.is_ours()?;
        socket::address(&self.control())?;
        fs::create_dir_all(self.cells())?;
        let missing = !self.manifest().exists();
        if missing {
            fs::write(self.manifest(), manifest)?;
        }
        Ok(missing)
    }

    /// Refuses a directory in which other users could replace files.
    fn is_ours(&self) -> io::Result<()> {
        let mode = self.0.metadata()?.mode();
        if mode & 0o022 == 0 {
            return Ok(());
        }
        let dir = self.0.display();
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "other users may write to {dir} (mode {:o}) and could replace the control plane's files: run \
                 `chmod go-w {dir}`, or choose another directory with --state",
                mode & 0o7777
            ),
        ))
    }

    /// Path of the state directory itself.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Path of the manifest, the source of truth.
    pub fn manifest(&self) -> PathBuf {
        self.0.join(manifest::NAME)
    }

    /// Path of the directory with the control plane's store.
    pub fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// Path of the socket that the running control plane listens on.
    pub fn control(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// Path of the file with the firing alerts, one per line. If the file is missing, no alert fires.
    pub fn alerts(&self) -> PathBuf {
        self.0.join("alerts")
    }

    /// Path of the directory that holds the directories of all cells.
    pub fn cells(&self) -> PathBuf {
        self.0.join("cells")
    }

    /// Path of the directory of the cell `name`.
    pub fn cell(&self, name: &str) -> PathBuf {
        self.cells().join(name)
    }

    /// Path of the service's SQLite database.
    pub fn database(&self) -> PathBuf {
        self.0.join("database.sqlite")
    }

    /// Path of the directory of the press.
    pub fn press(&self) -> PathBuf {
        self.0.join("press")
    }

    /// Returns the names of all cells that have a directory here, sorted. A cell need not be running.
    ///
    /// # Errors
    /// When the directory of the cells exists but cannot be read.
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
