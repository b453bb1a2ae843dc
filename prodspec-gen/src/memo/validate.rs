//! Which assets are looked at again after a run, and by whom.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use plugin_sdk::{AssetView, Candidate, Problem, Problems};
use prodspec_model::{Asset, AssetId};

use super::run::Run;

impl Run<'_> {
    /// Validates what the run changed and its neighbours (`incremental`), or everything. What was warned of the rest
    /// is said again.
    pub(super) fn validate(&mut self, candidate: &Candidate, incremental: bool) {
        let complete = self.is_complete();
        let remembered = self.memo.remarks.keys().cloned();
        let asked: BTreeSet<AssetId> = if incremental {
            concerned(candidate)
        } else {
            remembered
                .chain(candidate.snapshot.iter().map(|asset| asset.id()))
                .collect()
        };
        for id in asked {
            let mut found = Problems::none();
            if let Some(asset) = candidate.snapshot.get(id.as_str()) {
                self.validate_asset(&asset, candidate, complete, &mut found);
            }
            self.overlay.remarks.insert(id, found);
        }
        let kept = self.memo.remarks.iter();
        let kept = kept.filter(|(id, _)| !self.overlay.remarks.contains_key(*id));
        let all = kept.chain(&self.overlay.remarks);
        let mut found: Problems = all.flat_map(|(_, remarks)| remarks).cloned().collect();
        if complete {
            for validator in &self.pipeline.0.validators {
                let problems = ask(|problems| validator.incarnation(candidate, problems));
                take(&mut found, problems, validator.name(), None);
            }
        }
        self.problems.extend(found);
    }

    fn validate_asset(
        &self,
        asset: &Asset,
        candidate: &Candidate,
        complete: bool,
        found: &mut Problems,
    ) {
        let mut view = AssetView::new(asset, &candidate.snapshot, &candidate.types);
        if !complete {
            view = view.incomplete();
        }
        for validator in &self.pipeline.0.validators {
            let problems = ask(|problems| validator.asset(&view, problems));
            take(found, problems, validator.name(), Some(asset));
        }
    }
}

/// What a validator finds. One that panics does not agree.
fn ask(validator: impl FnOnce(&mut Problems)) -> Problems {
    let mut problems = Problems::none();
    if catch_unwind(AssertUnwindSafe(|| validator(&mut problems))).is_err() {
        problems.push(Problem::new("panicked; mend the validator"));
    }
    problems
}

/// What changed, what it refers to or referred to, and what refers to it: a verdict may rest on all of these.
fn concerned(candidate: &Candidate) -> BTreeSet<AssetId> {
    let mut ids = BTreeSet::new();
    for change in candidate.changes.iter() {
        let id = change.id();
        ids.extend(candidate.snapshot.referrers(id.as_str()));
        for side in [&change.before, &change.after].into_iter().flatten() {
            ids.extend(side.references());
        }
        ids.insert(id);
    }
    ids
}

/// Adds to problems what their finder did not say.
fn take(found: &mut Problems, problems: Problems, validator: &str, asset: Option<&Asset>) {
    found.extend(problems.into_iter().map(|mut problem| {
        if problem.by.is_empty() {
            problem.by = validator.into();
        }
        if let (None, Some(asset)) = (&problem.asset, asset) {
            problem.asset = Some(asset.id());
        }
        problem
    }));
}
