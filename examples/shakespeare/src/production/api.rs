//! What cells and their callers say to each other, and what a cell's journal holds: plain data, so that an auditor
//! needs nothing else of this crate.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};

/// Who a cell process is: `GET /`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The cluster's name.
    pub name: String,
    /// Differs for every process of this cell.
    pub instance: String,
    /// The process.
    pub pid: u32,
    /// Rises with every change of the cell: give it as [`Caller::after`] to wait for the next.
    pub generation: u64,
    /// The jobs the cell knows, those being turned down included.
    pub jobs: Vec<String>,
}

/// What a cell leaves in the file `address` in its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Where the cell's interface is.
    pub address: SocketAddr,
    /// Which process wrote this; a reader asks the address and compares.
    pub instance: String,
}

/// Who is calling, in the query of every call. Nothing at all means a person, by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// The owner's fencing token; with it, calls below the greatest `(token, n)` seen are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// Counts the owner's calls for this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// The incarnation the call is about: a label for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// On a `GET`: answer only once the cell's generation is greater, or after ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// What a job shall be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// How many tasks.
    pub replicas: u32,
    /// How many requests one task serves at the same time.
    pub capacity_per_task: u32,
    /// Which version the tasks run.
    pub version: String,
    /// The database schema that this version needs.
    #[serde(default)]
    pub schema: u32,
    /// More of the frontend's command line, for instance `--fail-percent=50` for a version that is no good.
    #[serde(default)]
    pub flags: Vec<String>,
}

impl JobSpec {
    /// Requests in flight that the whole job serves.
    pub fn capacity(&self) -> u32 {
        self.replicas.saturating_mul(self.capacity_per_task)
    }

    /// Whether a task started for `self` is one that `other` wants too: they differ in `replicas` at most.
    pub fn same_task(&self, other: &Self) -> bool {
        let Self {
            replicas: _,
            capacity_per_task,
            version,
            schema,
            flags,
        } = self;
        (capacity_per_task, version, schema, flags)
            == (
                &other.capacity_per_task,
                &other.version,
                &other.schema,
                &other.flags,
            )
    }
}

/// What a balancer shall do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalancerSpec {
    /// Requests in flight that it lets through; more wait.
    pub max_capacity: u32,
    /// The jobs of its own cell that it sends requests to.
    #[serde(default)]
    pub jobs: Vec<String>,
    /// The cells whose balancers it sends requests to, each with the most it may have in flight there.
    #[serde(default)]
    pub cells: BTreeMap<String, u32>,
}

/// Whether production is as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As asked.
    Stable,
    /// On the way there, or being healed.
    Changing,
}

/// The answer to a `PUT` or `DELETE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Production is as asked.
    Done,
    /// The cell works on it: ask again.
    InProgress,
}

/// A job as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Rises with every change of the cell: give it as [`Caller::after`] to wait for the next.
    pub generation: u64,
    /// What was asked.
    pub spec: JobSpec,
    /// Being turned down.
    pub leaving: bool,
    /// Whether it is as asked.
    pub state: State,
    /// Requests in flight that the job guarantees right now: while it changes, the lesser of before and after.
    pub capacity_in_force: u32,
    /// Its processes.
    pub tasks: Vec<TaskView>,
    /// Why the last task that failed to start did so; gone once one starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A task as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its number; never used twice by one cell process.
    pub id: u64,
    /// Its process.
    pub pid: u32,
    /// Where it listens on loopback, once it does.
    pub port: Option<u16>,
    /// What it runs.
    pub version: String,
    /// The schema it needs.
    pub schema: u32,
    /// Where it is in its life.
    pub phase: Phase,
}

/// The life of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Started, not yet healthy.
    Starting,
    /// Healthy and listed.
    Serving,
    /// Delisted; the balancer has not yet said that nothing is in flight on it.
    Draining,
    /// Asked to exit.
    Stopping,
}

/// A balancer as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerView {
    /// Rises with every change of the cell: give it as [`Caller::after`] to wait for the next.
    pub generation: u64,
    /// What was asked.
    pub spec: BalancerSpec,
    /// Being turned down.
    pub leaving: bool,
    /// Whether it is as asked.
    pub state: State,
    /// Requests in flight that it may have right now: while it changes, the greater of before and after.
    pub max_capacity_in_force: u32,
    /// Where it serves. Stays the same when its process is replaced.
    pub address: SocketAddr,
    /// Its process; none while it is being replaced.
    pub pid: Option<u32>,
    /// Where it sends requests.
    pub endpoints: Vec<Endpoint>,
}

/// A place a balancer sends requests to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `job/task` or the name of a cell.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// Requests in flight that it takes.
    pub capacity: u32,
}

/// Where a process says what it counts, at `/metrics` of its address: `GET /targets` lists them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MetricsTarget {
    /// What it is: `jobs/NAME/ID` (a task) or `balancer`.
    pub resource: String,
    /// Its process; none while it is being replaced.
    pub pid: Option<u32>,
    /// Where it listens.
    pub address: SocketAddr,
    /// What a task runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Requests may be sent to it: if it does not say what it counts, that is missing. Otherwise it is on its way out.
    pub serving: bool,
}

/// A refusal: the body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong and what to do next.
    pub message: String,
    /// The greatest token seen, if the call's was smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
}

/// One line of a cell's `journal.jsonl`, on disk before it takes effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// When, in microseconds since 1970.
    pub at_micros: u64,
    /// Which cell.
    pub cell: String,
    /// Which process of it.
    pub instance: String,
    /// What changed: `cell`, `jobs/NAME`, `jobs/NAME/ID` (a task), `balancer` or `balancer/process`.
    pub resource: String,
    /// What of it.
    pub change: Change,
    /// Before; null if it was not there.
    pub from: serde_json::Value,
    /// After; null if it is gone.
    pub to: serde_json::Value,
    /// On whose word.
    pub by: By,
}

/// What of a resource a journal line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// What was asked for: effective calls only.
    Spec,
    /// A job's capacity in force, or a balancer's maximum capacity in force.
    Capacity,
    /// The phase of a process.
    Process,
}

/// On whose word something changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// An owner that shows a fencing token.
    Owner {
        /// Its token.
        token: u64,
        /// Its count of calls.
        n: u64,
        /// Its label.
        incarnation: Option<String>,
    },
    /// Somebody without a token.
    Hand,
    /// The cell itself, making up for a death.
    Heal,
    /// Nobody here: a process died or came up.
    Nobody,
}

impl From<&Caller> for By {
    fn from(caller: &Caller) -> Self {
        match caller.token {
            Some(token) => Self::Owner {
                token,
                n: caller.n.unwrap_or(0),
                incarnation: caller.incarnation.clone(),
            },
            None => Self::Hand,
        }
    }
}
