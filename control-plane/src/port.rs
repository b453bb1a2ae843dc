//! The port of rollouts and workflows to intent: edits go over the desk, and their outcome is followed in enforcement.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use annealing_enforcer::Handle as Enforcer;
use async_trait::async_trait;
use control_plane_runtime::Runtime;
use plugin_sdk::{
    BoxError, By, ChangeId, Edits, Holder, Problems, Reading,
    operation::SourceEdit as Edit,
    plugin,
    port::{HeldEdit, Made, SettleReply, SettleRequest, WaitNo},
    with_causes,
};
use prodspec_model::Digest;

use crate::{
    EditRefused, SourceEdit,
    desk::{self, Desk},
    settled::{LATER, Waits},
    shared::Shared,
};

/// Wait before an edit is made again that others keep from being made.
const AGAIN: Duration = Duration::from_secs(5);

/// Edits of one engine in one ownership.
pub(crate) struct Port<R> {
    shared: Arc<Shared<R>>,
    enforcer: Enforcer<R>,
    waits: Waits,
    begun: Begun,
}

impl<R: Runtime> Port<R> {
    /// Starts the task that serves the waits of the engine.
    pub(crate) fn start(shared: Arc<Shared<R>>, enforcer: Enforcer<R>) -> Self {
        Self {
            waits: Waits::start(&shared, &enforcer),
            shared,
            enforcer,
            begun: Begun::default(),
        }
    }
}

/// The last edits by their ids: each with the id of its change, and how many runs of generation had begun when it was durable.
/// The run after these has the edit.
#[derive(Default)]
struct Begun(Mutex<VecDeque<(ChangeId, ChangeId, u64)>>);

impl Begun {
    /// Number of edits that are known. The wait for an older one waits for a run that begins later.
    const EDITS: usize = 64;

    fn note(&self, id: &ChangeId, made: &desk::Made) {
        let mut edits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        edits.push_front((id.clone(), made.id.clone(), made.begun));
        edits.truncate(Self::EDITS);
    }

    fn of(&self, id: &ChangeId) -> Option<(ChangeId, u64)> {
        let edits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let edit = edits.iter().find(|(of, ..)| of == id);
        edit.map(|(_, change, begun)| (change.clone(), *begun))
    }
}

#[async_trait]
impl<R: Runtime> Edits for Port<R> {
    async fn edit(&self, prepared: &HeldEdit) -> Result<Made, plugin::Error> {
        let made = match prepared.edits.first() {
            Some(first) => self.edit_source(first.source.0.as_ref(), prepared).await?,
            None => Made::default(),
        };
        for pause in &prepared.pauses {
            let by = By::new(prepared.holder.to_string(), pause.why.clone());
            let scope = crate::PauseScope::Asset(pause.asset.clone());
            let paused = self.enforcer.tell(annealing_enforcer::Command::Pause {
                scope,
                by,
                until: None,
            });
            let failed = |error| plugin::Error::transient(with_causes(&error));
            paused.await.map_err(failed)?;
        }
        Ok(made)
    }

    async fn missing(&self, edit: &HeldEdit) -> Result<Vec<String>, plugin::Error> {
        let Some(first) = edit.edits.first() else {
            return Ok(Vec::new());
        };
        let Fitting { fit, left, .. } = self.fitting(&first.source.0, edit).await?;
        let missing = fit.iter().chain(&left);
        Ok(missing.map(|edit| edit.edit.to_string()).collect())
    }

    fn settle(&self, mut request: SettleRequest, reply: SettleReply) {
        let begun = match self.begun.of(&request.change) {
            Some((change, begun)) => {
                request.change = change;
                begun
            }
            None => LATER,
        };
        self.waits.settle(request, begun, reply);
    }

    fn forget(&self, wait: WaitNo) {
        self.waits.forget(wait);
    }

    async fn release(&self, holder: &Holder) -> Result<(), BoxError> {
        self.desk()?.release(holder).await?;
        Ok(())
    }

    async fn holders(&self) -> Result<BTreeSet<Holder>, BoxError> {
        let ledger = self.desk()?.ledger().await?;
        Ok(ledger.fields().map(|field| field.holder.clone()).collect())
    }
}

impl<R: Runtime> Port<R> {
    fn desk(&self) -> Result<Arc<Desk<R>>, plugin::Error> {
        self.shared.desk.borrow().clone().ok_or_else(ended)
    }

