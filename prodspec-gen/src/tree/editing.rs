//! Trees as editable sources: a change of any number of files is one new revision of the tree.

use async_trait::async_trait;
use plugin_sdk::{
    EditError, EditableSource, Problem, Problems, Proposal, Reading, SourceChange, Update,
};
use prodspec_model::Revision;

use super::{
    Content, Entry, Stop, Tree, TreeSource,
    source::{Memory, at},
};
use crate::{
    edit::{
        EditFormat,
        file::{diff, exchanged, find},
    },
    file::settings::Settings,
};

/// A [`Tree`] whose files a program may change. [`TreeSource`] makes an [`EditableSource`] of it.
pub trait EditableTree: Tree {
    /// Makes the revision that follows `before`, in which some files have other texts, but leaves the tree at the present
    /// one. Returns the new revision; the same arguments give the same one.
    ///
    /// # Errors
    /// Why it cannot be made. The tree has not changed.
    fn follow(
        &mut self,
        before: &Revision,
        files: &[NewText],
        change: &SourceChange,
        stop: &Stop,
    ) -> Result<Revision, Problems>;

    /// Makes `after`, which [`follow`](Self::follow) has just made, the present revision, if the present one is `before`.
    ///
    /// # Errors
    /// As [`EditableSource::commit`].
    fn advance(
        &mut self,
        before: &Revision,
        after: &Revision,
        stop: &Stop,
    ) -> Result<(), EditError>;
}

/// A file of a tree with its new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewText {
    /// The path from the root of the tree, with slashes. The file exists.
    pub path: String,
    /// The whole new content of the file.
    pub text: String,
}

#[async_trait]
impl<T: EditableTree, F: EditFormat> EditableSource for TreeSource<T, F> {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        let change = change.clone();
        let proposed = self.with_tree(move |settings, memory, tree, stop| {
            let proposed = memory.propose::<F>(settings, tree, &change, stop);
            Ok(proposed.map_err(|error| settings.parsing.said_by(error)))
        });
        proposed.await.map_err(EditError::Failed)?
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let (change, proposal) = (change.clone(), proposal.clone());
        let committed = self.with_tree(move |settings, memory, tree, stop| {
            let committed = memory.commit::<F>(settings, tree, &change, &proposal, stop);
            Ok(committed.map_err(|error| settings.parsing.said_by(error)))
        });
        // A commit that panicked may have advanced the tree.
        committed.await.map_err(EditError::Unknown)?
    }
}

impl Memory {
    fn propose<F: EditFormat>(
        &mut self,
        settings: &Settings<Self>,
        tree: &mut impl EditableTree,
        change: &SourceChange,
        stop: &Stop,
    ) -> Result<Proposal, EditError> {
        let failed = |problems| EditError::Failed(problems);
        let looked = tree.look(None, stop).map_err(failed)?;
        let none = || Problem::new("gave no revision; report this error").into();
        let mut snapshot = looked.ok_or_else(|| EditError::Failed(none()))?;
        self.refresh::<F>(settings, &mut *snapshot, stop)
            .map_err(failed)?;
        let reading = match self.answer::<F>(settings, None).map_err(failed)? {
            Update::Whole(reading) => reading,
            _ => return Err(EditError::Failed(none())),
        };
        let (before, cap) = (reading.revision.clone(), settings.parsing.limits.bytes);
        let refused = |problems| EditError::Refused(at(&before, problems));
        let found = find(&settings.parsing.source, self.files.files(), &change.edits);
        let (mut texts, mut edited, mut shown) = (Vec::new(), Vec::new(), String::new());
        for edits in found.map_err(refused)? {
            let file = edits.state;
            let Some(id) = &file.id else { continue };
            let entry = Entry::file(&*file.path, id.clone());
            let content = snapshot.read(&entry, cap);
            let bytes = match content.map_err(|problem| EditError::Failed(problem.into()))? {
                Content::Bytes(bytes) => bytes,
                Content::TooLong(_) => return Err(EditError::Failed(none())),
            };
            let new = edits
                .make::<F>(&settings.parsing, &bytes)
                .map_err(refused)?;
            if new.text.as_bytes() == bytes {
                continue;
            }
            shown.push_str(&diff(
                &file.path,
                &String::from_utf8_lossy(&bytes),
                &new.text,
            ));
            texts.push(NewText {
                path: file.path.clone(),
                text: new.text.clone(),
            });
            edited.push(new);
        }
        drop(snapshot);
        if texts.is_empty() {
            return Ok(Proposal::new(before, reading, ""));
        }
        let after = tree.follow(&before, &texts, change, stop);
        let after = after.map_err(failed)?;
        let documents = exchanged(reading.documents, edited);
        Ok(Proposal::new(
            before,
            Reading::new(after.0, documents),
            shown,
        ))
    }

    fn commit<F: EditFormat>(
        &mut self,
        settings: &Settings<Self>,
        tree: &mut impl EditableTree,
        change: &SourceChange,
        proposal: &Proposal,
        stop: &Stop,
    ) -> Result<Revision, EditError> {
        let after = &proposal.reading.revision;
        if tree
            .look(Some(after), stop)
            .map_err(EditError::Failed)?
            .is_none()
        {
            return Ok(after.clone());
        }
        let again = self.propose::<F>(settings, tree, change, stop);
        // If it does not fit any more, the tree has changed: the proposal of another time says so.
        let again = match again {
            Err(EditError::Refused(_)) => None,
            again => Some(again?),
        };
        let same =
            |again: &&Proposal| again.before == proposal.before && again.reading.revision == *after;
        match again.as_ref().filter(same) {
            Some(_) => tree
                .advance(&proposal.before, after, stop)
                .map(|()| after.clone()),
            None => Err(EditError::Moved {
                now: again.map_or_else(|| self.revision(), |again| again.before),
            }),
        }
    }

    /// The revision of the last reading.
    fn revision(&self) -> Revision {
        self.revision.clone().unwrap_or_else(|| Revision("".into()))
    }
}
