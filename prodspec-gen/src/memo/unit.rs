//! One call of one generator: its input, the checks of its output, and the names and positions in its problems.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plugin_sdk::{Document, Drafts, Entry, Input, Problem, Problems, Severity};
use prodspec_model::Asset;

use super::{Call, look_ups::LookUps};
use crate::pipeline::Stage;

/// The inputs that all calls of a stage share.
pub(super) struct Shared {
    pub(super) documents: Vec<Document>,
    pub(super) assets: Vec<Asset>,
}

/// What one call of a generator is about.
pub(super) enum Subject<'a> {
    Whole,
    Document(&'a Document),
    Entry(Entry<'a>),
    Asset(&'a Asset),
}

/// Calls the generator of a stage for one subject.
pub(super) fn call(
    stage: &Stage,
    subject: Subject<'_>,
    shared: &Shared,
    look_ups: LookUps<'_>,
) -> Result<Call, Problems> {
    let place = Place {
        stage,
        subject,
        only: match &shared.documents[..] {
            [only] => Some(only),
            _ => None,
        },
    };
    let (made, warnings) = place.generate(shared, &look_ups);
    if warnings.any_error() {
        return Err(warnings);
    }
    Ok(Call {
        made,
        warnings,
        looked_up: look_ups.asked(),
    })
}

/// The generator of a call, with its subject, and with the only document that all calls read, if it is one.
struct Place<'a> {
    stage: &'a Stage,
    subject: Subject<'a>,
    only: Option<&'a Document>,
}

impl Place<'_> {
    fn generate(&self, shared: &Shared, look_ups: &LookUps<'_>) -> (Vec<Asset>, Problems) {
        let mut out = Drafts::of(&self.stage.info.name);
        let input = self.input(shared).upstream(look_ups);
        let generator = &self.stage.generator;
        let ended = catch_unwind(AssertUnwindSafe(|| generator.generate(&input, &mut out)));
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
        problems.extend(look_ups.problems());
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

    fn input<'a>(&'a self, shared: &'a Shared) -> Input<'a> {
        let document = match &self.subject {
            Subject::Document(document) => Some(*document),
            _ => None,
        };
        let others = shared.documents.iter();
        let others = others.filter(|other| Some(*other) != document);
        let input = Input::new(document.into_iter().chain(others).collect(), &shared.assets);
        match &self.subject {
            Subject::Asset(asset) => input.about(asset),
            Subject::Entry(entry) => input.of(entry.clone()),
            Subject::Document(_) | Subject::Whole => input,
        }
    }

    fn asset(&self) -> Option<&Asset> {
        match &self.subject {
            Subject::Asset(asset) => Some(asset),
            _ => None,
        }
    }

    /// The problem for an asset of an undeclared type. Generators declare their types, so that they can be ordered.
    fn undeclared(&self, made: &Asset) -> Option<Problem> {
        let type_name = made.type_str();
        let amended = self.asset();
        let amended = amended.filter(|asset| asset.id_str() == made.id_str());
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
        if let Some(asset) = self.asset() {
            problem.asset.get_or_insert_with(|| asset.id());
        }
        if problem.document.is_empty() {
            let origin = match &self.subject {
                Subject::Document(document) => document.provenance(),
                Subject::Entry(entry) => entry.provenance(),
                Subject::Asset(asset) => asset.provenance(),
                Subject::Whole => match self.only {
                    Some(document) => document.provenance(),
                    None => return,
                },
            };
            *problem = std::mem::take(problem).origin(&origin);
        }
    }
}
