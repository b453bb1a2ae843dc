//! The files of the repository, read once. The rules work on these values and read no files.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// All text files of the repository that people write.
#[derive(Debug)]
pub struct Tree {
    /// Absolute path of the repository's root.
    pub root: PathBuf,
    /// Text files of the repository, sorted by path.
    pub files: Vec<File>,
}

/// One text file of the repository.
#[derive(Debug, Clone)]
pub struct File {
    /// Path relative to the root, with `/` between folders.
    pub path: String,
    /// Whole content of the file.
    pub text: String,
}

/// Folders of build output and run-time state, as in `.gitignore`.
const NOT_OURS: [&str; 2] = ["target", "state"];
/// Extensions of text files.
const TEXTS: [&str; 7] = ["rs", "toml", "md", "yaml", "json", "sh", "js"];
/// Text files without an extension.
const SCRIPTS: [&str; 4] = [".ci/run", ".ci/test", ".ci/quick", ".ci/packages"];

impl Tree {
    /// Reads the repository that contains this crate.
    ///
    /// # Errors
    /// When a directory or a file cannot be read.
    pub fn read() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = root.canonicalize()?;
        let mut files = Vec::new();
        walk(&root, &root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root, files })
    }

    /// Iterates over the Rust files, sorted by path.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The text of the file at `path`; `None` if there is no such file.
    pub fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }
}

impl File {
    /// Whether the file contains tests only, by its path.
    pub fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hidden = name.starts_with('.') && name != ".ci";
        if hidden || (folder == root && NOT_OURS.contains(&&*name)) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, files)?;
            continue;
        }
        let relative = path.strip_prefix(root).unwrap_or(&path);
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let script = SCRIPTS.iter().any(|script| relative == Path::new(script));
        if TEXTS.contains(&&*extension) || script {
            files.push(File {
                path: relative.to_string_lossy().replace('\\', "/"),
                text: fs::read_to_string(&path)?,
            });
        }
    }
    Ok(())
}
