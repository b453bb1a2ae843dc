//! Proposing and committing changes of the pipeline's editable sources, each call within a deadline and in a task of its
//! own, because a source can block its thread or panic.

use std::sync::Arc;

use control_plane_runtime::{NoAnswer, Runtime, call};
use plugin_sdk::{EditError, EditableSource, Problem, Problems, Proposal, SourceChange};
use prodspec_model::Revision;

use super::{Editable, Pipeline, by};

impl Editable {
    /// The source, as one that can be called in a task of its own.
    fn shared(&self) -> Arc<dyn EditableSource> {
        match self {
            Self::Source(source) => source.clone(),
            #[cfg(feature = "files")]
            Self::Table(table) => Arc::new(table.clone()),
        }
    }
}

impl Pipeline {
    /// Finds out what a source would contain after a change, within [`Timing::read_deadline`](crate::kernel::Timing).
    ///
    /// # Errors
    /// As [`EditableSource::propose`]; also if the source panics or does not answer in time.
    pub async fn propose<R: Runtime>(
        &self,
        runtime: &R,
        editable: &Editable,
        change: &SourceChange,
    ) -> Result<Proposal, EditError> {
        let (source, change) = (editable.shared(), change.clone());
        let asked = async move { source.propose(&change).await };
        let answer = call(runtime, self.read_by(runtime), asked).await;
        answer.unwrap_or_else(|none| Err(EditError::Failed(unanswered(editable, &none))))
    }

    /// Makes a change of a source, within [`Timing::read_deadline`](crate::kernel::Timing).
    ///
    /// # Errors
    /// As [`EditableSource::commit`]; [`EditError::Unknown`] if the source panics or does not answer in time.
    pub async fn commit<R: Runtime>(
        &self,
        runtime: &R,
        editable: &Editable,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        let (source, change, proposal) = (editable.shared(), change.clone(), proposal.clone());
        let asked = async move { source.commit(&change, &proposal).await };
        let answer = call(runtime, self.read_by(runtime), asked).await;
        answer.unwrap_or_else(|none| Err(EditError::Unknown(unanswered(editable, &none))))
    }

    pub(super) fn read_by<R: Runtime>(&self, runtime: &R) -> plugin_sdk::Mono {
        runtime.now().mono + self.0.timing.read_deadline
    }
}

fn unanswered(editable: &Editable, none: &NoAnswer) -> Problems {
    let problem = Problem::new(format!("the edit got no answer: {none}"));
    problem.by(by(editable.source())).into()
}
