//! A job of a cell: its wanted state, its tasks, and the capacity that it guarantees during a change.

use std::{io, net::Ipv4Addr, time::Duration};

use serde_json::json;
use tokio::{sync::oneshot, time::Instant};

use super::{
    backoff::Backoff,
    epochs::Epochs,
    journal::Journal,
    numbers::Numbers,
    plan::{self, Seen, Step},
    site::Site,
    task,
};
use crate::production::api::{
    By, Change, JobSpec, JobView, MetricsTarget, Phase, State as Stability, TaskView,
};

/// A job of a cell.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) leaving: bool,
    pub(super) by: By,
    capacity_in_force: u32,
    tasks: Vec<Task>,
    /// Number of died tasks that have not been replaced yet.
    to_heal: u32,
    backoff: Backoff,
    problem: Option<String>,
}

/// A task, from its start to its exit.
#[derive(Debug)]
struct Task {
    id: u64,
    spec: JobSpec,
    pid: u32,
    port: Option<u16>,
    phase: Phase,
    /// Epoch of the first routing that no longer lists the task. None unless it is draining.
    delisted: Option<u64>,
    /// Dropping it makes the process exit.
    stop: Option<oneshot::Sender<()>>,
    started: Instant,
}

impl Job {
    /// Creates a job without tasks.
    pub(super) fn new(spec: JobSpec, by: By) -> Self {
        Self {
            spec,
            leaving: false,
            by,
            capacity_in_force: 0,
            tasks: Vec::new(),
            to_heal: 0,
            backoff: Backoff::default(),
            problem: None,
        }
    }

    /// Sets the wanted state; none means turndown. A lower capacity is in force at once, a higher one when its tasks
    /// serve.
    pub(super) fn ask(
        &mut self,
        name: &str,
        spec: Option<JobSpec>,
        by: By,
        journal: &mut Journal,
    ) -> io::Result<()> {
        self.leaving = spec.is_none();
        self.spec = spec.unwrap_or_else(|| self.spec.clone());
        self.by = by;
        self.problem = None;
        self.backoff = Backoff::default();
        self.to_heal = 0;
        let least = self.capacity_in_force.min(self.wanted_capacity());
        self.guarantee(name, least, journal)
    }

