//! Editable sources: sources of truth whose fields a program may change.
//!
//! A change is made in two steps, so that its result can be judged before it is there. [`propose`] says what the source
//! would contain; [`commit`] makes it so, if the source is still as it was for the proposal. Neither looks at who holds a
//! field: the control plane does, before it proposes.
//!
//! [`propose`]: EditableSource::propose
//! [`commit`]: EditableSource::commit

mod change;
mod error;
mod holder;
mod template;

use async_trait::async_trait;
use prodspec_model::Revision;

pub use self::{
    change::{ChangeId, FieldEdit, InvalidChangeId, SourceChange},
    error::EditError,
    holder::Holder,
    template::EditTemplate,
};
use crate::{
    document::DocumentKey,
    source::{Reading, SourceOfTruth},
};

/// The content that a source would have after a change.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Proposal {
    /// The revision of the source on which the change was tried.
    pub before: Revision,
    /// The complete content after the change, at the revision that the source will have then. Equal to the content before
    /// if there is nothing to change.
    pub reading: Reading,
    /// The change as a text for people, such as a unified diff of each file.
    pub diff: String,
    /// The documents in which the content differs from that before. `None`: this is not known, and all are compared.
    pub changed: Option<Vec<DocumentKey>>,
}

impl Proposal {
    /// The content `reading` after a change of the revision `before`. `diff` shows the change to people.
    pub fn new(before: Revision, reading: Reading, diff: impl Into<String>) -> Self {
        Self {
            before,
            reading,
            diff: diff.into(),
            changed: None,
        }
    }

    /// Names the documents in which the content differs from that before.
    #[must_use]
    pub fn changing(mut self, documents: Vec<DocumentKey>) -> Self {
        self.changed = Some(documents);
        self
    }

    /// Whether the source already has the content that the change asks for.
    pub fn is_unchanged(&self) -> bool {
        self.before == self.reading.revision
    }
}

/// A source of truth whose fields a program may change. Comments, order and all other fields stay as they are.
///
/// Both calls depend on the content of the source and on the change alone: the same change of the same content gives the
/// same revision. So a caller that died between the two, or during the second, finds out what has happened by looking at
/// the revision.
#[async_trait]
pub trait EditableSource: SourceOfTruth {
    /// Finds out what the source would contain after `change`. Changes nothing.
    ///
    /// # Errors
    /// [`EditError::Refused`] if a field is not there, has not its expected value, or cannot be changed alone;
    /// [`EditError::Failed`] if the source cannot be read now.
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError>;

    /// Makes `change`, all of it or nothing, and returns the revision of the source after it: that of the proposal. Does
    /// nothing if the source has that revision already, so a repeated change is one change.
    ///
    /// # Errors
    /// [`EditError::Moved`] if the source is no longer at [`Proposal::before`]: propose again. [`EditError::Failed`] if
    /// nothing was changed. [`EditError::Unknown`] if the change may have been made: propose again, and see.
    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError>;
}
