//! How to find and drive a cell. [`Cell::ensure`] starts one first if need be.
//!
//! ```no_run
//! use shakespeare::production::{api::{Caller, JobSpec}, client::Cell};
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
        Address, BalancerSpec, BalancerView, Caller, Identity, JobSpec, JobView, MetricsTarget,
        Progress, Refusal,
    },
    cell::ADDRESS_FILE,
    http::{self, Http},
};

/// A cell answers within this long; with [`Caller::after`], it may take ten seconds more.
const PATIENCE: Duration = Duration::from_secs(20);
/// Why a call did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no cell, it died, or it does not answer. What became of the call is unknown.
    #[error("the cell {cell} cannot be reached: connect to it again, or start it")]
    Unreachable {
        /// Which.
        cell: String,
        /// How it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A newer owner or call is in charge.
    #[error("the cell refuses the call: {message}")]
    Fenced {
        /// What was compared, and what to do.
        message: String,
        /// The greatest token that the cell has seen.
        seen: u64,
    },
    /// The cell is on its way out.
    #[error("the cell refuses the call: {0}")]
    Refused(String),
    /// The call makes no sense to the cell.
    #[error("the cell does not accept the call: {0}")]
    Invalid(String),
    /// The cell has failed.
    #[error("the cell failed: {0}")]
    Failed(String),
    /// A cell could not be started.
    #[error("the cell {cell} cannot be started: look at {log}")]
    Start {
        /// Which.
        cell: String,
        /// Where it says why.
        log: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// Whether there is no process of the cell at all, as opposed to one that does not answer.
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

/// One process of a cell. A later process of the same cell is another one: connect again.
#[derive(Debug, Clone)]
pub struct Cell {
    identity: Identity,
    base: String,
    http: Http,
}

impl Cell {
    /// Connects to the cell in `dir`, if it is there and the one meant.
    ///
    /// # Errors
    ///
    /// [`Error::Unreachable`] when nobody is there, or somebody else.
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
                let gone = "somebody else has its address now";
                Err(unreachable(
                    io::Error::new(io::ErrorKind::NotFound, gone).into(),
                ))
            }
        }
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.identity.name
    }

    /// The cell's process.
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Differs for every process of the cell.
    pub fn instance(&self) -> &str {
        &self.identity.instance
    }

    /// Where its interface is, for people: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Who it is, asked anew.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn identity(&self, caller: &Caller) -> Result<Identity, Error> {
        self.must("", Method::GET, caller, Bytes::new()).await
    }

    /// Where its processes say what they count.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn targets(&self) -> Result<Vec<MetricsTarget>, Error> {
        let nobody = Caller::default();
        self.must("targets", Method::GET, &nobody, Bytes::new())
            .await
    }

    /// A job; none if the cell does not know it.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn job(&self, name: &str, caller: &Caller) -> Result<Option<JobView>, Error> {
        let path = format!("jobs/{name}");
        self.call(&path, Method::GET, caller, Bytes::new()).await
    }

    /// Makes a job what `spec` says. Without effect if it is already.
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

    /// Turns a job down.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_job(&self, name: &str, caller: &Caller) -> Result<Progress, Error> {
        let path = format!("jobs/{name}");
        self.must(&path, Method::DELETE, caller, Bytes::new()).await
    }

    /// The balancer; none if there is none.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn balancer(&self, caller: &Caller) -> Result<Option<BalancerView>, Error> {
        self.call("balancer", Method::GET, caller, Bytes::new())
            .await
    }

    /// Makes the balancer what `spec` says. Without effect if it is already.
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

    /// Turns the balancer down.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn delete_balancer(&self, caller: &Caller) -> Result<Progress, Error> {
        self.must("balancer", Method::DELETE, caller, Bytes::new())
            .await
    }

    /// Turns the whole cell down, and waits until its process is gone.
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
        there.ok_or_else(|| Error::Failed(format!("it does not know /{path}")))
    }

    /// One call; none if the cell says that there is no such thing.
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
        let garbled = |error: serde_json::Error| Error::Failed(format!("garbled answer: {error}"));
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

/// The caller as a query string.
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
