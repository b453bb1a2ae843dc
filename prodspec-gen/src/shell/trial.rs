//! Trials: what the sources would make if one of them had other content. A trial costs what a run for this change would
//! cost, because it uses what the runs remember. Nothing is sealed and nothing is remembered.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use control_plane_runtime::{Runtime, blocking, timeout_at};
use futures::future::{BoxFuture, join_all};
use plugin_sdk::{Candidate, Delta, Problem, Problems, Reading, Update, document::DocumentKey};
use prodspec_model::{Revision, SourceName};
use tokio::sync::oneshot;

use super::Regeneration;

/// What the sources would make if one of them had other content.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Trial {
    /// The intent that they would make.
    pub candidate: Candidate,
    /// The revision of that source from which the incarnation in force was made, if no other source has changed since. The
    /// changes of the candidate are then due to that source alone.
    pub base: Option<Revision>,
}

/// Why a trial has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The content would be refused.
    #[error("{0}")]
    Refused(Problems),
    /// The trial could not be made: the store or another source failed, or a generator did not end. It says nothing of the
    /// content.
    #[error("{0}")]
    Failed(Problems),
}

impl TrialError {
    pub(super) fn failed(message: String) -> Self {
        Self::Failed(Problem::new(message).into())
    }

    /// The problems that were found.
    pub fn into_problems(self) -> Problems {
        match self {
            Self::Refused(problems) | Self::Failed(problems) => problems,
        }
    }
}

/// The content that a source would have, and where the answer goes.
pub(super) struct Question {
    pub(super) source: SourceName,
    pub(super) reading: Reading,
    /// The revision from which it differs only in these documents. `None`: all have to be compared.
    pub(super) since: Option<(Revision, Vec<DocumentKey>)>,
    pub(super) answer: oneshot::Sender<Result<Trial, TrialError>>,
}

/// The trials of a regeneration: at most one is under way. No step of a run begins meanwhile, because a run may change
/// what a trial uses.
#[derive(Default)]
pub(super) struct Trials {
    waiting: VecDeque<Question>,
    pub(super) under_way: Option<BoxFuture<'static, ()>>,
}

impl Trials {
    pub(super) fn ask(&mut self, question: Question) {
        self.waiting.push_back(question);
    }
}

impl<R: Runtime> Regeneration<R> {
    /// Begins the next trial, if one waits and none is under way. Must not be called while a step of a run is under way.
    pub(super) fn begin_trial(&mut self) {
        if self.trials.under_way.is_some() {
            return;
        }
        if let Some(question) = self.trials.waiting.pop_front() {
            self.trials.under_way = Some(self.trial(question));
        }
    }

    fn trial(&self, question: Question) -> BoxFuture<'static, ()> {
        let Question {
            source: replaced,
            reading,
            since,
            answer,
        } = question;
        let (runtime, pipeline) = (self.runtime.clone(), self.pipeline.clone());
        let (memo, seals) = (Arc::clone(&self.memo), Arc::clone(&self.seals));
        Box::pin(async move {
            let others = pipeline.0.sources.iter();
            let others = others.filter(|source| source.name() != replaced);
            let reads = others.map(async |source| {
                let known = memo.revisions().get(&source.name()).cloned();
                let update = pipeline.read_since(&runtime, source, known).await;
                (source.name(), update)
            });
            let mut readings: crate::memo::Readings = join_all(reads).await.into_iter().collect();
            let is_unread = readings.values().any(Result::is_err);
            let others_stay = readings.values().all(|it| matches!(it, Ok(Update::Same)));
            let parent = match seals.latest().await {
                Ok(parent) => parent,
                Err(error) => {
                    let message = format!("cannot read the incarnation in force: {error}");
                    let problem = Problem::new(message).by("store");
                    let _ = answer.send(Err(TrialError::Failed(problem.into())));
                    return;
                }
            };
            let same = others_stay && memo.is_base_of(parent.as_ref());
            let base = memo.revisions().get(&replaced).filter(|_| same).cloned();
            let since = since.filter(|(at, _)| memo.revisions().get(&replaced) == Some(at));
            let update = match since {
                Some((_, changed)) => Update::Delta(delta(reading, changed)),
                None => Update::Whole(reading),
            };
            readings.insert(replaced, Ok(update));
            let allowed = pipeline.0.timing.generate_deadline;
            let deadline = runtime.now().mono + allowed;
            let judged = blocking(&runtime, move || {
                pipeline.judged(&memo, readings, parent.as_ref())
            });
            let message = match timeout_at(&runtime, deadline, judged).await {
                Some(Some(judged)) => {
                    // The caller may have given up.
                    let result = judged.map(|candidate| Trial { candidate, base });
                    let _ = answer.send(result.map_err(|problems| match is_unread {
                        true => TrialError::Failed(problems),
                        false => TrialError::Refused(problems),
                    }));
                    return;
                }
                Some(None) => "the run of generators panicked; fix the generator".to_owned(),
                None => {
                    format!("generators did not end within {allowed:?}; fix the slow generator")
                }
            };
            let _ = answer.send(Err(TrialError::failed(message)));
        })
    }
}

/// The documents `changed` of a reading.
fn delta(reading: Reading, changed: Vec<DocumentKey>) -> Delta {
    let mut gone: BTreeSet<DocumentKey> = changed.into_iter().collect();
    let documents = reading.documents.into_iter();
    let put = documents.filter(|it| gone.remove(it.key())).collect();
    Delta::new(reading.revision.0, put, gone.into_iter().collect())
}