    async fn edit_source(&self, source: &str, prepared: &HeldEdit) -> Result<Made, plugin::Error> {
        let desk = self.desk()?;
        let mut edit = SourceEdit::new(source, prepared.by.clone())
            .held_by(prepared.holder.clone())
            .turndown(prepared.turndown);
        if let Some(assets) = &prepared.only {
            edit = edit.only(assets.clone());
        }
        if let Some(assets) = prepared.blast_radius {
            edit = edit.blast_radius(usize::try_from(assets).unwrap_or(usize::MAX));
        }
        let id = prepared.id.clone();
        let answer = |made: desk::Made, left_alone| {
            self.begun.note(&prepared.id, &made);
            answer(made, left_alone)
        };
        if !prepared.lenient {
            let fields = prepared.edits.iter().map(|edit| edit.edit.clone());
            let made = desk
                .edit(&edit.id(id).fields(fields))
                .await
                .map_err(refused)?;
            return Ok(answer(made, Vec::new()));
        }
        let Fitting {
            mut fit,
            left,
            done,
        } = self.fitting(source, prepared).await?;
        let left_alone = left.iter().map(|edit| edit.edit.to_string()).collect();
        // It may be made, and its answer lost.
        if fit.is_empty() && desk.knows(&selection(&id, &done)?).await.map_err(refused)? {
            fit = done;
        }
        if fit.is_empty() {
            return Ok(Made {
                left_alone,
                ..Made::default()
            });
        }
        let id = selection(&id, &fit)?;
        let fields = fit.iter().map(|edit| edit.edit.clone());
        let made = desk
            .edit(&edit.id(id).fields(fields))
            .await
            .map_err(refused)?;
        Ok(answer(made, left_alone))
    }

    /// What can be made of edits now.
    async fn fitting<'e>(
        &self,
        source: &str,
        prepared: &'e HeldEdit,
    ) -> Result<Fitting<'e>, plugin::Error> {
        let (pipeline, runtime) = (&self.shared.pipeline, &self.shared.runtime);
        let found = pipeline.sources().iter().find(|it| *it.name().0 == *source);
        let found = found.ok_or_else(|| {
            plugin::Error::permanent(format!("no source has the name `{source}`"))
        })?;
        let reading = pipeline.read(runtime, found).await;
        let unread = |problems: Problems| plugin::Error::throttled(problems.to_string(), AGAIN);
        let reading = reading.map_err(unread)?;
        let mut fitting = Fitting::default();
        let mut edits = prepared.edits.as_slice();
        let mut units = prepared.units.iter();
        while !edits.is_empty() {
            let many = units.next().map_or(1, |many| (*many).clamp(1, edits.len()));
            let (unit, rest) = edits.split_at(many);
            fitting.add(&reading, unit);
            edits = rest;
        }
        Ok(fitting)
    }
}

/// The edits of a step by what their fields have now.
#[derive(Default)]
struct Fitting<'e> {
    /// The expected values.
    fit: Vec<&'e Edit>,
    /// Neither these nor the new ones.
    left: Vec<&'e Edit>,
    /// The new values.
    done: Vec<&'e Edit>,
}

impl<'e> Fitting<'e> {
    /// Adds edits that are made together or not at all.
    fn add(&mut self, reading: &Reading, unit: &'e [Edit]) {
        let mut one = Fitting::default();
        let is_same = |one: &Edit, other: &Edit| {
            one.edit.document == other.edit.document && one.edit.path == other.edit.path
        };
        for field in unit.chunk_by(is_same) {
            let Some(first) = field.first() else { continue };
            let now = desk::value(reading, &first.edit).ok();
            let fits = |edit: &&Edit| now.as_ref() == Some(&edit.edit.was);
            match field.iter().find(fits) {
                _ if now.as_ref() == Some(&first.edit.to) => one.done.push(first),
                Some(fits) => one.fit.push(fits),
                None => one.left.push(first),
            }
        }
        if !one.left.is_empty() {
            one.left.append(&mut one.fit);
        }
        self.fit.extend(one.fit);
        self.left.extend(one.left);
        self.done.extend(one.done);
    }
}

/// The id under which some edits of a step are made. Which fields fit depends on the source, so each selection of them is a
/// change of its own.
fn selection(id: &ChangeId, edits: &[&Edit]) -> Result<ChangeId, plugin::Error> {
    let paths: Vec<String> = edits.iter().map(|edit| edit.edit.to_string()).collect();
    let id = Digest::of(format!("{id} {}", paths.join(" ")).as_bytes()).to_string();
    ChangeId::new(&id).map_err(|invalid| plugin::Error::permanent(invalid.to_string()))
}

/// What an edit has changed.
fn answer(made: desk::Made, left_alone: Vec<String>) -> Made {
    Made {
        assets: made.assets,
        changes: made.own,
        left_alone,
        sealed: made.sealed.unwrap_or_default(),
    }
}

fn ended() -> plugin::Error {
    plugin::Error::throttled("this process does not own the partition any more", AGAIN)
}

fn refused(error: EditRefused) -> plugin::Error {
    let message = with_causes(&error);
    match error {
        // R36: these are not the edit's own errors, so the step waits for their end, and they count as no failures.
        EditRefused::Store(_)
        | EditRefused::KeepsChanging(_)
        | EditRefused::Failed(_)
        | EditRefused::Elsewhere(_) => plugin::Error::throttled(message, AGAIN),
        EditRefused::Unknown { .. } => plugin::Error::unknown(message),
        _ => plugin::Error::permanent(message),
    }
}
