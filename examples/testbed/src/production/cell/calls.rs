//! The calls of a cell. Each change passes the fence and is written to the journal, and has no effect if production is
//! already in the wanted state.

use std::{
    io,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    time::Duration,
};

use super::{
    error::Error,
    front::Front,
    job::Job,
    site::Site,
    state::{Cell, State},
};
use crate::production::{
    api::{
        BalancerSpec, BalancerView, By, Caller, Change, Identity, JobSpec, JobView, MetricsTarget,
        Progress, State as Stability,
    },
    files::replace_file,
};

/// Maximum number of tasks of one job. Each task is a process of this machine.
const MOST_REPLICAS: u32 = 100;
/// Number of attempts, 50 ms apart, to listen on the port of the balancer of an earlier process of this cell.
const INSIST: u32 = 40;

impl Cell {
    pub(super) fn identity(&self) -> Identity {
        self.look(|state, generation| Identity {
            name: self.name().into(),
            instance: self.instance().into(),
            pid: std::process::id(),
            generation,
            jobs: state.jobs.keys().cloned().collect(),
        })
    }

    /// Passes the fence before a call waits, so that calls of older owners are refused from now on.
    pub(super) fn hear(&self, resource: &str, caller: &Caller) -> Result<(), Error> {
        self.look(|state, _| state.admit(resource, caller))
    }

    /// Returns the job `name`, or [`Error::Absent`].
    pub(super) fn job(&self, name: &str, caller: &Caller) -> Result<JobView, Error> {
        self.look(|state, generation| {
            let resource = format!("jobs/{name}");
            state.admit(&resource, caller)?;
            let job = state.jobs.get(name).ok_or(Error::Absent(resource))?;
            Ok(job.view(generation))
        })
    }

    /// Sets the wanted state of the job `name`.
    pub(super) fn put_job(
        &self,
        name: &str,
        spec: JobSpec,
        caller: &Caller,
    ) -> Result<Progress, Error> {
        check_name(name)?;
        if spec.replicas > MOST_REPLICAS || spec.capacity_per_task == 0 {
            return Err(Error::Invalid(format!(
                "a job has at most {MOST_REPLICAS} replicas, and a capacity of at least 1 per task"
            )));
        }
        self.change(|state| {
            state.admit_change(&format!("jobs/{name}"), caller)?;
            state.ask_job(name, Some(spec), By::from(caller))
        })?;
        Ok(self.look(|state, _| progress(state.jobs.get(name).map(Job::stability))))
    }

    /// Removes a job: drains and stops its tasks.
    pub(super) fn delete_job(&self, name: &str, caller: &Caller) -> Result<Progress, Error> {
        self.change(|state| {
            state.admit(&format!("jobs/{name}"), caller)?;
            state.ask_job(name, None, By::from(caller))
        })?;
        Ok(self.look(|state, _| progress(state.jobs.get(name).map(Job::stability))))
    }

    /// Returns the processes of the cell that report counters.
    pub(super) fn targets(&self) -> Vec<MetricsTarget> {
        self.look(|state, generation| {
            let jobs = state.jobs.iter().flat_map(|(name, job)| job.targets(name));
            let front = state.front.as_ref().map(|front| front.view(generation));
            let balancer = front.map(|view| MetricsTarget {
                resource: "balancer".into(),
                pid: view.pid,
                address: view.address,
                version: None,
                serving: !view.leaving,
            });
            jobs.chain(balancer).collect()
        })
    }

    /// Returns the balancer, or [`Error::Absent`].
    pub(super) fn balancer(&self, caller: &Caller) -> Result<BalancerView, Error> {
        self.look(|state, generation| {
            state.admit("balancer", caller)?;
            let front = state.front.as_ref();
            let front = front.ok_or_else(|| Error::Absent("balancer".into()))?;
            Ok(front.view(generation))
        })
    }

