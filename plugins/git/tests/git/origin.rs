//! A real repository, changed with the program `git`, and a tree that counts the files that are read.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
};

use plugin_sdk::{Document, Problem, Problems, SourceOfTruth};
use prodspec_gen::tree::{Content, Entry, Selection, Snapshot, Stop, Tree};
use prodspec_model::Revision;

/// A repository with a working directory, removed when dropped.
pub(crate) struct Origin {
    dir: tempfile::TempDir,
}

impl Origin {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let origin = Self { dir };
        origin.git(&["init", "--quiet", "--initial-branch=main", "."]);
        origin
    }

    /// A repository whose first commit has these files.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let origin = Self::new();
        for (path, text) in files {
            origin.write(path, text);
        }
        origin.commit();
        origin
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Commits everything. Returns the id of the commit.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=change"]);
        self.head()
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// Runs Git without any configuration of this machine.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(self.path()).args(arguments);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GIT_")) {
            git.env_remove(name);
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "tester");
            git.env(format!("GIT_{role}_EMAIL"), "tester@example.com");
        }
        let output = git.output();
        let output = output.expect("these tests need the program `git`: install it");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A tree that notes the paths of the files that are read.
pub(crate) struct Counting<T> {
    tree: T,
    read: Arc<Mutex<Vec<String>>>,
}

impl<T: Tree> Counting<T> {
    pub(crate) fn new(tree: T) -> (Self, Arc<Mutex<Vec<String>>>) {
        let read = Arc::default();
        let counting = Self {
            tree,
            read: Arc::clone(&read),
        };
        (counting, read)
    }
}

impl<T: Tree> Tree for Counting<T> {
    fn look(
        &mut self,
        last: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
        let Some(snapshot) = self.tree.look(last, stop)? else {
            return Ok(None);
        };
        let read = &self.read;
        Ok(Some(Box::new(Noted { snapshot, read })))
    }
}

struct Noted<'t> {
    snapshot: Box<dyn Snapshot + 't>,
    read: &'t Mutex<Vec<String>>,
}

impl Snapshot for Noted<'_> {
    fn revision(&self) -> Revision {
        self.snapshot.revision()
    }

    fn list(&mut self, selection: &Selection) -> Result<Vec<Entry>, Problems> {
        self.snapshot.list(selection)
    }

    fn read(&mut self, entry: &Entry, cap: u64) -> Result<Content, Problem> {
        self.read.lock().unwrap().push(entry.path().to_owned());
        self.snapshot.read(entry, cap)
    }
}

pub(crate) fn names(documents: &[Document]) -> Vec<String> {
    documents.iter().map(Document::name).collect()
}

pub(crate) async fn refusal(source: &impl SourceOfTruth) -> String {
    match source.read().await {
        Ok(reading) => panic!("{reading:?}"),
        Err(problems) => problems.to_string(),
    }
}
