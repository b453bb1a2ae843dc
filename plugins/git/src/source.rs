//! The source: which repository and ref to read, and where to keep the clone.

use std::path::PathBuf;

use gix::{ObjectId, bstr::BStr};
use plugin_sdk::{EditError, Problem, Problems, SourceChange};
use prodspec_gen::{
    format::{Format, Json, Toml, Yaml},
    tree::{EditableTree, NewText, Snapshot, Stop, Tree, TreeSource},
};
use prodspec_model::{Digest, Revision};

use crate::{
    clone::Clone,
    commit::{self, Committer, Pushed},
    fetch::{self, Failure, Found},
    snapshot::Commit,
    transport::Access,
};

/// A ref of a Git repository, whose files are a source of truth. The revision is the id of the commit.
///
/// Each reading asks the server for the commit of the ref. If it is a new one, the commit is fetched without its history
/// (depth 1), and only the files that have changed are read. Refs may be moved to any other commit, also by force.
///
/// The clone is a directory of its own, kept between readings. A clone that was damaged or deleted is made again. No
/// configuration of Git is read, no question is asked on a terminal, and no hook is run.
///
/// ```
/// use plugin_sdk::SourceOfTruth;
/// use plugins_git::Git;
///
/// let clusters = Git::new("ssh://git@example.com/platform/clusters.git")
///     .branch("main")
///     .ssh("ssh", ["-i", "/etc/keys/clusters"])
///     .clone_in("/var/cache/clusters")
///     .yaml()
///     .path("configs")
///     .named("clusters");
/// assert_eq!(clusters.name().0.as_ref(), "clusters");
/// ```
#[derive(Debug)]
pub struct Git {
    access: Access,
    /// The full name of the ref.
    reference: String,
    /// What it is called in messages.
    called: String,
    clone: Clone,
    /// Whether reading from the clone failed, so that it is made again.
    damaged: bool,
    committer: Committer,
}

impl Git {
    /// A source that reads the default branch of the repository at `url`: `ssh://`, `user@host:path`, `git://`,
    /// `file://` or a path. Local repositories need the program `git`, those behind SSH the program `ssh`. For `https://`,
    /// see the documentation of the crate.
    pub fn new(url: &str) -> Self {
        Self {
            access: Access::new(url),
            reference: "HEAD".into(),
            called: "default branch".into(),
            clone: Clone::default(),
            damaged: false,
            committer: Committer::default(),
        }
    }

    /// Reads a branch, such as `main`.
    #[must_use]
    pub fn branch(mut self, name: &str) -> Self {
        self.reference = format!("refs/heads/{name}");
        self.called = format!("branch `{name}`");
        self
    }

    /// Reads a tag, such as `v1`. The revision is the commit that it names.
    #[must_use]
    pub fn tag(mut self, name: &str) -> Self {
        self.reference = format!("refs/tags/{name}");
        self.called = format!("tag `{name}`");
        self
    }

    /// Reads any other ref by its full name, such as `refs/environments/production`.
    #[must_use]
    pub fn reference(mut self, name: &str) -> Self {
        self.reference = name.into();
        self.called = format!("ref `{name}`");
        self
    }

    /// Keeps the clone in a directory, so that it survives a restart. Several sources can share the directory, but no two
    /// processes can read the same ref in it. By default the clone is in a temporary directory.
    #[must_use]
    pub fn clone_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.clone = Clone::kept_in(directory.into());
        self
    }

    /// Sets the program for SSH, which has to understand the options of OpenSSH, and further arguments for it. `ssh` by
    /// default. It never asks: a host that is unknown, or a key with a passphrase and without an agent, is an error.
    #[must_use]
    pub fn ssh<'a>(mut self, program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.access = self.access.with_ssh(program, arguments);
        self
    }

    /// Sets the user and the password, or token, for `https://`.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.access = self.access.with_login(user, password);
        self
    }

    /// Sets the name and the address of the committer of [edits](plugin_sdk::EditableSource). The author's name is that of
    /// the program or person who edits; it has the same address.
    #[must_use]
    pub fn committer(mut self, name: &str, email: &str) -> Self {
        self.committer = Committer {
            name: name.into(),
            email: email.into(),
        };
        self
    }

    /// Makes a source of the YAML files of the tree.
    pub fn yaml(self) -> TreeSource<Self, Yaml> {
        self.files()
    }

    /// Makes a source of the JSON files of the tree.
    pub fn json(self) -> TreeSource<Self, Json> {
        self.files()
    }

    /// Makes a source of the TOML files of the tree.
    pub fn toml(self) -> TreeSource<Self, Toml> {
        self.files()
    }

    /// Makes a source of the files of another format in the tree. Its name is that of the repository.
    pub fn files<F: Format>(self) -> TreeSource<Self, F> {
        let name = name_of(self.access.url()).to_owned();
        TreeSource::new(&name, self)
    }

    fn open(&mut self) -> Result<gix::Repository, Problem> {
        let name = format!("{}\n{}", self.access.url(), self.reference);
        let name = Digest::of(name.as_bytes()).to_string();
        self.clone.open(&name)
    }

    /// Finds the present commit, and fetches it if it is not the `last` one.
    fn present(&mut self, last: Option<&str>, stop: &Stop) -> Result<Option<Found>, Failure> {
        let clone = self.open().map_err(Failure::Clone)?;
        let wanted = fetch::Wanted {
            reference: &self.reference,
            called: &self.called,
            last,
        };
        fetch::fetch(clone, &self.access, &wanted, stop)
    }
}

