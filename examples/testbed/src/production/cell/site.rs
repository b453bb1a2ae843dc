//! What the processes of a cell, and the watches of other cells, know of it: its name, its directory, and where they
//! report. So their code depends on neither the state of the cell nor its lock.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

/// What happened to a process or to another cell.
#[derive(Debug)]
pub(super) enum Report {
    /// The task `task` of `job` is healthy and listens on `port`.
    Ready { job: String, task: u64, port: u16 },
    /// The process of a task has exited; `problem` says why it failed, if it did.
    TaskExited {
        job: String,
        task: u64,
        problem: Option<String>,
    },
    /// The process of the balancer has acknowledged the routing `epoch`.
    Acknowledged { balancer: u64, epoch: u64 },
    /// The process of the balancer has exited.
    BalancerExited { balancer: u64 },
    /// The address and capacity of another cell's balancer have changed; none if it does not serve.
    Peer {
        name: String,
        found: Option<(SocketAddr, u32)>,
    },
    /// A delay is over, so more steps may be possible.
    DelayOver,
}

/// The part of a cell that its processes and the watches of other cells know.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) name: Arc<str>,
    pub(super) dir: Arc<Path>,
    pub(super) reports: Arc<dyn Fn(Report) + Send + Sync>,
}

impl Site {
    /// Reports to the cell, which then takes the steps that follow.
    pub(super) fn report(&self, report: Report) {
        (self.reports)(report);
    }

    /// Lets the cell take the next steps again after `wait`.
    pub(super) fn look_again_after(&self, wait: Duration) {
        let site = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            site.report(Report::DelayOver);
        });
    }
}
