//! The client of the press. [`Press::ensure`] starts the press first if it is not running.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::Full;
use hyper::{Method, Request, StatusCode, header};
use serde::{Serialize, de::DeserializeOwned};

use super::api::{Faults, Fence, Order, View};
use crate::production::{
    api::{ADDRESS_FILE, Address, Refusal},
    http::{self, Http},
    launch::{ensure, spawn},
};

/// Maximum time for an answer. A press that drops an answer costs its caller this time.
const PATIENCE: Duration = Duration::from_secs(3);

/// Why a call to the press failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The press is not running, and was not called.
    #[error("the press is not running")]
    Absent(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There was no answer. The call may have taken effect.
    #[error("the press gives no answer")]
    NoAnswer(#[source] http::Error),
    /// The fence refused the call.
    #[error("the press refuses the call: {message}")]
    Fenced {
        /// What the fence compared.
        message: String,
        /// The greatest token that the press has seen for this key.
        seen: u64,
    },
    /// The press could not do it, and nothing was done.
    #[error("the press failed: {0}")]
    Failed(String),
    /// The press could not be started.
    #[error("cannot start the press: see its log {log}")]
    Start {
        /// Path of the log of the press.
        log: PathBuf,
        /// The error that caused this one.
        #[source]
        source: io::Error,
    },
}

/// A connection to one process of the press.
#[derive(Debug, Clone)]
pub struct Press {
    base: String,
    http: Http,
}

impl Press {
    /// Connects to the press in the directory `dir`.
    ///
    /// # Errors
    /// [`Error::Absent`] when it is not running.
    pub async fn connect(dir: &Path) -> Result<Self, Error> {
        let file = fs::read(dir.join(ADDRESS_FILE)).map_err(|error| Error::Absent(error.into()))?;
        let found: Address =
            serde_json::from_slice(&file).map_err(|error| Error::Absent(error.into()))?;
        let press = Self {
            base: format!("http://{}", found.address),
            http: http::client(),
        };
        let there = press.view().await?;
        if there.instance == found.instance {
            return Ok(press);
        }
        let gone = "another process uses its address now";
        Err(Error::Absent(gone.into()))
    }

    /// Connects to the press in `dir`. If it is not running, starts `program` as the press.
    ///
    /// # Errors
    /// [`Error::Start`] when it cannot be started.
    pub async fn ensure(program: &Path, dir: &Path) -> Result<Self, Error> {
        let connect = || async move { Self::connect(dir).await.ok() };
        let start = || spawn(program, dir, &["press"]);
        let started = ensure(connect, start).await;
        started.map_err(|source| Error::Start {
            log: dir.join("log"),
            source,
        })
    }

    /// Asks for the effect of a key. It is made once, however often it is asked for.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn order(&self, key: &str, fence: Fence, order: &Order) -> Result<(), Error> {
        let Fence { token, attempt } = fence;
        let path = format!("effects/{key}?token={token}&attempt={attempt}");
        self.call(Method::PUT, &path, order).await
    }

    /// Tells the press how badly it works from now on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn set_faults(&self, faults: Faults) -> Result<(), Error> {
        self.call(Method::PUT, "faults", &faults).await
    }

    /// Asks the press what is there.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn view(&self) -> Result<View, Error> {
        self.call(Method::GET, "", &()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let failed = |error: &dyn std::error::Error| Error::Failed(error.to_string());
        let body = serde_json::to_vec(body).map_err(|error| failed(&error))?;
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.base))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))
            .map_err(|error| failed(&error))?;
        let answer = match http::call(&self.http, request, PATIENCE).await {
            Ok(answer) => answer,
            Err(error @ http::Error::Transport { unsent: true, .. }) => {
                return Err(Error::Absent(error.into()));
            }
            Err(error) => return Err(Error::NoAnswer(error)),
        };
        if answer.status() == StatusCode::OK {
            return serde_json::from_slice(answer.body()).map_err(|error| failed(&error));
        }
        match serde_json::from_slice(answer.body()) {
            Ok(Refusal { message, seen }) => Err(match seen {
                Some(seen) => Error::Fenced { message, seen },
                None => Error::Failed(message),
            }),
            Err(error) => Err(failed(&error)),
        }
    }
}
