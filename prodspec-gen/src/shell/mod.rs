//! The shell of the regeneration kernel: listens to sources, reads, generates, validates, seals, and reports the
//! status.

mod handle;
mod trial;
mod work;

use std::{collections::BTreeMap, future::Future, sync::Arc};

use control_plane_runtime::{Kernel as _, Runtime};
use futures::{
    FutureExt,
    future::{BoxFuture, Either, select},
    stream::{BoxStream, SelectAll, StreamExt, select_all},
};
use plugin_sdk::{Candidate, Mono, Problem, Problems};
use prodspec_model::{Incarnation, SourceName};
use tokio::sync::{mpsc, watch};

pub use handle::Handle;
use handle::Question;
pub use trial::{Trial, TrialError};

use self::{trial::Trials, work::Finished};
use crate::{
    kernel::{Effect, Event, Generated, Kernel, Verdict},
    memo::{Draft, Memo, Overlay, Readings, Refused},
    overrides::{Refusal, SealOverride},
    pipeline::Pipeline,
    remarks::Remarks,
    seal::Sealer,
    status::Status,
};

/// Keeps the intent of one partition equal to its sources, for as long as it runs.
///
/// ```
/// use std::sync::Arc;
/// use control_plane_runtime::TokioRuntime;
/// use prodspec_gen::{Regeneration, seal::InMemory};
/// # use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Problems};
/// # use prodspec_gen::{Pipeline, YamlFile};
/// # use prodspec_model::{Asset, AssetId, Message, PartitionId};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Job { replicas: u32 }
/// # impl Message for Job { const TYPE: &'static str = "example.v1.Job"; }
/// # struct Model;
/// # impl Generator for Model {
/// #     fn info(&self) -> GeneratorInfo { GeneratorInfo::whole("model").reads("jobs.yaml").makes::<Job>() }
/// #     fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
/// #         for document in input.documents() {
/// #             out.asset(Asset::builder(AssetId::new("job")?).payload(&document.read::<Job>()?)?, document.provenance())?;
/// #         }
/// #         Ok(())
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("jobs.yaml");
/// std::fs::write(&path, "replicas: 2")?;
/// let pipeline = Pipeline::builder(PartitionId::new("example")?)
///     .source(YamlFile::watch(&path))
///     .generator(Model)
///     .asset_type(AssetType::<Job>::new())
///     .build()?;
///
/// let (regeneration, handle) = Regeneration::new(TokioRuntime::current(), pipeline, Arc::new(InMemory::new()));
/// tokio::spawn(regeneration.run());
/// let status = handle.next_run().await;
/// assert_eq!(status.incarnation.unwrap().id.to_string(), "example@1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Regeneration<R> {
    runtime: R,
    pipeline: Pipeline,
    seals: Arc<dyn Sealer>,
    kernel: Kernel,
    /// The results of the last good run. Shared only while generators run.
    memo: Arc<Memo>,
    latest: Option<Incarnation>,
    readings: Readings,
    draft: Option<Draft>,
    /// The candidate of a run with errors. Guards and external validators check it too, so that all problems are
    /// reported.
    refused: Option<Candidate>,
    /// What the run with errors would have changed, so that problems name its lines.
    refused_run: Option<Box<Overlay>>,
    /// Whether the result of the present run is in force.
    in_force: bool,
    spent: Vec<SealOverride>,
    /// The warnings of external validators about the draft.
    warnings: Problems,
    /// Their warnings about the content that was sealed last. They are not asked about the same content again.
    remarks: Option<Remarks>,
    work: Option<BoxFuture<'static, Finished>>,
    /// Whether `work` has been polled.
    at_work: bool,
    trials: Trials,
    wake: Option<Mono>,
    asked: mpsc::Receiver<()>,
    questions: mpsc::Receiver<Question>,
    status: watch::Sender<Status>,
}

/// What a regeneration waits for.
enum Happened {
    Event(Event),
    /// The present step of a run has ended.
    Finished(Box<Finished>),
    TrialEnded,
    Question(Question),
    /// All handles are dropped.
    Released,
}

