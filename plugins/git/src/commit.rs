//! Makes a commit that changes some files of another one, and pushes it.

use gix::{ObjectId, Repository, actor::Signature, bstr::BString, date::Time};
use plugin_sdk::{EditError, Problem, SourceChange, with_causes};
use prodspec_gen::tree::{NewText, Stop};

use crate::transport::{Access, run};

/// Who makes the commits: name and address. The author's name is that of the program or person who changes the source.
#[derive(Debug, Clone)]
pub(crate) struct Committer {
    pub(crate) name: String,
    pub(crate) email: String,
}

impl Default for Committer {
    fn default() -> Self {
        Self {
            name: "control plane".into(),
            email: "control-plane@localhost".into(),
        }
    }
}

/// Makes the commit that follows `before` with other texts of some files, in the clone only. The same arguments give the
/// same commit.
pub(crate) fn make(
    clone: &Repository,
    before: ObjectId,
    files: &[NewText],
    change: &SourceChange,
    committer: &Committer,
) -> Result<ObjectId, Problem> {
    let broken = |error: &gix::Error| {
        let error = with_causes(error);
        Problem::new(format!("cannot make a commit in the clone: {error}"))
    };
    let parent = clone.find_commit(before).map_err(|error| broken(&error))?;
    let tree = parent.tree().map_err(|error| broken(&error))?;
    let mut edited = tree.edit().map_err(|error| broken(&error))?;
    for NewText { path, text } in files {
        let entry = tree.lookup_entry_by_path(path);
        let entry = entry.map_err(|error| broken(&error))?;
        let Some(entry) = entry else {
            return Err(Problem::new("is not in the commit").at(path, 0, 0));
        };
        let blob = clone.write_blob(text).map_err(|error| broken(&error))?;
        let kind = entry.mode().kind();
        let upserted = edited.upsert(path.as_str(), kind, blob);
        upserted.map_err(|error| broken(&error))?;
    }
    let tree = edited.write().map_err(|error| broken(&error))?;
    let time = Time::new(change.at.as_second(), 0);
    let by = |name: &str| Signature {
        name: plain(name, &committer.name),
        email: plain(&committer.email, "control-plane@localhost"),
        time,
    };
    let (author, committer) = (by(&change.who), by(&committer.name));
    let commit = gix::objs::Commit {
        tree: tree.detach(),
        parents: [before].into_iter().collect(),
        author,
        committer,
        encoding: None,
        message: format!("{}\n\nChange: {}\n", change.why.trim(), change.id).into(),
        extra_headers: Vec::new(),
    };
    let id = clone.write_object(commit);
    Ok(id.map_err(|error| broken(&error))?.detach())
}

/// A name or an address without what would end it in a commit.
fn plain(text: &str, otherwise: &str) -> BString {
    let kept = |character: &char| !character.is_control() && !"<>".contains(*character);
    let text: String = text.chars().filter(kept).collect();
    match text.trim() {
        "" => otherwise.into(),
        text => text.into(),
    }
}

/// How a push has ended.
pub(crate) enum Pushed {
    Done,
    /// The branch has another commit than expected.
    Moved,
}

/// Moves a branch of the repository from the commit `before` to `after`, which is in the clone.
///
/// # Errors
/// Why the branch was not moved, or that this is not known.
pub(crate) fn push(
    clone: &Repository,
    access: &Access,
    reference: &str,
    (before, after): (&str, &str),
    stop: &Stop,
) -> Result<Pushed, EditError> {
    let mut git = access.git(clone.path());
    git.args(["push", "--porcelain", "--no-verify"]);
    git.arg(format!("--force-with-lease={reference}:{before}"));
    git.arg("--").arg(access.url());
    git.arg(format!("{after}:{reference}"));
    let said = run(git, stop).map_err(|error| {
        let problem = access.problem(&format!(
            "cannot run the program `git`, which is needed to push to it: {error}; install it"
        ));
        EditError::Failed(problem.into())
    })?;
    let marked = format!(":{reference}\t");
    let line = said.output.lines().find(|line| line.contains(&marked));
    match line {
        Some(line) if line.starts_with('!') => refused(access, line, &said.complaint),
        Some(_) if said.success => Ok(Pushed::Done),
        // It did not get as far as an answer about the branch, or the answer was cut off.
        _ => {
            let complaint = &said.complaint;
            let problem = access.problem(&format!("the push has not ended well: {complaint}"));
            Err(EditError::Unknown(problem.into()))
        }
    }
}

/// The end of a push that Git reports as refused, on a line of its own.
fn refused(access: &Access, line: &str, complaint: &str) -> Result<Pushed, EditError> {
    let why = line.rsplit('\t').next().unwrap_or(line);
    // The second and third come from a server at which another push was faster.
    let moved = [
        "(stale info)",
        "(fetch first)",
        "failed to update ref",
        "cannot lock ref",
    ];
    if moved.iter().any(|moved| why.contains(moved)) {
        return Ok(Pushed::Moved);
    }
    let problem = access.problem(&format!(
        "does not take the commit: {why}; {complaint}; let the control plane push to this branch"
    ));
    Err(EditError::Failed(problem.into()))
}
