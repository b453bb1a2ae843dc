//! Dry runs of a pipeline: the run of a memo without a past, judged by the guards, of which nothing is sealed.

use plugin_sdk::{Candidate, Problems, Reading, Update};
use prodspec_model::{Incarnation, SourceName};

use crate::{
    guard,
    memo::{Memo, Readings},
    pipeline::Pipeline,
};

impl Pipeline {
    /// The incarnation that these readings would make from `parent`. Nothing is sealed, and external validators are not
    /// asked.
    ///
    /// # Errors
    /// All problems that sources, generators, validators and guards find.
    pub fn dry_run<N: AsRef<str>>(
        &self,
        readings: impl IntoIterator<Item = (N, Reading)>,
        parent: Option<&Incarnation>,
    ) -> Result<Candidate, Problems> {
        let readings: Readings = readings
            .into_iter()
            .map(|(name, reading)| (SourceName(name.as_ref().into()), Ok(Update::Whole(reading))))
            .collect();
        self.judged(&Memo::new(), readings, parent)
    }

    /// The incarnation that `readings` would make from `parent`, with what `memo` remembers, judged by the guards.
    pub(crate) fn judged(
        &self,
        memo: &Memo,
        readings: Readings,
        parent: Option<&Incarnation>,
    ) -> Result<Candidate, Problems> {
        let (candidate, mut problems, run) = match memo.draft(self, readings, parent) {
            Ok(draft) => (
                Some(draft.candidate),
                Problems::none(),
                draft.overlay.into(),
            ),
            Err(refused) => (refused.candidate, refused.problems, refused.overlay),
        };
        let judge = |candidate| guard::judge(&self.0.guards, candidate, &[]);
        problems.extend(candidate.iter().flat_map(|it| judge(it).problems));
        memo.refresh(Some(&run), &mut problems);
        memo.locate(Some(&run), &mut problems);
        candidate.filter(|_| !problems.any_error()).ok_or(problems)
    }
}