impl<R: Runtime> Regeneration<R> {
    /// Prepares regeneration and returns it with its handle. Call [`Regeneration::run`] to start it.
    pub fn new(runtime: R, pipeline: Pipeline, seals: Arc<dyn Sealer>) -> (Self, Handle) {
        let (ask, asked) = mpsc::channel(1);
        let (question, questions) = mpsc::channel(1);
        let (status, watched) = watch::channel(Status::default());
        let types = Arc::clone(pipeline.types());
        let regeneration = Self {
            kernel: Kernel::new(pipeline.0.timing),
            memo: Arc::default(),
            latest: None,
            readings: BTreeMap::new(),
            draft: None,
            refused: None,
            refused_run: None,
            in_force: false,
            spent: Vec::new(),
            warnings: Problems::none(),
            remarks: None,
            work: None,
            at_work: false,
            trials: Trials::default(),
            wake: None,
            runtime,
            pipeline,
            seals: seals.clone(),
            asked,
            questions,
            status,
        };
        let handle = Handle {
            ask,
            questions: question,
            status: watched,
            seals,
            types,
        };
        (regeneration, handle)
    }

    /// Runs until all handles are dropped. The first run starts at once. Dropping the future stops regeneration; a run
    /// in progress then seals nothing, unless its commit has already begun.
    pub async fn run(mut self) {
        let sources = &self.pipeline.0.sources;
        let mut hints = select_all(sources.iter().map(|source| source.changes()));
        let mut event = Some(Event::Asked);
        while let Some(happened) = event {
            self.step(happened);
            event = self.next_event(&mut hints).await;
        }
    }

    fn step(&mut self, event: Event) {
        let before = self.kernel.is_running();
        let mut effects = Vec::new();
        self.kernel.step(self.runtime.now(), event, &mut effects);
        let running = self.kernel.is_running();
        let ended = before && (!running || effects.contains(&Effect::ReadSources));
        let good = ended && std::mem::take(&mut self.in_force);
        if ended {
            (self.draft, self.refused, self.refused_run) = (None, None, None);
        }
        // One change of the status: a reader must not see a run both counted and in progress.
        self.status.send_if_modified(|status| {
            status.runs += u64::from(ended);
            if good {
                status.good = status.runs;
            }
            std::mem::replace(&mut status.running, running) != running || ended
        });
        for effect in effects {
            self.perform(effect);
        }
    }