    /// Sets the wanted state of the balancer.
    pub(super) async fn put_balancer(
        &self,
        spec: BalancerSpec,
        caller: &Caller,
    ) -> Result<Progress, Error> {
        spec.jobs
            .iter()
            .chain(spec.cells.keys())
            .try_for_each(|name| check_name(name))?;
        let listener = match self.look(|state, _| state.front.is_some()) {
            true => None,
            false => Some(listen(self.dir()).await?),
        };
        self.change(|state| {
            state.admit_change("balancer", caller)?;
            if state.front.is_none() {
                let listener = listener.ok_or_else(|| Error::Absent("balancer".into()))?;
                let port = listener.local_addr()?.port();
                replace_file(
                    &self.dir().join("balancer-port"),
                    port.to_string().as_bytes(),
                )?;
                state.front = Some(Front::new(listener)?);
            }
            state.ask_balancer(&self.site(), Some(spec), By::from(caller))
        })?;
        Ok(self.look(|state, _| progress(state.front.as_ref().map(Front::stability))))
    }

    /// Removes the balancer.
    pub(super) fn delete_balancer(&self, caller: &Caller) -> Result<Progress, Error> {
        self.change(|state| {
            state.admit("balancer", caller)?;
            state.ask_balancer(&self.site(), None, By::from(caller))
        })?;
        Ok(self.look(|state, _| progress(state.front.as_ref().map(Front::stability))))
    }

    /// Turns down all jobs and the balancer; then the cell itself exits.
    pub(super) fn turn_down(&self, caller: &Caller) -> Result<Progress, Error> {
        self.change(|state| {
            state.admit("cell", caller)?;
            state.leaving = true;
            let names: Vec<String> = state.jobs.keys().cloned().collect();
            for name in names {
                state.ask_job(&name, None, By::from(caller))?;
            }
            state.ask_balancer(&self.site(), None, By::from(caller))
        })?;
        Ok(Progress::InProgress)
    }
}

impl State {
    fn admit(&mut self, resource: &str, caller: &Caller) -> Result<(), Error> {
        self.fences.pass(resource, caller)
    }

    fn admit_change(&mut self, resource: &str, caller: &Caller) -> Result<(), Error> {
        self.admit(resource, caller)?;
        if self.leaving {
            return Err(Error::Refused(
                "the cell is being turned down: wait until it has exited, then start it again"
                    .into(),
            ));
        }
        Ok(())
    }

    fn ask_job(&mut self, name: &str, spec: Option<JobSpec>, by: By) -> Result<(), Error> {
        let job = self.jobs.get(name);
        let was = job.filter(|job| !job.leaving).map(|job| &job.spec);
        if was == spec.as_ref() {
            return Ok(());
        }
        self.journal
            .append(&format!("jobs/{name}"), Change::Spec, &was, &spec, &by)?;
        if let (None, Some(spec)) = (job, &spec) {
            let job = Job::new(spec.clone(), by.clone());
            self.jobs.insert(name.into(), job);
        }
        match self.jobs.get_mut(name) {
            Some(job) => Ok(job.ask(name, spec, by, &mut self.journal)?),
            None => Ok(()),
        }
    }

    fn ask_balancer(
        &mut self,
        site: &Site,
        spec: Option<BalancerSpec>,
        by: By,
    ) -> Result<(), Error> {
        let Some(front) = &mut self.front else {
            return Ok(());
        };
        if front.spec() == spec.as_ref() {
            return Ok(());
        }
        self.journal
            .append("balancer", Change::Spec, &front.spec(), &spec, &by)?;
        Ok(front.ask(site, spec, by, &mut self.journal)?)
    }
}

/// Returns the progress of a change. A missing job or balancer means that its turndown is done.
fn progress(stability: Option<Stability>) -> Progress {
    match stability {
        None | Some(Stability::Stable) => Progress::Done,
        Some(Stability::Changing) => Progress::InProgress,
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if (1..=63).contains(&name.len()) && name.bytes().all(good) && !name.starts_with('-') {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{name:?} is not a valid name: use 1 to 63 of the characters a-z, 0-9 and -, and do not begin with -"
    )))
}

/// Listens on the port of the balancer of an earlier process of this cell, so that clients find the balancer again. If
/// the port is still taken after two seconds, listens on another one.
async fn listen(dir: &Path) -> io::Result<TcpListener> {
    let port = std::fs::read_to_string(dir.join("balancer-port"));
    if let Some(port) = port.ok().and_then(|port| port.parse::<u16>().ok()) {
        for _ in 0..INSIST {
            match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
                Ok(listener) => return Ok(listener),
                // The earlier balancer may still be answering requests in flight.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}
