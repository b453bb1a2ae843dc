//! The balancer of a cell: its wanted state, its listening socket, its process, and the last routing sent to the
//! process.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::json;
use tokio::{sync::watch, task::AbortHandle, time::Instant};

use super::{
    backoff::Backoff, epochs::Epochs, job::Job, journal::Journal, numbers::Numbers, peers, proxy,
    site::Site,
};
use crate::production::{
    api::{BalancerSpec, BalancerView, By, Change, Endpoint, State as Stability},
    balancer::control::Routing,
};

/// The balancer of a cell.
#[derive(Debug)]
pub(super) struct Front {
    spec: BalancerSpec,
    leaving: bool,
    by: By,
    /// Kept open here, so that connections wait in its queue while the process is replaced.
    listener: TcpListener,
    address: SocketAddr,
    max_in_force: u32,
    /// Last routing sent to the process.
    routing: Routing,
    process: Option<Process>,
    peers: BTreeMap<String, Peer>,
    to_heal: bool,
    backoff: Backoff,
}

/// The process of the balancer.
#[derive(Debug)]
struct Process {
    id: u64,
    pid: u32,
    acknowledged: u64,
    /// Sender of routings. Dropping it makes the process exit.
    routing: Option<watch::Sender<Routing>>,
    started: Instant,
}

