//! Trials of edits that are asked for soon.

use std::sync::{MutexGuard, PoisonError};

use control_plane_runtime::Runtime;
use plugin_sdk::{Proposal, SourceChange};
use prodspec_gen::Trial;
use prodspec_model::SourceName;

use super::{Desk, SourceEdit, records::Wanted};

/// The trial of an edit that is not asked for yet. The desk keeps the last one.
pub(super) struct Foreseen {
    source: SourceName,
    change: SourceChange,
    proposal: Proposal,
    trial: Trial,
    /// The number of runs of generation that had begun at the trial. After another one, the trial is not used.
    begun: u64,
}

impl<R: Runtime> Desk<R> {
    /// Tries an edit now, so that it takes less time when it is asked for. Changes nothing. A problem is found again by the
    /// edit itself, so it is not told.
    pub(crate) async fn foresee(&self, edit: &SourceEdit) {
        let Ok((source, editable)) = self.editable(edit) else {
            return;
        };
        let mut guard = self.books.lock().await;
        let Ok(books) = self.open(&mut guard).await else {
            return;
        };
        if edit.check().is_err() || books.change(&edit.id).is_some() {
            return;
        }
        let change = self.change(edit);
        let wanted = Wanted {
            source: &source,
            change: &change,
            holder: edit.holder.as_ref(),
            assets: &[],
        };
        let begun = self.generation.begun();
        let tried = self.tried(books, editable, &wanted, edit.blast_radius);
        if let Ok((proposal, trial)) = tried.await {
            *self.foreseen() = Some(Foreseen {
                source,
                change,
                proposal,
                trial,
                begun,
            });
        }
    }

    /// The change that was tried for this edit. `None`: none was.
    pub(super) fn foreseen_change(&self, edit: &SourceEdit) -> Option<SourceChange> {
        let foreseen = self.foreseen();
        let Foreseen { source, change, .. } = foreseen.as_ref()?;
        let same =
            *source == edit.source() && (&change.id, &change.edits) == (&edit.id, &edit.fields);
        same.then(|| change.clone())
    }

    /// Takes the trial of a change, if it still tells what the change does.
    pub(super) fn take_foreseen(&self, wanted: &Wanted<'_>) -> Option<(Proposal, Trial)> {
        let foreseen = self.foreseen().take()?;
        let same = (wanted.source, wanted.change) == (&foreseen.source, &foreseen.change);
        let fits = same && foreseen.begun == self.generation.begun();
        fits.then_some((foreseen.proposal, foreseen.trial))
    }

    fn foreseen(&self) -> MutexGuard<'_, Option<Foreseen>> {
        let foreseen = self.foreseen.lock();
        foreseen.unwrap_or_else(PoisonError::into_inner)
    }
}
