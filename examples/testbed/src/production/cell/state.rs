//! The state of a cell, under one lock. Calls and reports of processes both change it through [`Cell::change`], which
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

use super::{
    error::Error,
    fence::Fences,
    front::Front,
    job::Job,
    journal::Journal,
    numbers::Numbers,
    site::{Report, Site},
};
use crate::production::api::{By, Change};

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
    name: Arc<str>,
    instance: String,
    dir: Arc<Path>,
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
    pub(super) numbers: Numbers,
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
            name: name.into(),
            instance,
            dir: dir.into(),
            state: Mutex::new(State {
                journal,
                fences,
                jobs: BTreeMap::new(),
                front: None,
                numbers: Numbers::default(),
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

    /// Returns what the processes and the peers of the cell know of it.
    pub(super) fn site(&self) -> Site {
        let cell = self.clone();
        Site {
            name: Arc::clone(&self.0.name),
            dir: Arc::clone(&self.0.dir),
            reports: Arc::new(move |report| cell.note(report)),
        }
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
            state.reconcile(&self.site())?;
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

    /// Changes the state because of a report, without a caller that gets the result. A failure ends the cell and is
    /// logged.
    fn note(&self, report: Report) {
        let site = self.site();
        let _ = self.change(|state| Ok(state.note(&site, report)?));
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
    /// Records a report. Reports of a job or a balancer that is gone have no effect.
    fn note(&mut self, site: &Site, report: Report) -> io::Result<()> {
        let journal = &mut self.journal;
        match (report, &mut self.front) {
            (Report::Ready { job, task, port }, _) => match self.jobs.get_mut(&job) {
                Some(it) => it.ready(&job, task, port, journal),
                None => Ok(()),
            },
            (Report::TaskExited { job, task, problem }, _) => match self.jobs.get_mut(&job) {
                Some(it) => it.exited(site, &job, task, problem, journal),
                None => Ok(()),
            },
            (Report::Acknowledged { balancer, epoch }, Some(front)) => {
                front.acknowledged(balancer, epoch, journal)
            }
            (Report::BalancerExited { balancer }, Some(front)) => {
                front.exited(site, balancer, journal)
            }
            (Report::Peer { name, found }, Some(front)) => {
                front.peer(&name, found);
                Ok(())
            }
            (Report::DelayOver, _) | (_, None) => Ok(()),
        }
    }

    /// Takes every step that is possible now. The tasks come first, then the routing, which depends on them, then the
    /// drained tasks, which depend on the routing.
    fn reconcile(&mut self, site: &Site) -> Result<(), Error> {
        for (name, job) in &mut self.jobs {
            job.advance(site, name, &mut self.journal, &mut self.numbers)?;
        }
        if let Some(front) = &mut self.front {
            front.advance(site, &self.jobs, &mut self.journal, &mut self.numbers)?;
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
