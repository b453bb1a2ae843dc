//! The files of the repository, read once: everything else here works on values.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// All texts that people write, by path.
#[derive(Debug)]
pub struct Tree {
    /// The root of the repository.
    pub root: PathBuf,
    /// Its files, sorted by path.
    pub files: Vec<File>,
}

/// One file.
#[derive(Debug, Clone)]
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// Build output and run-time state, as in `.gitignore`.
const NOT_OURS: [&str; 2] = ["target", "state"];
const TEXTS: [&str; 7] = ["rs", "toml", "md", "yaml", "json", "sh", "js"];
/// Texts without an extension.
const SCRIPTS: [&str; 1] = [".ci/run"];

impl Tree {
    /// Reads the repository that this crate is in.
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

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The text of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        let file = self.files.iter().find(|file| file.path == path)?;
        Some(&file.text)
    }
}

impl File {
    /// Whether the file holds tests only.
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
