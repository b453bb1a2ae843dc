//! What a source keeps from its last run: the program does not run again while it and its inputs are the same.

use std::{collections::BTreeMap, path::Path, time::SystemTime};

use control_plane_runtime::Runtime;
use plugin_sdk::{Document, Problems, Update, document::DocumentKey};
use prodspec_model::{Digest, Revision};

use super::{call::Call, inputs::Inputs, kustomization, run::run, task::Task};
use crate::{
    file::{links::Links, stable::Found},
    history::History,
};

/// Number of times that a program runs while its inputs keep changing, before it is reported as a problem.
const TRIES: u32 = 3;

/// The inputs and the documents of the last run that succeeded.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) inputs: Inputs,
    last: Option<Last>,
    /// Each document, with the reading that found it first as it is.
    documents: Vec<(Document, u64)>,
    history: History,
}

/// The last run that succeeded.
#[derive(Debug)]
struct Last {
    program: Found,
    /// Digest of the inputs.
    inputs: Digest,
    revision: Revision,
}

impl Kept {
    /// Runs the program if something has changed since its last run, and returns what has changed since `known`.
    pub(super) fn read(
        &mut self,
        task: &Task,
        call: &Call,
        known: Option<&Revision>,
    ) -> Result<Update, Problems> {
        let path = task.program.path().map_err(|why| task.problem(why))?;
        let now = || SystemTime::from(call.runtime.now().wall);
        let mut tries = 0;
        while tries < TRIES && !call.is_given_up() {
            tries += 1;
            let (program, start) = (found(path), now());
            let before = self.inputs.read(task, start)?;
            if let Some(last) = &self.last
                && (&last.program, last.inputs) == (&program, before.digest)
                && program.is_settled(start)
            {
                let revision = last.revision.clone();
                return Ok(self.update(revision, known));
            }
            kustomization::check(task)?;
            let output = run(task, path, call);
            if found(path) != program || self.inputs.read(task, now())? != before {
                continue;
            }
            let output = output.map_err(|why| task.problem(why))?;
            self.take(task.documents(&output)?);
            let content = [before.digest.0, Digest::of(&output).0].concat();
            let revision = Revision(Digest::of(&content).to_string().into());
            self.last = Some(Last {
                program,
                inputs: before.digest,
                revision: revision.clone(),
            });
            return Ok(self.update(revision, known));
        }
        let message = format!(
            "an input changed during each of {tries} runs; read it again when the inputs no longer change, and do not declare as an input what the program writes"
        );
        Err(task.problem(message).into())
    }

    /// Takes in the documents of a run.
    fn take(&mut self, documents: Vec<Document>) {
        self.history.begin();
        let before = std::mem::take(&mut self.documents).into_iter();
        let mut before: BTreeMap<DocumentKey, (Document, u64)> =
            before.map(|it| (it.0.key().clone(), it)).collect();
        for document in documents {
            self.history.there(document.key());
            let changed = match before.remove(document.key()) {
                Some((same, changed)) if same.is_identical(&document) => changed,
                _ => self.history.reading(),
            };
            self.documents.push((document, changed));
        }
        before.keys().for_each(|key| self.history.missing(key));
    }

    fn update(&mut self, revision: Revision, known: Option<&Revision>) -> Update {
        let changed = |since: Option<u64>| {
            let all = self.documents.iter();
            let changed = all.filter(|(_, at)| since.is_none_or(|since| *at > since));
            changed.map(|(document, _)| document.clone()).collect()
        };
        self.history.update(revision, known, changed)
    }
}

/// The program at a path, in its present state.
fn found(path: &Path) -> Found {
    Found::linked(path.into(), path, &mut Links::default())
}