    /// Performs the next steps of the plan: starts, delists and discards tasks.
    pub(super) fn advance(
        &mut self,
        site: &Site,
        name: &str,
        journal: &mut Journal,
        numbers: &mut Numbers,
    ) -> io::Result<()> {
        for step in plan::next(self.wanted_tasks(), self.capacity_in_force, &self.seen()) {
            match step {
                Step::Start if !self.backoff.over() => {}
                Step::Start => self.start(site, name, numbers.next(), journal)?,
                Step::Delist(id) => self.move_to(name, id, Phase::Draining, journal)?,
                Step::Discard(id) => {
                    if let Some(task) = self.task(id) {
                        task.phase = Phase::Stopping;
                        task.stop = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// Stops the draining tasks that can get no request any more: the balancer has acknowledged a routing without them,
    /// or there is no balancer.
    pub(super) fn release(&mut self, routing: Option<Epochs>) {
        for task in &mut self.tasks {
            if task.phase != Phase::Draining {
                continue;
            }
            let delisted = *task
                .delisted
                .get_or_insert(routing.map_or(0, |routing| routing.said));
            if routing.is_none_or(|routing| routing.acknowledged >= delisted) {
                task.phase = Phase::Stopping;
                task.stop = None;
            }
        }
    }

    /// Puts the whole wanted capacity in force when enough tasks serve.
    pub(super) fn count_capacity(&mut self, name: &str, journal: &mut Journal) -> io::Result<()> {
        let serving = self
            .seen()
            .iter()
            .filter(|task| task.fresh && task.phase == Phase::Serving)
            .count();
        if serving >= self.wanted_tasks() {
            self.guarantee(name, self.wanted_capacity(), journal)?;
        }
        Ok(())
    }

    /// Records that a task is healthy and listens on `port`.
    pub(super) fn ready(
        &mut self,
        name: &str,
        id: u64,
        port: u16,
        journal: &mut Journal,
    ) -> io::Result<()> {
        let Some(task) = self.task(id) else {
            return Ok(());
        };
        task.port = Some(port);
        if task.phase == Phase::Starting {
            self.problem = None;
            self.move_to(name, id, Phase::Serving, journal)?;
        }
        Ok(())
    }

    /// Records that the process of a task has exited; `problem` says why it failed, if it did.
    pub(super) fn exited(
        &mut self,
        site: &Site,
        name: &str,
        id: u64,
        problem: Option<String>,
        journal: &mut Journal,
    ) -> io::Result<()> {
        let Some(place) = self.tasks.iter().position(|task| task.id == id) else {
            return Ok(());
        };
        let task = self.tasks.remove(place);
        let expected = task.phase == Phase::Stopping;
        let by = if expected { &self.by } else { &By::NoCall };
        let resource = format!("jobs/{name}/{id}");
        journal.append(&resource, Change::Process, &task.phase, &(), by)?;
        if !expected {
            self.problem = problem.or(self.problem.take());
            self.to_heal += 1;
            self.slow_down(site, task.started.elapsed());
        }
        Ok(())
    }

    /// Returns true if the turndown is done: all tasks have exited.
    pub(super) fn gone(&self) -> bool {
        self.leaving && self.tasks.is_empty()
    }

    /// Returns the serving tasks: id, port and capacity.
    pub(super) fn serving(&self) -> impl Iterator<Item = (u64, u16, u32)> {
        self.tasks
            .iter()
            .filter(|task| task.phase == Phase::Serving)
            .filter_map(|task| Some((task.id, task.port?, task.spec.capacity_per_task)))
    }

    /// Returns the tasks that report counters: those that serve or drain.
    pub(super) fn targets(&self, name: &str) -> impl Iterator<Item = MetricsTarget> {
        let up = |task: &&Task| matches!(task.phase, Phase::Serving | Phase::Draining);
        self.tasks.iter().filter(up).filter_map(move |task| {
            Some(MetricsTarget {
                resource: format!("jobs/{name}/{}", task.id),
                pid: Some(task.pid),
                address: (Ipv4Addr::LOCALHOST, task.port?).into(),
                version: Some(task.spec.version.clone()),
                serving: task.phase == Phase::Serving,
            })
        })
    }

    /// Returns whether the job has reached its wanted state.
    pub(super) fn stability(&self) -> Stability {
        let seen = self.seen();
        let settled = seen.len() == self.wanted_tasks()
            && seen
                .iter()
                .all(|task| task.fresh && task.phase == Phase::Serving);
        if settled {
            Stability::Stable
        } else {
            Stability::Changing
        }
    }

    /// Returns the current state of the job for callers.
    pub(super) fn view(&self, generation: u64) -> JobView {
        JobView {
            generation,
            spec: self.spec.clone(),
            leaving: self.leaving,
            state: self.stability(),
            capacity_in_force: self.capacity_in_force,
            tasks: self.tasks.iter().map(Task::view).collect(),
            problem: self.problem.clone(),
        }
    }

    fn start(&mut self, site: &Site, name: &str, id: u64, journal: &mut Journal) -> io::Result<()> {
        let by = if self.to_heal > 0 {
            &By::Heal
        } else {
            &self.by
        };
        let to = json!({ "phase": Phase::Starting, "version": self.spec.version });
        journal.append(&format!("jobs/{name}/{id}"), Change::Process, &(), &to, by)?;
        self.to_heal = self.to_heal.saturating_sub(1);
        let (pid, stop) = match task::start(site, name, id, &self.spec) {
            Ok(started) => started,
            Err(error) => {
                self.problem = Some(format!("cannot start a process: {error}"));
                self.slow_down(site, Duration::ZERO);
                return Ok(());
            }
        };
        self.tasks.push(Task {
            id,
            spec: self.spec.clone(),
            pid,
            port: None,
            phase: Phase::Starting,
            delisted: None,
            stop: Some(stop),
            started: Instant::now(),
        });
        Ok(())
    }

    fn slow_down(&mut self, site: &Site, life: Duration) {
        if let Some(wait) = self.backoff.died(life) {
            site.look_again_after(wait);
        }
    }

    fn move_to(&mut self, name: &str, id: u64, to: Phase, journal: &mut Journal) -> io::Result<()> {
        let by = self.by.clone();
        if let Some(task) = self.task(id) {
            let state = json!({ "phase": to, "version": task.spec.version, "pid": task.pid, "port": task.port });
            let resource = format!("jobs/{name}/{id}");
            journal.append(&resource, Change::Process, &task.phase, &state, &by)?;
            task.phase = to;
        }
        Ok(())
    }

    fn guarantee(&mut self, name: &str, capacity: u32, journal: &mut Journal) -> io::Result<()> {
        if capacity != self.capacity_in_force {
            let resource = format!("jobs/{name}");
            let from = self.capacity_in_force;
            journal.append(&resource, Change::Capacity, &from, &capacity, &self.by)?;
            self.capacity_in_force = capacity;
        }
        Ok(())
    }

    fn task(&mut self, id: u64) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.id == id)
    }

    fn seen(&self) -> Vec<Seen> {
        self.tasks
            .iter()
            .map(|task| Seen {
                id: task.id,
                phase: task.phase,
                fresh: task.spec.same_task(&self.spec),
                capacity: task.spec.capacity_per_task,
            })
            .collect()
    }

    fn wanted_tasks(&self) -> usize {
        if self.leaving {
            0
        } else {
            self.spec.replicas as usize
        }
    }

    fn wanted_capacity(&self) -> u32 {
        if self.leaving {
            0
        } else {
            self.spec.capacity()
        }
    }
}

impl Task {
    fn view(&self) -> TaskView {
        TaskView {
            id: self.id,
            pid: self.pid,
            port: self.port,
            version: self.spec.version.clone(),
            schema: self.spec.schema,
            phase: self.phase,
        }
    }
}
