//! Fields that a program holds before it sets them: tried as a whole, and reserved in one commit.

use control_plane_runtime::Runtime;
use control_plane_store::{Batch, records::HeldField};
use plugin_sdk::Problem;
use prodspec_model::snapshot::Change;

use super::{
    ATTEMPTS, Desk, EditRefused, SourceEdit,
    making::Own,
    records::{Entry, Wanted},
};

impl<R: Runtime> Desk<R> {
    /// Tries an edit that is not made now, and returns the changes that are its alone.
    pub(crate) async fn attempt_alone(
        &self,
        edit: &SourceEdit,
    ) -> Result<Vec<Change>, EditRefused> {
        edit.check()?;
        let (source, editable) = self.editable(edit)?;
        let change = self.change(edit);
        let wanted = &Wanted {
            source: &source,
            change: &change,
            holder: edit.holder.as_ref(),
            assets: &[],
        };
        let mut guard = self.books.lock().await;
        let books = self.open(&mut guard).await?;
        for _ in 0..ATTEMPTS {
            let tried = self.tried(books, editable, wanted, edit.blast_radius);
            let (proposal, trial) = tried.await?;
            match self.own_changes(editable, wanted, &proposal, &trial).await {
                Own::Known(own) => {
                    edit.check_assets(&own)?;
                    return Ok(own);
                }
                Own::Moved => {}
                Own::Unread(problems) => return Err(EditRefused::Failed(problems)),
                Own::Unknown => {
                    let why = "the sources are refused without it";
                    return Err(EditRefused::Elsewhere(Problem::new(why).into()));
                }
            }
        }
        Err(EditRefused::KeepsChanging(ATTEMPTS))
    }

    /// Gives fields of a source to a holder before it sets them, in one commit with `batch`.
    pub(crate) async fn reserve(&self, edit: &SourceEdit, batch: Batch) -> Result<(), EditRefused> {
        edit.check()?;
        let (source, _) = self.editable(edit)?;
        let holder = edit.holder.as_ref();
        let mut guard = self.books.lock().await;
        let books = self.open(&mut guard).await?;
        if let Some(held) = books.ledger.conflict(&source, &edit.fields, holder) {
            return Err(EditRefused::Held(Box::new(held.clone())));
        }
        let at = self.now();
        let held = edit.fields.iter().filter_map(|field| {
            let mut as_it_is = field.clone();
            as_it_is.to.clone_from(&field.was);
            let field = HeldField {
                source: source.clone(),
                edit: as_it_is,
                holder: holder?.clone(),
                change: edit.id.clone(),
                at,
                overwritten: None,
            };
            // A field that it holds already may have been set meanwhile: its record stays.
            let known = books.ledger.named(&field.name());
            let is_held = known.is_some_and(|known| known.overwritten.is_none());
            (!is_held).then(|| (field.name(), Some(field)))
        });
        let entry = Entry::of_fields(held.collect::<Vec<_>>());
        let written = self.write(&mut guard, batch, entry).await;
        written.map_err(|error| EditRefused::Store(error.into()))
    }
}