    /// Performs an effect of the kernel. Work that takes time becomes a future.
    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::ReadSources => self.work = Some(self.read()),
            Effect::RunGenerators => self.work = Some(self.generate()),
            Effect::Validate => self.work = self.validate(),
            Effect::Seal => self.work = self.seal(),
            Effect::RecordRevisions => self.work = self.record(),
            Effect::Wake(then) => self.wake = Some(then),
        }
    }

    /// Waits for the next event of the kernel. `None`: all handles are dropped.
    async fn next_event(&mut self, hints: &mut SelectAll<BoxStream<'static, ()>>) -> Option<Event> {
        loop {
            match self.next(hints).await {
                Happened::Event(event) => return Some(event),
                Happened::Finished(finished) => {
                    (self.work, self.at_work) = (None, false);
                    return Some(self.finish(*finished));
                }
                Happened::TrialEnded => self.trials.under_way = None,
                Happened::Question(Question::Trial(trial)) => self.trials.ask(*trial),
                Happened::Question(Question::Trace(asset, answer)) => {
                    // The caller may have given up.
                    let _ = answer.send(self.memo.trace(None, &asset));
                }
                Happened::Question(Question::Field(asset, field, answer)) => {
                    // The caller may have given up.
                    let _ = answer.send(self.memo.field(&asset, &field));
                }
                Happened::Released => return None,
            }
        }
    }

    async fn next(&mut self, hints: &mut SelectAll<BoxStream<'static, ()>>) -> Happened {
        if !self.at_work {
            self.begin_trial();
        }
        let wake = match self.wake {
            Some(then) => self.runtime.sleep_until(then),
            None => futures::future::pending().boxed(),
        };
        let work: BoxFuture<'_, Happened> = match (&mut self.trials.under_way, &mut self.work) {
            (Some(trial), _) => trial.map(|()| Happened::TrialEnded).boxed(),
            (None, Some(work)) => {
                self.at_work = true;
                work.map(|finished| Happened::Finished(Box::new(finished)))
                    .boxed()
            }
            (None, None) => futures::future::pending().boxed(),
        };
        let hint = async {
            match hints.next().await {
                Some(()) => Happened::Event(Event::SourceChanged),
                None => futures::future::pending().await,
            }
        };
        let (asked, questions) = (&mut self.asked, &mut self.questions);
        let asked = async {
            tokio::select! {
                asked = asked.recv() => match asked {
                    Some(()) => Happened::Event(Event::Asked),
                    None => Happened::Released,
                },
                Some(question) = questions.recv() => Happened::Question(question),
            }
        };
        let outside = select(Box::pin(hint), Box::pin(asked));
        match select(select(work, wake), outside).await {
            Either::Left((Either::Left((happened, _)), _)) => happened,
            Either::Left((Either::Right(((), _)), _)) => {
                self.wake = None;
                Happened::Event(Event::Tick)
            }
            Either::Right((Either::Left((happened, _)) | Either::Right((happened, _)), _)) => {
                happened
            }
        }
    }

    /// Stores the result of the generators, and reports its problems. `unread`: a source could not be read.
    fn take_drafted(&mut self, drafted: Result<Draft, Refused>, unread: bool) -> Generated {
        match drafted {
            Ok(draft) => {
                let changed = self.latest.is_none() || !draft.candidate.changes.is_empty();
                self.report(draft.warnings.clone());
                self.draft = Some(draft);
                if changed {
                    Generated::Changed
                } else {
                    self.repeat_remarks();
                    Generated::Unchanged
                }
            }
            Err(Refused {
                problems,
                candidate,
                overlay,
            }) => {
                self.refused_run = Some(overlay);
                self.report(problems);
                self.refused = candidate.filter(|candidate| !candidate.changes.is_empty());
                if unread {
                    Generated::Failed
                } else if self.refused.is_some() {
                    Generated::Changed
                } else {
                    Generated::Refused
                }
            }
        }
    }

    /// Takes in the result of a piece of work, and returns the event that reports it to the kernel.
    fn finish(&mut self, finished: Finished) -> Event {
        let event = self.take_in(finished);
        // Refusals of the guards are set with their verdict. A run that ends without one was not refused by a guard.
        if let Event::Generated(generated) = event
            && generated != Generated::Changed
        {
            self.set_refusals(Vec::new());
        }
        event
    }

    fn take_in(&mut self, finished: Finished) -> Event {
        match finished {
            Finished::Read { readings, latest } => {
                self.readings = readings;
                match latest {
                    Ok((latest, remarks)) => {
                        let header = latest.as_ref().map(|latest| latest.header().clone());
                        self.status
                            .send_modify(|status| status.incarnation = header);
                        self.latest = latest;
                        self.remarks = remarks.or(self.remarks.take());
                    }
                    Err(error) => {
                        let problems = failed("cannot read the incarnation in force", &*error);
                        self.readings
                            .insert(SourceName("store".into()), Err(problems));
                    }
                }
                Event::Read
            }
            Finished::Generated { drafted, unread } => {
                Event::Generated(self.take_drafted(drafted, unread))
            }
            Finished::NotGenerated(problem) => {
                self.report(problem.into());
                Event::Generated(Generated::Failed)
            }
            Finished::Validated(Ok(judged)) => {
                let refused = self.refused.is_some() || judged.problems.any_error();
                self.spent = judged.used;
                self.warnings = judged.problems.clone();
                self.set_refusals(judged.refusals);
                self.add_problems_of_assets(judged.problems);
                self.add_problems(judged.set_aside);
                Event::Validated(if refused {
                    Verdict::Refused
                } else {
                    Verdict::Passed
                })
            }
            Finished::Validated(Err(error)) => {
                self.set_refusals(Vec::new());
                self.add_problems(failed("cannot read overrides or keep content", &*error));
                Event::Validated(Verdict::Failed)
            }
            Finished::Sealed(Ok(incarnation)) => {
                self.take_sealed(incarnation);
                Event::Recorded(true)
            }
            Finished::Recorded(Ok(())) => {
                self.accept();
                Event::Recorded(true)
            }
            Finished::Sealed(Err(error)) | Finished::Recorded(Err(error)) => {
                self.add_problems(failed("cannot seal", &*error));
                Event::Recorded(false)
            }
        }
    }

    /// Stores an incarnation that was sealed and is now in force.
    fn take_sealed(&mut self, incarnation: Incarnation) {
        let header = incarnation.header().clone();
        tracing::info!(incarnation = %header.id, assets = header.assets, "sealed an incarnation");
        self.remarks = Some(Remarks {
            content: header.digest,
            warnings: std::mem::take(&mut self.warnings),
        });
        self.status
            .send_modify(|status| status.incarnation = Some(header));
        self.latest = Some(incarnation);
        self.accept();
    }

    /// Accepts the draft, which is in force, into the memo. The cost of the next run then depends on later changes
    /// only.
    fn accept(&mut self) {
        self.in_force = true;
        if let Some(draft) = self.draft.take() {
            let seen = draft.sources.clone();
            self.status.send_modify(|status| status.seen = seen);
            match Arc::get_mut(&mut self.memo) {
                Some(memo) => memo.accept(draft),
                // Should not happen: generators release the memo before their result is delivered. With an empty memo
                // the next run is a full one.
                None => self.memo = Arc::default(),
            }
        }
    }

    /// Reports the warnings of external validators about the incarnation in force again.
    fn repeat_remarks(&self) {
        let latest = self.latest.as_ref().map(|latest| latest.header().digest);
        if let Some(remarks) = &self.remarks
            && Some(remarks.content) == latest
            && !self.pipeline.0.external.is_empty()
        {
            self.add_problems_of_assets(remarks.warnings.clone());
        }
    }

    fn set_refusals(&self, refusals: Vec<Refusal>) {
        self.status.send_modify(|status| status.refusals = refusals);
    }

    fn report(&self, problems: Problems) {
        self.status
            .send_modify(|status| status.problems = Problems::none());
        self.add_problems(problems);
    }

    /// Reports problems about the assets of a snapshot, as guards and external validators find them.
    fn add_problems_of_assets(&self, mut problems: Problems) {
        self.memo.refresh(self.overlay(), &mut problems);
        self.memo.locate(self.overlay(), &mut problems);
        self.add_problems(problems);
    }

    /// The changes that the present run makes to the memo.
    fn overlay(&self) -> Option<&Overlay> {
        let drafted = self.draft.as_ref().map(|draft| &draft.overlay);
        drafted.or(self.refused_run.as_deref())
    }

    fn add_problems(&self, problems: Problems) {
        let partition = self.pipeline.partition();
        for problem in &problems {
            tracing::warn!(%partition, %problem, "generation found a problem");
        }
        self.status
            .send_modify(|status| status.problems.extend(problems));
        let errors = self.status.borrow().problems.len();
        metrics::gauge!("prodspec_generation_problems", "partition" => partition.to_string())
            .set(errors as f64);
    }
}

fn failed(what: &str, error: &dyn std::error::Error) -> Problems {
    Problem::new(format!("{what}: {error}; trying again"))
        .by("store")
        .into()
}

impl<R> std::fmt::Debug for Regeneration<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Regeneration")
            .field("pipeline", &self.pipeline)
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

/// Runs regeneration until `shutdown` completes, or until all handles are dropped.
pub async fn until<R: Runtime>(regeneration: Regeneration<R>, shutdown: impl Future<Output = ()>) {
    let run = std::pin::pin!(regeneration.run());
    let shutdown = std::pin::pin!(shutdown);
    select(run, shutdown).await;
}

#[cfg(test)]
mod tests;
