//! The cell's state behind its one lock. Every change, asked or suffered, goes through [`Cell::change`]: do it, then
//! take the steps that follow from it. Nothing waits while the lock is held.

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

/// Why a call is not answered as wished.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A newer owner or call is in charge.
    #[error("{message}")]
    Fenced {
        /// What was compared, and what to do.
        message: String,
        /// The greatest token seen.
        seen: u64,
    },
    /// The cell is on its way out.
    #[error("{0}")]
    Refused(String),
    /// The call makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is no such thing.
    #[error("{0} is not here: put it first")]
    Absent(String),
    /// The cell cannot write down what it does, and stops.
    #[error("the cell cannot write to its directory and stops: make room, then start it again")]
    Io(#[from] io::Error),
}

/// How the cell ended.
#[derive(Debug)]
enum End {
    TurnedDown,
    Failed(String),
}

/// A handle to the cell.
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

/// Everything the cell knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) journal: Journal,
    pub(super) fences: Fences,
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) front: Option<Front>,
    /// Numbers of processes and of routings: rising, never used twice.
    pub(super) last_number: u64,
    /// The whole cell is being turned down.
    pub(super) leaving: bool,
}

impl Cell {
    /// An empty cell.
    pub(super) fn begin(
        name: String,
        instance: String,
        dir: PathBuf,
        mut journal: Journal,
        fences: Fences,
    ) -> io::Result<Self> {
        let up = json!({ "pid": std::process::id() });
        journal.append("cell", Change::Process, &(), &up, &By::Nobody)?;
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

    /// Looks at the state, with its generation.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.lock();
        look(&mut state, *self.0.generation.borrow())
    }

    /// Changes the state and takes the steps that follow. A cell that cannot write its journal ends.
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
            tracing::error!(%error, "cannot go on");
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

    /// A change that nobody asked for and nobody is told about: a failure ends the cell, and that is in the log.
    pub(super) fn note(&self, change: impl FnOnce(&mut State) -> Result<(), Error>) {
        let _ = self.change(change);
    }

    /// Looks again at what is to be done, after a while.
    pub(super) fn look_again_after(&self, wait: Duration) {
        let cell = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            cell.note(|_| Ok(()));
        });
    }

    /// Returns once the generation is greater than `after`, the cell ends, or `patience` is over.
    pub(super) async fn moved(&self, after: u64, patience: Duration) {
        let mut generation = self.0.generation.subscribe();
        tokio::select! {
            _ = async { let _ = generation.wait_for(|now| *now > after).await; } => {}
            () = self.end() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    /// Returns when the cell has ended.
    pub(super) async fn end(&self) {
        let _ = self.0.end.subscribe().wait_for(Option::is_some).await;
    }

    /// How it ended.
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
    /// A number greater than all before.
    pub(super) fn number(last: &mut u64) -> u64 {
        *last += 1;
        *last
    }

    /// Takes every step that can be taken now: tasks first, then the routing that follows from them, then what may go
    /// because nothing is routed there any more.
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
