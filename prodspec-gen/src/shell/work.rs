//! The work of a run that takes time: reading, generating, asking external validators, sealing. Each is a future that
//! owns its inputs.

use std::sync::Arc;

use control_plane_runtime::{NoAnswer, Runtime, blocking, call, timeout_at};
use futures::future::{BoxFuture, join_all, ready};
use plugin_sdk::{BoxError, Candidate, Problem, Problems};
use prodspec_model::{Digest, Incarnation};

use super::Regeneration;
use crate::{
    externals,
    guard::{Judged, judge},
    memo::{Draft, Readings, Refused},
    overrides::{InForce, SealOverride},
    pipeline::External,
    remarks::Remarks,
    seal::{Seal, Sealer},
};

/// The result of a piece of work.
pub(super) enum Finished {
    Read {
        readings: Readings,
        latest: Result<Latest, BoxError>,
    },
    Generated {
        drafted: Result<Draft, Refused>,
        /// Whether a source could not be read.
        unread: bool,
    },
    /// The generators did not end in time, or their run panicked.
    NotGenerated(Problem),
    Validated(Result<Judged, BoxError>),
    Sealed(Result<Incarnation, BoxError>),
    Recorded(Result<(), BoxError>),
}

/// The incarnation in force, with what external validators said about it if that was not known.
pub(super) type Latest = (Option<Incarnation>, Option<Remarks>);

impl<R: Runtime> Regeneration<R> {
    pub(super) fn read(&self) -> BoxFuture<'static, Finished> {
        let (runtime, pipeline) = (self.runtime.clone(), self.pipeline.clone());
        let seals = Arc::clone(&self.seals);
        let known = self.remarks.as_ref().map(|remarks| remarks.content);
        let revisions = self.memo.revisions().clone();
        Box::pin(async move {
            let reads = pipeline.0.sources.iter().map(async |source| {
                let (name, known) = (source.name(), revisions.get(&source.name()).cloned());
                (name, pipeline.read_since(&runtime, source, known).await)
            });
            let readings = join_all(reads).await;
            Finished::Read {
                readings: readings.into_iter().collect(),
                latest: latest(&*seals, known).await,
            }
        })
    }

    /// Runs generators and validators on a thread for blocking work, because they can compute for a long time. If they
    /// do not end in time, their thread goes on, and no other run generates until it has ended.
    pub(super) fn generate(&mut self) -> BoxFuture<'static, Finished> {
        if Arc::get_mut(&mut self.memo).is_none() {
            let message = "generators of an earlier run have not ended yet; fix the slow generator, then restart the process";
            return Box::pin(ready(Finished::NotGenerated(Problem::new(message))));
        }
        let readings = std::mem::take(&mut self.readings);
        let unread = readings.values().any(Result::is_err);
        let (memo, parent) = (Arc::clone(&self.memo), self.latest.clone());
        let (runtime, pipeline) = (self.runtime.clone(), self.pipeline.clone());
        let allowed = pipeline.0.timing.generate_deadline;
        let deadline = runtime.now().mono + allowed;
        Box::pin(async move {
            let drafted = blocking(&runtime, move || {
                memo.draft(&pipeline, readings, parent.as_ref())
            });
            let message = match timeout_at(&runtime, deadline, drafted).await {
                Some(Some(drafted)) => return Finished::Generated { drafted, unread },
                Some(None) => "the run of generators panicked; trying again".to_owned(),
                None => {
                    format!("generators did not end within {allowed:?}; fix the slow generator")
                }
            };
            Finished::NotGenerated(Problem::new(message))
        })
    }

    pub(super) fn validate(&self) -> Option<BoxFuture<'static, Finished>> {
        let draft = self.draft.as_ref().map(|draft| &draft.candidate);
        let candidate = draft.or(self.refused.as_ref())?.clone();
        let (runtime, pipeline) = (self.runtime.clone(), self.pipeline.clone());
        let seals = Arc::clone(&self.seals);
        Some(Box::pin(async move {
            let InForce {
                overrides,
                set_aside,
            } = match seals.overrides(runtime.now().wall).await {
                Ok(in_force) => in_force,
                Err(error) => return Finished::Validated(Err(error)),
            };
            let mut judged = judge(&pipeline.0.guards, &candidate, &overrides);
            judged.set_aside = set_aside;
            let (blobs, within) = (pipeline.0.blobs.as_ref(), pipeline.0.timing.read_deadline);
            match externals::keep(&runtime, blobs, within, &*seals, &candidate).await {
                Ok(problems) => judged.problems.extend(problems),
                Err(error) => return Finished::Validated(Err(error)),
            }
            let external = &pipeline.0.external;
            let asked = external.iter().map(|it| ask(&runtime, it, &candidate));
            for (external, answer) in external.iter().zip(join_all(asked).await) {
                take_answer(&mut judged, external, answer, &overrides, candidate.digest);
            }
            Finished::Validated(Ok(judged))
        }))
    }

    pub(super) fn seal(&self) -> Option<BoxFuture<'static, Finished>> {
        let partition = self.pipeline.partition();
        let now = self.runtime.now().wall;
        let mut seal = Seal::of(partition, self.draft.as_ref()?, self.spent.clone(), now);
        seal.warnings = self.warnings.clone();
        let seals = Arc::clone(&self.seals);
        Some(Box::pin(
            async move { Finished::Sealed(seals.seal(seal).await) },
        ))
    }

    pub(super) fn record(&self) -> Option<BoxFuture<'static, Finished>> {
        let sources = self.draft.as_ref()?.sources.clone();
        let seals = Arc::clone(&self.seals);
        Some(Box::pin(async move {
            Finished::Recorded(seals.seen(&sources).await)
        }))
    }
}

