//! One call of one generator: its input, the checks of its output, and the names and positions in its problems.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_sdk::{Document, Drafts, Input, Problem, Problems, Severity};
use prodspec_model::Asset;

use super::Call;
use crate::pipeline::Stage;

/// The inputs that all calls of a stage share.
pub(super) struct Shared {
    pub(super) documents: Vec<Document>,
    pub(super) assets: Vec<Asset>,
}

/// Calls the generator of a stage for one document, for one asset or, without both, for everything.
pub(super) fn call(
    stage: &Stage,
    document: Option<&Document>,
    asset: Option<&Asset>,
    shared: &Shared,
) -> Result<Call, Problems> {
    let others = shared.documents.iter();
    let others = others.filter(|other| Some(*other) != document);
    let input = Input::new(document.into_iter().chain(others).collect(), &shared.assets);
    let input = match asset {
        Some(asset) => input.about(asset),
        None => input,
    };
    let only = match (&shared.documents[..], asset) {
        ([only], None) => Some(only),
        _ => None,
    };
    let place = Place {
        stage,
        document: document.or(only),
        asset,
    };
    let (made, warnings) = place.generate(&input);
    if warnings.any_error() {
        return Err(warnings);
    }
    Ok(Call { made, warnings })
}

/// The generator of a call, with its asset, and with its document or the only document that it reads.
struct Place<'a> {
    stage: &'a Stage,
    document: Option<&'a Document>,
    asset: Option<&'a Asset>,
}

impl Place<'_> {
    fn generate(&self, input: &Input<'_>) -> (Vec<Asset>, Problems) {
        let mut out = Drafts::of(&self.stage.info.name);
        let generator = &self.stage.generator;
        let ended = catch_unwind(AssertUnwindSafe(|| generator.generate(input, &mut out)));
        let (made, mut problems) = out.finish();
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(found)) => {
                problems.extend(found);
                if !problems.any_error() {
                    let message = "failed without saying why; return the error as a problem";
                    problems.push(Problem::new(message));
                }
            }
            Err(_) => problems.push(Problem::new("panicked; fix the generator")),
        }
        problems.extend(made.iter().filter_map(|asset| self.undeclared(asset)));
        problems.for_each_mut(|problem| self.stamp(problem));
        // The line of a warning that is kept goes stale. It is found again whenever the warning is reported.
        problems.for_each_mut(|problem| {
            if problem.severity == Severity::Warning && problem.origin.is_some() {
                (problem.line, problem.column) = (0, 0);
            }
        });
        (made, problems)
    }

    /// The problem for an asset of an undeclared type. Generators declare their types, so that they can be ordered.
    fn undeclared(&self, made: &Asset) -> Option<Problem> {
        let type_name = made.type_str();
        let amended = self.asset.filter(|asset| asset.id_str() == made.id_str());
        let message = match amended {
            Some(asset) if asset.type_str() != type_name => {
                format!("amended into a {type_name}; keep the type of the asset")
            }
            None if !self
                .stage
                .info
                .makes
                .iter()
                .any(|made| **made == *type_name) =>
            {
                format!("makes a {type_name} without declaring it; add `.makes` to its info")
            }
            _ => return None,
        };
        Some(Problem::with(made, message))
    }

    /// Adds the generator, the asset and the position to a problem, where the generator did not set them.
    fn stamp(&self, problem: &mut Problem) {
        if problem.by.is_empty() {
            problem.by = Box::from(&*self.stage.info.name);
        }
        if let Some(asset) = self.asset {
            problem.asset.get_or_insert_with(|| asset.id());
        }
        if problem.document.is_empty() {
            let origin = match (self.document, self.asset) {
                (Some(document), _) => document.provenance(),
                (None, Some(asset)) => asset.provenance(),
                (None, None) => return,
            };
            *problem = std::mem::take(problem).origin(&origin);
        }
    }
}
