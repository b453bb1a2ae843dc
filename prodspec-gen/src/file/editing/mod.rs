//! Files as editable sources. A change is about one file, which is replaced as a whole: readers see the file before or the
//! file after.

mod replace;
#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::SystemTime};

use async_trait::async_trait;
use control_plane_runtime::{Runtime, TokioRuntime};
use plugin_sdk::{EditError, EditableSource, Problem, Problems, Proposal, Reading, SourceChange};
use prodspec_model::{Digest, Revision};

use self::replace::{Moved, Point, Replacement};
use super::{
    Files,
    cache::{Cache, Shape},
    directory::Folder,
    one::OneFile,
    settings::{Settings, complete},
    stable::{self, TRIES},
};
use crate::{
    edit::{
        EditFormat,
        file::{diff, exchanged, find},
    },
    kept::Placed,
};

/// A shape of sources whose files have a format that can be edited.
pub trait EditShape: Shape {
    /// The format of the files.
    type Format: EditFormat;
}

impl<F: EditFormat> EditShape for OneFile<F> {
    type Format = F;
}

impl<F: EditFormat> EditShape for Folder<F> {
    type Format = F;
}

/// A change that was tried on the present content of the files.
struct Tried {
    proposal: Proposal,
    /// The file to replace. `None`: there is nothing to change.
    file: Option<NewFile>,
}

/// What a file becomes.
struct NewFile {
    path: PathBuf,
    /// Digest of the present content.
    before: Digest,
    text: String,
}

#[async_trait]
impl<S: EditShape + From<Settings>> EditableSource for Files<S> {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        let (now, change) = (now(), change.clone());
        let tried = self.settings.aside(move |settings| {
            let shape = S::from(settings.clone());
            Ok(settings.propose_now(&shape, now, &change))
        });
        let tried = tried.await.map_err(EditError::Failed)??;
        Ok(tried.proposal)
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let (now, change, proposal) = (now(), change.clone(), proposal.clone());
        let committed = self.settings.aside(move |settings| {
            let shape = S::from(settings.clone());
            Ok(settings.commit_now(&shape, now, &change, &proposal, &mut |_| Ok(())))
        });
        // A commit that panicked may have replaced the file.
        committed.await.map_err(EditError::Unknown)?
    }
}

/// The present time, with which the file cache compares the ages of files.
fn now() -> SystemTime {
    TokioRuntime::current().now().wall.into()
}

impl Settings {
    /// Tries a change on the present content.
    fn propose_now<S: EditShape>(
        &self,
        shape: &S,
        now: SystemTime,
        change: &SourceChange,
    ) -> Result<Tried, EditError> {
        let tried = self.with_cache(|cache| {
            for _ in 0..TRIES {
                let reading = self
                    .whole_now(cache, shape, now)
                    .map_err(EditError::Failed)?;
                let tried = self.try_on(cache, shape, reading, change);
                if let Some(tried) = tried.map_err(EditError::Refused)? {
                    return Ok(tried);
                }
            }
            let problem = stable::at(&self.path, stable::CHANGES);
            Err(EditError::Failed(problem.into()))
        });
        tried.map_err(|error| self.parsing.said_by(error))
    }

    /// Makes a change, if the content is still that of the proposal. `reached` is called at each point at which a process
    /// could die.
    fn commit_now<S: EditShape>(
        &self,
        shape: &S,
        now: SystemTime,
        change: &SourceChange,
        proposal: &Proposal,
        reached: &mut dyn FnMut(Point) -> std::io::Result<()>,
    ) -> Result<Revision, EditError> {
        let after = &proposal.reading.revision;
        let reading = self.with_cache(|cache| self.whole_now(cache, shape, now));
        let reading =
            reading.map_err(|problems| self.parsing.said_by(EditError::Failed(problems)))?;
        if reading.revision == *after {
            return Ok(reading.revision);
        }
        let moved = |now| Err(EditError::Moved { now });
        if reading.revision != proposal.before {
            return moved(reading.revision);
        }
        let tried = self.propose_now(shape, now, change)?;
        if tried.proposal.before != proposal.before || tried.proposal.reading.revision != *after {
            return moved(tried.proposal.before);
        }
        let Some(NewFile { path, before, text }) = tried.file else {
            return Ok(after.clone());
        };
        let replacement = Replacement {
            path: &path,
            id: &change.id,
            before,
            text: text.as_bytes(),
        };
        match replacement.make(reached) {
            Ok(()) => Ok(after.clone()),
            Err(Moved::Changed) => {
                let reading = self.with_cache(|cache| self.whole_now(cache, shape, now));
                let reading = reading.map_err(EditError::Failed);
                moved(
                    reading
                        .map_err(|error| self.parsing.said_by(error))?
                        .revision,
                )
            }
            Err(Moved::NotReplaced(error)) => {
                let problem = stable::at(&path, format!("cannot be replaced: {error}"));
                Err(self.parsing.said_by(EditError::Failed(problem.into())))
            }
            Err(Moved::Unknown(error)) => {
                let problem = stable::at(
                    &path,
                    format!("was replaced, but may not be durable: {error}"),
                );
                Err(self.parsing.said_by(EditError::Unknown(problem.into())))
            }
        }
    }

    /// The complete content of the files.
    fn whole_now(
        &self,
        cache: &mut Cache,
        shape: &impl Shape,
        now: SystemTime,
    ) -> Result<Reading, Problems> {
        let update = cache.read(shape, &self.path, self.how(now), None)?;
        complete(update).map_err(Problems::from)
    }

    /// Tries a change on the content `reading`, which `cache` has just read. `None`: the file has changed since then.
    fn try_on<S: EditShape>(
        &self,
        cache: &Cache,
        shape: &S,
        reading: Reading,
        change: &SourceChange,
    ) -> Result<Option<Tried>, Problems> {
        let unchanged = |reading: Reading| Tried {
            proposal: Proposal::new(reading.revision.clone(), reading, ""),
            file: None,
        };
        let mut found = find(&self.parsing.source, cache.files(), &change.edits)?;
        if let [first, second, ..] = &*found {
            let (first, second) = (first.name(), second.name());
            return Err(Problem::new(format!(
                "the change is about the files {first} and {second}, but files are replaced one by one, so that half of it would be visible; change one file at a time"
            ))
            .into());
        }
        let Some(edits) = found.pop() else {
            return Ok(Some(unchanged(reading)));
        };
        let before = edits.state.digest;
        let found = &edits.state.found;
        let bytes = found.read(self.parsing.limits.bytes)?;
        let bytes = bytes.filter(|bytes| Digest::of(bytes) == before);
        let (Some(bytes), Some(path)) = (bytes, found.target()) else {
            return Ok(None);
        };
        let edited = edits.make::<S::Format>(&self.parsing, &bytes)?;
        let after = Digest::of(edited.text.as_bytes());
        if after == before {
            return Ok(Some(unchanged(reading)));
        }
        let diff = diff(edits.name(), &String::from_utf8_lossy(&bytes), &edited.text);
        let revision = cache.revision_with(shape, found.place(), after);
        let file = NewFile {
            path: path.to_path_buf(),
            before,
            text: edited.text.clone(),
        };
        let documents = exchanged(reading.documents, vec![edited]);
        Ok(Some(Tried {
            proposal: Proposal::new(reading.revision, Reading::new(revision.0, documents), diff),
            file: Some(file),
        }))
    }
}
