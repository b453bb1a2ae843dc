//! Tests with real processes. Each file has one topic; what several of them need is here.

mod changing;
mod ending;
mod recipes;
mod running;

use std::{
    fs,
    path::{Path, PathBuf},
};

use plugin_sdk::{Document, Reading, SourceOfTruth};
use tempfile::TempDir;

use super::{Exec, program::Program};

/// A directory with a shell script, and what it leaves there.
struct Script {
    dir: TempDir,
}

impl Script {
    /// A script that prints, and first notes each of its runs.
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let script = Self { dir };
        script.write("render.sh", &format!("echo >> runs\n{text}\n"));
        script.write("runs", "");
        script
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// A source that runs the script, which is its only input.
    fn source(&self) -> Exec {
        Exec::new("rendered", "sh")
            .arg("render.sh")
            .current_dir(self.dir.path())
            .input("render.sh")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
    }

    /// The number of runs so far.
    fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs"))
            .unwrap()
            .lines()
            .count()
    }
}

/// The problems of a source, which must have some.
async fn refused(source: &Exec) -> String {
    source.read().await.unwrap_err().to_string()
}

async fn read(source: &Exec) -> Reading {
    source.read().await.unwrap()
}

/// The values of documents.
fn values(documents: &[Document]) -> Vec<serde_json::Value> {
    let value = |document: &Document| document.read().unwrap();
    documents.iter().map(value).collect()
}

/// Writes files, and the directories that they are in.
fn write_all(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
