//! The state of a cell, under one lock. Calls and events of processes both change it through [`Cell::change`], which
//! then takes the steps that follow from the change. No code waits while it holds the lock.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::json;
use tokio::sync::watch;

use super::{fence::Fences, front::Front, job::Job, journal::Journal};
use crate::production::api::{By, Change};

/// Why a cell refuses a call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The fence refused the call: there is a newer owner or a later call.
    #[error("{message}")]
    Fenced {
        /// What the fence compared, and what to do next.
        message: String,
        /// The greatest token seen.
        seen: u64,
    },
    /// The cell is being turned down and accepts no changes.
    #[error("{0}")]
    Refused(String),
    /// The call has invalid arguments.
    #[error("{0}")]
    Invalid(String),
    /// The cell has no such resource.
    #[error("the cell has no {0}: create it with PUT first")]
    Absent(String),
    /// The cell cannot write its journal or another file, and exits.
    #[error(
        "the cell cannot write to its directory and exits: free disk space, then start it again"
    )]
    Io(#[from] io::Error),
}

/// How the cell ended.
#[derive(Debug)]
enum End {
    TurnedDown,
    Failed(String),
}

/// A handle to the state of the cell. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct Cell(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    instance: String,
    dir: PathBuf,
    state: Mutex<State>,
    generation: watch::Sender<u64>,
    end: watch::Sender<Option<End>>,
}

/// The state of the cell.
#[derive(Debug)]
pub(super) struct State {
    pub(super) journal: Journal,
    pub(super) fences: Fences,
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) front: Option<Front>,
    /// Last number given to a process or a routing. Numbers rise and are never used twice.
    pub(super) last_number: u64,
    /// True while the whole cell is being turned down.
    pub(super) leaving: bool,
}

impl Cell {
    /// Creates an empty cell and writes its start to the journal.
    pub(super) fn begin(
        name: String,
        instance: String,
        dir: PathBuf,
        mut journal: Journal,
        fences: Fences,
    ) -> io::Result<Self> {
        let up = json!({ "pid": std::process::id() });
        journal.append("cell", Change::Process, &(), &up, &By::NoCall)?;
        Ok(Self(Arc::new(Shared {
            name,
            instance,
            dir,
            state: Mutex::new(State {
                journal,
                fences,
                jobs: BTreeMap::new(),
                front: None,
                last_number: 0,
                leaving: false,
            }),
            generation: watch::Sender::new(1),
            end: watch::Sender::new(None),
        })))
    }

    pub(super) fn name(&self) -> &str {
        &self.0.name
    }

    pub(super) fn instance(&self) -> &str {
        &self.0.instance
    }

    pub(super) fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Runs `look` with the state and its generation.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.lock();
        look(&mut state, *self.0.generation.borrow())
    }

    /// Changes the state and takes the steps that follow. The cell exits if it cannot write its journal.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut state = self.lock();
        let changed = change(&mut state).and_then(|changed| {
            state.reconcile(self)?;
            Ok(changed)
        });
        if let Err(Error::Io(error)) = &changed {
            tracing::error!(%error, "cannot write to the cell's directory; the cell exits: free disk space");
            self.0
                .end
                .send_replace(Some(End::Failed(error.to_string())));
        } else if state.leaving && state.jobs.is_empty() && state.front.is_none() {
            self.0.end.send_replace(Some(End::TurnedDown));
        }
        if changed.is_ok() {
            self.0.generation.send_modify(|generation| *generation += 1);
        }
        changed
    }

    /// Changes the state because of an event, without a caller that gets the result. A failure ends the cell and is
    /// logged.
    pub(super) fn note(&self, change: impl FnOnce(&mut State) -> Result<(), Error>) {
        let _ = self.change(change);
    }

    /// Takes the next steps again after `wait`.
    pub(super) fn look_again_after(&self, wait: Duration) {
        let cell = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            cell.note(|_| Ok(()));
        });
    }

    /// Waits until the generation is greater than `after` or the cell ends, for at most `patience`.
    pub(super) async fn moved(&self, after: u64, patience: Duration) {
        let mut generation = self.0.generation.subscribe();
        tokio::select! {
            _ = async { let _ = generation.wait_for(|now| *now > after).await; } => {}
            () = self.end() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    /// Waits until the cell ends.
    pub(super) async fn end(&self) {
        let _ = self.0.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns an error if the cell ended because of a failure.
    pub(super) fn ended(&self) -> io::Result<()> {
        match &*self.0.end.borrow() {
            Some(End::Failed(why)) => Err(io::Error::other(why.clone())),
            Some(End::TurnedDown) | None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the next number, which is greater than all earlier ones.
    pub(super) fn number(last: &mut u64) -> u64 {
        *last += 1;
        *last
    }

    /// Takes every step that is possible now. The tasks come first, then the routing, which depends on them, then the
    /// drained tasks, which depend on the routing.
    fn reconcile(&mut self, cell: &Cell) -> Result<(), Error> {
        for (name, job) in &mut self.jobs {
            job.advance(cell, name, &mut self.journal, &mut self.last_number)?;
        }
        if let Some(front) = &mut self.front {
            front.advance(cell, &self.jobs, &mut self.journal, &mut self.last_number)?;
        }
        self.front.take_if(|front| front.gone());
        let routing = self.front.as_ref().map(Front::epochs);
        for (name, job) in &mut self.jobs {
            job.release(routing);
            job.count_capacity(name, &mut self.journal)?;
        }
        self.jobs.retain(|_, job| !job.gone());
        Ok(())
    }
}