/// The balancer of another cell.
#[derive(Debug)]
struct Peer {
    /// Address and capacity. None while the balancer does not serve.
    found: Option<(SocketAddr, u32)>,
    watch: AbortHandle,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Front {
    /// Creates a balancer without a process.
    pub(super) fn new(listener: TcpListener) -> io::Result<Self> {
        Ok(Self {
            spec: BalancerSpec::default(),
            leaving: false,
            by: By::Hand,
            address: listener.local_addr()?,
            listener,
            max_in_force: 0,
            routing: Routing::default(),
            process: None,
            peers: BTreeMap::new(),
            to_heal: false,
            backoff: Backoff::default(),
        })
    }

    pub(super) fn spec(&self) -> Option<&BalancerSpec> {
        (!self.leaving).then_some(&self.spec)
    }

    /// Sets the wanted state; none means turndown. A higher maximum is in force at once, a lower one when the requests
    /// in flight fit.
    pub(super) fn ask(
        &mut self,
        site: &Site,
        spec: Option<BalancerSpec>,
        by: By,
        journal: &mut Journal,
    ) -> io::Result<()> {
        self.leaving = spec.is_none();
        self.by = by;
        let Some(spec) = spec else {
            self.peers.clear();
            return Ok(());
        };
        self.peers.retain(|name, _| spec.cells.contains_key(name));
        for name in spec.cells.keys() {
            self.peers.entry(name.clone()).or_insert_with(|| Peer {
                found: None,
                watch: peers::watch(site, name),
            });
        }
        self.backoff = Backoff::default();
        self.spec = spec;
        let most = self.max_in_force.max(self.spec.max_capacity);
        self.allow(most, journal)
    }

    /// Starts the process if it is not running, and sends it a new routing if the routing has changed.
    pub(super) fn advance(
        &mut self,
        site: &Site,
        jobs: &BTreeMap<String, Job>,
        journal: &mut Journal,
        numbers: &mut Numbers,
    ) -> io::Result<()> {
        if self.leaving {
            if let Some(process) = &mut self.process {
                process.routing = None;
            }
            return Ok(());
        }
        let endpoints = self.endpoints(jobs);
        if (self.routing.max_capacity, &self.routing.endpoints)
            != (self.spec.max_capacity, &endpoints)
        {
            self.routing = Routing {
                epoch: numbers.next(),
                max_capacity: self.spec.max_capacity,
                endpoints,
            };
            if let Some(Process {
                routing: Some(told),
                ..
            }) = &self.process
            {
                told.send_replace(self.routing.clone());
            }
        }
        if self.process.is_none() && self.backoff.over() {
            self.start(site, numbers.next(), journal)?;
        }
        Ok(())
    }

    /// Records that the process has acknowledged the routing `epoch`.
    pub(super) fn acknowledged(
        &mut self,
        id: u64,
        epoch: u64,
        journal: &mut Journal,
    ) -> io::Result<()> {
        if let Some(process) = self.process.as_mut().filter(|process| process.id == id) {
            process.acknowledged = epoch;
            if epoch == self.routing.epoch && self.routing.max_capacity == self.spec.max_capacity {
                return self.allow(self.spec.max_capacity, journal);
            }
        }
        Ok(())
    }

    /// Records that the process has exited.
    pub(super) fn exited(&mut self, site: &Site, id: u64, journal: &mut Journal) -> io::Result<()> {
        let Some(process) = self.process.take_if(|process| process.id == id) else {
            return Ok(());
        };
        let expected = process.routing.is_none();
        let by = if expected { &self.by } else { &By::NoCall };
        let from = json!({ "pid": process.pid });
        journal.append("balancer/process", Change::Process, &from, &(), by)?;
        if self.leaving {
            return self.allow(0, journal);
        }
        if !expected {
            self.to_heal = true;
            self.slow_down(site, process.started.elapsed());
        }
        Ok(())
    }

    /// Records the address and capacity of another cell's balancer; none if it does not serve.
    pub(super) fn peer(&mut self, name: &str, found: Option<(SocketAddr, u32)>) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.found = found;
        }
    }

    /// Returns the epochs sent and acknowledged. A balancer that is being turned down acknowledges nothing, so the
    /// second one is 0 until it has exited.
    pub(super) fn epochs(&self) -> Epochs {
        let process = self.process.as_ref().filter(|_| !self.leaving);
        Epochs {
            said: self.routing.epoch,
            acknowledged: process.map_or(0, |process| process.acknowledged),
        }
    }

    /// Returns true if the turndown is done: the process has exited.
    pub(super) fn gone(&self) -> bool {
        self.leaving && self.process.is_none()
    }

    /// Returns whether the balancer has reached its wanted state.
    pub(super) fn stability(&self) -> Stability {
        let Epochs { said, acknowledged } = self.epochs();
        if self.process.is_some()
            && said == acknowledged
            && self.max_in_force == self.spec.max_capacity
        {
            Stability::Stable
        } else {
            Stability::Changing
        }
    }

    /// Returns the current state of the balancer for callers.
    pub(super) fn view(&self, generation: u64) -> BalancerView {
        BalancerView {
            generation,
            spec: self.spec.clone(),
            leaving: self.leaving,
            state: self.stability(),
            max_capacity_in_force: self.max_in_force,
            address: self.address,
            pid: self.process.as_ref().map(|process| process.pid),
            endpoints: self.routing.endpoints.clone(),
        }
    }

    fn start(&mut self, site: &Site, id: u64, journal: &mut Journal) -> io::Result<()> {
        let by = if std::mem::take(&mut self.to_heal) {
            &By::Heal
        } else {
            &self.by
        };
        let (told, routing) = watch::channel(self.routing.clone());
        match proxy::start(site, id, &self.listener, routing) {
            Ok(pid) => {
                let to = json!({ "pid": pid });
                journal.append("balancer/process", Change::Process, &(), &to, by)?;
                self.process = Some(Process {
                    id,
                    pid,
                    acknowledged: 0,
                    routing: Some(told),
                    started: Instant::now(),
                });
            }
            Err(error) => {
                tracing::error!(%error, "cannot start the balancer; trying again after a delay");
                self.slow_down(site, Duration::ZERO);
            }
        }
        Ok(())
    }

    fn slow_down(&mut self, site: &Site, life: Duration) {
        if let Some(wait) = self.backoff.died(life) {
            site.look_again_after(wait);
        }
    }

    fn endpoints(&self, jobs: &BTreeMap<String, Job>) -> Vec<Endpoint> {
        let mut endpoints = Vec::new();
        for name in &self.spec.jobs {
            for (id, port, capacity) in jobs.get(name).into_iter().flat_map(Job::serving) {
                endpoints.push(Endpoint {
                    name: format!("{name}/{id}"),
                    address: (Ipv4Addr::LOCALHOST, port).into(),
                    capacity,
                });
            }
        }
        for (name, most) in &self.spec.cells {
            let found = self.peers.get(name).and_then(|peer| peer.found);
            if let Some((address, capacity)) = found {
                endpoints.push(Endpoint {
                    name: name.clone(),
                    address,
                    capacity: capacity.min(*most),
                });
            }
        }
        endpoints
    }

    fn allow(&mut self, capacity: u32, journal: &mut Journal) -> io::Result<()> {
        if capacity != self.max_in_force {
            journal.append(
                "balancer",
                Change::Capacity,
                &self.max_in_force,
                &capacity,
                &self.by,
            )?;
            self.max_in_force = capacity;
        }
        Ok(())
    }
}