/// Loads the incarnation in force; and what external validators said about it, unless that is `known`.
async fn latest(seals: &dyn Sealer, known: Option<Digest>) -> Result<Latest, BoxError> {
    let latest = seals.latest().await?;
    let content = latest.as_ref().map(|latest| latest.header().digest);
    let remarks = match content == known {
        true => None,
        false => seals.remarks().await?,
    };
    Ok((latest, remarks))
}

/// Asks an external validator about `candidate`, in a task of its own, because it can block its thread.
async fn ask<R: Runtime>(
    runtime: &R,
    external: &External,
    candidate: &Candidate,
) -> Result<Problems, String> {
    let Some((running, _waiting)) = external.late.begin() else {
        let message = "an earlier call still blocks its thread, so no other one begins; find out what the validator \
                       waits for, and restart the process if it does not end";
        return Err(message.into());
    };
    let (validator, candidate) = (external.validator.clone(), candidate.clone());
    let asked = async move {
        let _running = running;
        validator.validate(candidate).await
    };
    let deadline = runtime.now().mono + external.deadline;
    match call(runtime, deadline, asked).await {
        Ok(Ok(problems)) => Ok(problems),
        Ok(Err(error)) => Err(format!("could not validate this content: {error}")),
        Err(NoAnswer::Late) => Err(format!("did not answer within {:?}", external.deadline)),
        Err(none) => Err(format!("could not validate this content: {none}")),
    }
}

/// Adds the answer of an external validator. An error is a refusal, unless an override lets this content pass.
fn take_answer(
    judged: &mut Judged,
    external: &External,
    answer: Result<Problems, String>,
    overrides: &[SealOverride],
    content: Digest,
) {
    let name = external.validator.name();
    let message = match answer {
        Ok(problems) => {
            let said = problems.into_iter().map(|problem| match &*problem.by {
                "" => problem.by(name),
                _ => problem,
            });
            return judged.problems.extend(said);
        }
        Err(message) => message,
    };
    judged.refuse(name, content, overrides, &message);
}