impl Tree for Git {
    fn look(
        &mut self,
        last: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
        check(&self.reference)?;
        let last = last.map(|revision| revision.0.to_string());
        if std::mem::take(&mut self.damaged) {
            self.clone.remove()?;
        }
        let mut found = self.present(last.as_deref(), stop);
        // A clone that cannot be used is made again, once.
        if matches!(found, Err(Failure::Clone(_))) && !stop.is_stopped() {
            self.clone.remove()?;
            found = self.present(last.as_deref(), stop);
        }
        match found {
            Ok(Some(found)) => Ok(Some(Box::new(Commit::new(found, &mut self.damaged)))),
            Ok(None) => Ok(None),
            Err(Failure::Clone(problem) | Failure::Remote(problem)) => Err(problem.into()),
        }
    }
}

/// An edit is a commit with the present one as its only parent, pushed by the program `git`, if the branch is still at that
/// commit. It needs a branch that this process may push to.
impl EditableTree for Git {
    fn follow(
        &mut self,
        before: &Revision,
        files: &[NewText],
        change: &SourceChange,
        _: &Stop,
    ) -> Result<Revision, Problems> {
        if !self.reference.starts_with("refs/heads/") {
            let message = format!(
                "its {} cannot be edited, because it is no branch; name a branch",
                self.called
            );
            return Err(self.access.problem(&message).into());
        }
        let before = ObjectId::from_hex(before.0.as_bytes()).map_err(Problem::new)?;
        let clone = self.open()?;
        let commit = commit::make(&clone, before, files, change, &self.committer)?;
        Ok(Revision(commit.to_string().into()))
    }

    fn advance(
        &mut self,
        before: &Revision,
        after: &Revision,
        stop: &Stop,
    ) -> Result<(), EditError> {
        let failed = |problem: Problem| EditError::Failed(problem.into());
        let clone = self.open().map_err(failed)?;
        let commits = (&*before.0, &*after.0);
        match commit::push(&clone, &self.access, &self.reference, commits, stop)? {
            Pushed::Done => Ok(()),
            Pushed::Moved => match self.present(None, stop) {
                Ok(found) => Err(EditError::Moved {
                    now: found.map_or(before.clone(), |found| {
                        Revision(found.id.to_string().into())
                    }),
                }),
                Err(Failure::Clone(problem) | Failure::Remote(problem)) => Err(failed(problem)),
            },
        }
    }
}

/// The name of the repository at `url`.
fn name_of(url: &str) -> &str {
    let url = url.trim_end_matches('/').trim_end_matches("/.git");
    let name = url.rsplit(['/', ':']).next().unwrap_or(url);
    name.strip_suffix(".git").unwrap_or(name)
}

/// Checks the name of a ref, which becomes part of a pattern.
fn check(reference: &str) -> Result<(), Problem> {
    if reference == "HEAD" {
        return Ok(());
    }
    let name = gix::validate::reference::name(BStr::new(reference));
    let full = reference.starts_with("refs/");
    match (name, full) {
        (Ok(_), true) => Ok(()),
        _ => Err(Problem::new(format!(
            "`{reference}` is no full name of a ref; name a branch, a tag, or a ref such as `refs/heads/main`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_has_the_name_of_its_repository() {
        let urls = [
            "git@host:a/b.git",
            "host:b",
            "ssh://host/a/b/",
            "/a/b/.git",
            "https://host/b.git",
        ];
        for url in urls {
            assert_eq!(name_of(url), "b", "{url}");
        }
    }
}
