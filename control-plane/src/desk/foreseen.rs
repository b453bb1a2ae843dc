//! Trials of edits that are asked for soon.

use std::sync::{MutexGuard, PoisonError};

use control_plane_runtime::Runtime;
use plugin_sdk::{Proposal, SourceChange};
use prodspec_gen::Trial;
use prodspec_model::{IncarnationNo, SourceName};

use super::{Desk, SourceEdit, records::Wanted};

/// The trial of an edit that is not asked for yet. The desk keeps one.
pub(super) struct Foreseen {
    source: SourceName,
    change: SourceChange,
    proposal: Proposal,
    trial: Trial,
    /// The newest incarnation before the trial. After another one, the trial is not used: it says what differs from this one.
    sealed: Option<IncarnationNo>,
}

impl<R: Runtime> Desk<R> {
    /// Tries an edit now, so that it takes less time when it is asked for, if the desk is idle. Changes nothing. A problem is
    /// found again by the edit itself, so it is not told.
    pub(crate) async fn foresee(&self, edit: &SourceEdit) {
        // No edit waits for a trial that it may not need.
        let (Ok((source, editable)), Ok(mut guard)) = (self.editable(edit), self.books.try_lock())
        else {
            return;
        };
        let Ok(books) = self.open(&mut guard).await else {
            return;
        };
        let sealed = self.newest_sealed();
        let is_kept = self
            .foreseen()
            .as_ref()
            .is_some_and(|it| it.sealed == sealed);
        if is_kept || edit.check().is_err() || books.change(&edit.id).is_some() {
            return;
        }
        let change = self.change(edit);
        let wanted = Wanted {
            source: &source,
            change: &change,
            holder: edit.holder.as_ref(),
            assets: &[],
        };
        let tried = self.tried(books, editable, &wanted, edit.blast_radius);
        // Else something is not sealed yet, and what the edit does is found out beside that.
        if let Ok((proposal, trial)) = tried.await
            && trial.base.as_ref() == Some(&proposal.before)
        {
            *self.foreseen() = Some(Foreseen {
                source,
                change,
                proposal,
                trial,
                sealed,
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
        let mut kept = self.foreseen();
        let sealed = self.newest_sealed();
        kept.take_if(|it| it.sealed != sealed);
        let of_this =
            |it: &mut Foreseen| (wanted.source, wanted.change) == (&it.source, &it.change);
        let foreseen = kept.take_if(of_this)?;
        Some((foreseen.proposal, foreseen.trial))
    }

    fn foreseen(&self) -> MutexGuard<'_, Option<Foreseen>> {
        let foreseen = self.foreseen.lock();
        foreseen.unwrap_or_else(PoisonError::into_inner)
    }
}
