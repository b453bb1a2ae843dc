//! Selects the assets that are validated after a run, and runs the validators.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use plugin_sdk::{AssetView, Candidate, Problem, Problems};
use prodspec_model::{Asset, AssetId};

use super::run::Run;

impl Run<'_> {
    /// Validates the changed assets and their neighbours (`incremental`), or all assets. Reports the remembered
    /// warnings about all other assets again.
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
                let problems = ask(|problems| validator.validate_incarnation(candidate, problems));
                take(&mut found, problems, validator.name(), None);
            }
        }
        self.memo.refresh(Some(&self.overlay), &mut found);
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
            let problems = ask(|problems| validator.validate_asset(&view, problems));
            take(found, problems, validator.name(), Some(asset));
        }
    }
}

/// The problems that a validator finds. A panic is a problem too.
fn ask(validator: impl FnOnce(&mut Problems)) -> Problems {
    let mut problems = Problems::none();
    if catch_unwind(AssertUnwindSafe(|| validator(&mut problems))).is_err() {
        problems.push(Problem::new("panicked; fix the validator"));
    }
    problems
}

/// The changed assets, the assets that they refer to or referred to, and the assets that refer to them. The verdicts on
/// all of these can depend on the changes.
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

/// Adds problems to `found`. Sets their validator and asset, where the validator did not set them.
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
