//! The requests and answers of a cell, and the lines of its journal. Plain data, so that an auditor of the journal
//! needs no other part of this crate.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::{Deserialize, Serialize};

/// The identity of a cell process, the answer to `GET /`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the cell, the same as its cluster's.
    pub name: String,
    /// Random text that is different for each process of this cell.
    pub instance: String,
    /// Process id of the cell.
    pub pid: u32,
    /// Counter that rises with each change of the cell. Pass it as [`Caller::after`] to wait for the next change.
    pub generation: u64,
    /// Names of the cell's jobs, including jobs that are being turned down.
    pub jobs: Vec<String>,
}

/// Name of the file in a cell's directory that contains its [`Address`].
pub(super) const ADDRESS_FILE: &str = "address";

/// Content of the file `address` in a cell's directory, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Address of the cell's HTTP interface.
    pub address: SocketAddr,
    /// Instance of the process that wrote the file. A reader compares it with the answer from the address.
    pub instance: String,
}

/// The caller of a cell, in the query string of each call. Without any field, the caller is a person, by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caller {
    /// Fencing token of the owner. The cell refuses a call whose `(token, n)` is below the greatest one seen. None
    /// means a call by hand, which is never fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// Number of the call among the owner's calls for this resource. None counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Incarnation that the call is about. The cell writes it into its journal and does not interpret it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<String>,
    /// For a `GET`: delay the answer until the cell's generation is greater than this, for at most ten seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The wanted state of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Number of tasks, at most 100.
    pub replicas: u32,
    /// Number of requests that one task serves at the same time, at least 1.
    pub capacity_per_task: u32,
    /// Version of the frontend that the tasks run.
    pub version: String,
    /// Version of the database schema that the tasks need.
    #[serde(default)]
    pub schema: u32,
    /// Additional flags on the frontend's command line, such as `--fail-percent=50` to simulate a bad version.
    #[serde(default)]
    pub flags: Vec<String>,
}

impl JobSpec {
    /// Returns the number of requests that the whole job serves at the same time.
    pub fn capacity(&self) -> u32 {
        self.replicas.saturating_mul(self.capacity_per_task)
    }

    /// Returns true if tasks of `self` also fit `other`: if the two differ in `replicas` only, or not at all.
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

/// The wanted state of a balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalancerSpec {
    /// Maximum number of requests in flight. Further requests wait.
    pub max_capacity: u32,
    /// Names of the jobs of its own cell to which it sends requests.
    #[serde(default)]
    pub jobs: Vec<String>,
    /// Names of the cells to whose balancers it sends requests, each with a maximum number of requests in flight there.
    #[serde(default)]
    pub cells: BTreeMap<String, u32>,
}

/// Whether a job or balancer has reached its wanted state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is in the wanted state.
    Stable,
    /// It is being changed to the wanted state, or repaired.
    Changing,
}

/// The answer to a `PUT` or `DELETE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Production is in the wanted state.
    Done,
    /// The cell is working on the change; ask again later.
    InProgress,
}

/// The current state of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Counter that rises with each change of the cell. Pass it as [`Caller::after`] to wait for the next change.
    pub generation: u64,
    /// The wanted state of the job.
    pub spec: JobSpec,
    /// True while the job is being turned down.
    pub leaving: bool,
    /// Whether the job has reached its wanted state.
    pub state: State,
    /// Number of requests that the job guarantees to serve at the same time now. During a change, the smaller of the
    /// old and the new capacity.
    pub capacity_in_force: u32,
    /// The tasks of the job, one process each.
    pub tasks: Vec<TaskView>,
    /// Why the last task failed. None once a task has become healthy, or the wanted state has changed, since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The current state of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Number of the task. A cell process never uses a number twice.
    pub id: u64,
    /// Process id of the task.
    pub pid: u32,
    /// Port on which the task listens, on the loopback address. None until the task is healthy.
    pub port: Option<u16>,
    /// Version that the task runs.
    pub version: String,
    /// Version of the database schema that the task needs.
    pub schema: u32,
    /// Current phase of the task.
    pub phase: Phase,
}

/// The phases of a task, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The process was started and is not yet healthy.
    Starting,
    /// The task is healthy, and the balancer may send requests to it.
    Serving,
    /// The task gets no new requests. The balancer has not yet reported that no request is in flight there.
    Draining,
    /// The process was asked to exit.
    Stopping,
}

/// The current state of a balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerView {
    /// Counter that rises with each change of the cell. Pass it as [`Caller::after`] to wait for the next change.
    pub generation: u64,
    /// The wanted state of the balancer.
    pub spec: BalancerSpec,
    /// True while the balancer is being turned down.
    pub leaving: bool,
    /// Whether the balancer has reached its wanted state.
    pub state: State,
    /// Number of requests that may be in flight now. During a change, the greater of the old and the new maximum.
    pub max_capacity_in_force: u32,
    /// Address on which the balancer serves. It stays the same when the process is replaced.
    pub address: SocketAddr,
    /// Process id of the balancer. None while the process is being replaced.
    pub pid: Option<u32>,
    /// The endpoints to which the balancer sends requests.
    pub endpoints: Vec<Endpoint>,
}

/// An endpoint to which a balancer sends requests: a task, or another balancer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Name of the endpoint: `JOB/TASK`, or the name of a cell.
    pub name: String,
    /// Address on which the endpoint listens.
    pub address: SocketAddr,
    /// Maximum number of requests in flight to this endpoint.
    pub capacity: u32,
}

/// A process that reports its counters at `/metrics` of its address. `GET /targets` returns a list of these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MetricsTarget {
    /// Resource of the process: `jobs/NAME/ID` (a task) or `balancer`.
    pub resource: String,
    /// Process id. None while the process is being replaced.
    pub pid: Option<u32>,
    /// Address on which the process listens.
    pub address: SocketAddr,
    /// Version that a task runs. None for a balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// True if the process may get requests, so that its counters are expected. False if it is draining.
    pub serving: bool,
}

/// The body of each answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong and what to do next.
    pub message: String,
    /// The greatest token that the cell has seen. Present only if the fence refused the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
}

/// One line of a cell's `journal.jsonl`, on disk before it takes effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Time of the change, in microseconds since 1970.
    pub at_micros: u64,
    /// Name of the cell that wrote the line.
    pub cell: String,
    /// Instance of the cell process that wrote the line.
    pub instance: String,
    /// Resource that changed: `cell`, `jobs/NAME`, `jobs/NAME/ID` (a task), `balancer` or `balancer/process`.
    pub resource: String,
    /// Which property of the resource changed.
    pub change: Change,
    /// Value before the change. Null if there was none.
    pub from: serde_json::Value,
    /// Value after the change. Null if there is none any more.
    pub to: serde_json::Value,
    /// Who or what caused the change.
    pub by: By,
}

/// The property of a resource that a journal line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The wanted state. Calls that do not change it are not written.
    Spec,
    /// A job's capacity in force, or a balancer's maximum capacity in force.
    Capacity,
    /// The phase of a process.
    Process,
}

/// Who or what caused a change of production.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// A call of an owner, with a fencing token.
    Owner {
        /// Fencing token of the owner.
        token: u64,
        /// Number of the call among the owner's calls.
        n: u64,
        /// Incarnation that the call named, if any.
        incarnation: Option<String>,
    },
    /// A call without a token: a person, by hand.
    Hand,
    /// The cell itself, which replaced a process that died.
    Heal,
    /// No call: a process died, or the cell started.
    NoCall,
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
