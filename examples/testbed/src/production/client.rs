//! The client of a cell. [`Cell::ensure`] starts the cell first if it is not running.
//!
//! ```no_run
//! use testbed::production::{api::{Caller, JobSpec}, client::Cell};
//! # async fn doc() -> Result<(), Box<dyn std::error::Error>> {
//! let program = std::env::current_exe()?;
//! let eu = Cell::ensure(&program, "state/cells/eu".as_ref(), "eu").await?;
//! let owner = Caller { token: Some(3), n: Some(7), incarnation: Some("12".into()), ..Caller::default() };
//! let spec = JobSpec { replicas: 3, capacity_per_task: 16, version: "1".into(), schema: 1, flags: vec![] };
//! eu.put_job("frontend", &spec, &owner).await?;
//! # Ok(())
//! # }
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request, StatusCode};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    api::{
        ADDRESS_FILE, Address, BalancerSpec, BalancerView, Caller, Identity, JobSpec, JobView,
        MetricsTarget, Progress, Refusal,
    },
    http::{self, Http},
};

/// Maximum time for an answer of a cell. It covers the ten seconds that a call with [`Caller::after`] may wait.
const PATIENCE: Duration = Duration::from_secs(20);
/// Why a call to a cell failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The cell is not running, died, or does not answer. The outcome of the call is unknown.
    #[error("cannot reach the cell {cell}: connect to it again, or start it")]
    Unreachable {
        /// Name of the cell that was called.
        cell: String,
        /// The error that caused this one.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The fence refused the call: the cell has seen a newer owner or a later call.
    #[error("the cell refuses the call: {message}")]
    Fenced {
        /// What the fence compared, and what to do next.
        message: String,
        /// The greatest token that the cell has seen.
        seen: u64,
    },
    /// The cell is being turned down and accepts no changes.
    #[error("the cell refuses the call: {0}")]
    Refused(String),
    /// The call has invalid arguments.
    #[error("the call to the cell is invalid: {0}")]
    Invalid(String),
    /// The cell failed, or its answer cannot be read.
    #[error("the cell failed: {0}")]
    Failed(String),
    /// The cell could not be started.
    #[error("cannot start the cell {cell}: see its log {log}")]
    Start {
        /// Name of the cell that could not be started.
        cell: String,
        /// Path of the log of the cell.
        log: PathBuf,
        /// The error that caused this one.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Returns true if no process of the cell is running. False also means: a process is running but does not answer.
    pub fn is_absent(&self) -> bool {
        let Self::Unreachable { source, .. } = self else {
            return false;
        };
        let no_file = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let refused =
            |error: &http::Error| matches!(error, http::Error::Transport { unsent, .. } if *unsent);
        source.downcast_ref().is_some_and(no_file) || source.downcast_ref().is_some_and(refused)
    }
}

/// A connection to one process of a cell. It does not follow the cell to a later process: connect again then.
#[derive(Debug, Clone)]
pub struct Cell {
    identity: Identity,
    base: String,
    http: Http,
}

impl Cell {
    /// Connects to the cell `name` in the directory `dir`.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] when the cell is not running, or another process answers at its address.
    pub async fn connect(dir: &Path, name: &str) -> Result<Self, Error> {
        let unreachable = |source: Box<dyn std::error::Error + Send + Sync>| Error::Unreachable {
            cell: name.into(),
            source,
        };
        let file = fs::read(dir.join(ADDRESS_FILE)).map_err(|error| unreachable(error.into()))?;
        let found: Address =
            serde_json::from_slice(&file).map_err(|error| unreachable(error.into()))?;
        let mut cell = Self {
            identity: Identity {
                name: name.into(),
                instance: found.instance,
                pid: 0,
                generation: 0,
                jobs: vec![],
            },
            base: format!("http://{}", found.address),
            http: http::client(),
        };
        let there = cell.identity(&Caller::default()).await;
        match there {
            Ok(there) if there.name == name && there.instance == cell.identity.instance => {
                cell.identity = there;
                Ok(cell)
            }
            Err(error @ Error::Unreachable { .. }) => Err(error),
            // The cell died, and its port was given to another process.
            Ok(_) | Err(_) => {
                let gone = "another process uses its address now";
                Err(unreachable(
                    io::Error::new(io::ErrorKind::NotFound, gone).into(),
                ))
            }
        }
    }

    /// Returns the name of the cell.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// Returns the process id of the cell.
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Returns the instance, a text that is different for each process of the cell.
    pub fn instance(&self) -> &str {
        &self.identity.instance
    }

    /// Returns the URL of the cell's interface: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Asks the cell for its current identity.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn identity(&self, caller: &Caller) -> Result<Identity, Error> {
        self.must("", Method::GET, caller, Bytes::new()).await
    }

    /// Asks for the list of processes that report counters.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn targets(&self) -> Result<Vec<MetricsTarget>, Error> {
        let by_hand = Caller::default();
        self.must("targets", Method::GET, &by_hand, Bytes::new())
            .await
    }

    /// Asks for the job `name`. Returns none if the cell has no such job.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn job(&self, name: &str, caller: &Caller) -> Result<Option<JobView>, Error> {
        let path = format!("jobs/{name}");
        self.call(&path, Method::GET, caller, Bytes::new()).await
    }

    /// Sets the wanted state of the job `name`. Has no effect if it is the same as before.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn put_job(
        &self,
        name: &str,
        spec: &JobSpec,
        caller: &Caller,
    ) -> Result<Progress, Error> {
        let path = format!("jobs/{name}");
        self.must(&path, Method::PUT, caller, self.body(spec)?)
            .await
    }

    /// Turns the job `name` down.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_job(&self, name: &str, caller: &Caller) -> Result<Progress, Error> {
        let path = format!("jobs/{name}");
        self.must(&path, Method::DELETE, caller, Bytes::new()).await
    }

    /// Asks for the balancer. Returns none if the cell has no balancer.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn balancer(&self, caller: &Caller) -> Result<Option<BalancerView>, Error> {
        self.call("balancer", Method::GET, caller, Bytes::new())
            .await
    }

    /// Sets the wanted state of the balancer. Has no effect if it is the same as before.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn put_balancer(
        &self,
        spec: &BalancerSpec,
        caller: &Caller,
    ) -> Result<Progress, Error> {
        self.must("balancer", Method::PUT, caller, self.body(spec)?)
            .await
    }

    /// Turns the balancer of the cell down.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_balancer(&self, caller: &Caller) -> Result<Progress, Error> {
        self.must("balancer", Method::DELETE, caller, Bytes::new())
            .await
    }

    /// Turns the whole cell down and waits until its process has exited.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn turn_down(self, caller: &Caller) -> Result<(), Error> {
        let _: Progress = self.must("", Method::DELETE, caller, Bytes::new()).await?;
        let mut after = 0;
        loop {
            let next = Caller {
                after: Some(after),
                ..Caller::default()
            };
            match self.identity(&next).await {
                Ok(there) => after = there.generation,
                Err(Error::Unreachable { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn body(&self, spec: &impl Serialize) -> Result<Bytes, Error> {
        let bytes = serde_json::to_vec(spec).map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(bytes.into())
    }

    async fn must<T: DeserializeOwned>(
        &self,
        path: &str,
        method: Method,
        caller: &Caller,
        body: Bytes,
    ) -> Result<T, Error> {
        let there = self.call(path, method, caller, body).await?;
        there.ok_or_else(|| Error::Failed(format!("it has no resource /{path}")))
    }

    /// Makes one call. Returns none if the cell has no such resource.
    async fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        method: Method,
        caller: &Caller,
        body: Bytes,
    ) -> Result<Option<T>, Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}{}", self.base, query(caller)))
            .body(Full::new(body))
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let answer = http::call(&self.http, request, PATIENCE)
            .await
            .map_err(|source| Error::Unreachable {
                cell: self.name().into(),
                source: source.into(),
            })?;
        let garbled =
            |error: serde_json::Error| Error::Failed(format!("its answer cannot be read: {error}"));
        if answer.status() == StatusCode::OK {
            return serde_json::from_slice(answer.body())
                .map(Some)
                .map_err(garbled);
        }
        let Refusal { message, seen } = serde_json::from_slice(answer.body()).map_err(garbled)?;
        if let Some(seen) = seen {
            return Err(Error::Fenced { message, seen });
        }
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::CONFLICT => Err(Error::Refused(message)),
            StatusCode::BAD_REQUEST => Err(Error::Invalid(message)),
            _ => Err(Error::Failed(message)),
        }
    }
}

/// Returns the caller as a query string, empty if the caller has no field.
fn query(caller: &Caller) -> String {
    let number = |name: &str, value: Option<u64>| value.map(|value| format!("{name}={value}"));
    let label = caller.incarnation.as_deref().map(escape);
    let parts: Vec<String> = [
        number("token", caller.token),
        number("n", caller.n),
        number("after", caller.after),
        label.map(|label| format!("incarnation={label}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() {
        String::new()
    } else {
        format!("?{}", parts.join("&"))
    }
}

fn escape(label: &str) -> String {
    label
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
