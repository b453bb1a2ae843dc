//! The other side: finds the running control plane of a state directory, asks and tells it.

use std::{io, path::PathBuf, time::Duration};

use bytes::Bytes;
use control_plane::{
    Checked, Explained, enforcer::Plan, model::AssetId, prelude::Problems, strategist::Rested,
};
use http_body_util::Full;
use hyper::{Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::{
    Refusal, Rolling, Standing, Word,
    socket::{User, connect},
};
use crate::{command::called, place::Place, production::http};

/// A plan looks at everything; it may take a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No control plane runs in this state directory.
    #[error("no control plane is running in {0}: start one with `{me} --state {0} run`", me = called())]
    NotRunning(String),
    /// The manifest makes no incarnation. Shown without its problems: each of them is a line of its own.
    #[error("the manifest makes no incarnation")]
    Problems(Problems),
    /// It said no.
    #[error("{0}")]
    Refused(String),
    /// It is another user's.
    #[error("the control plane in {dir} is run by {by}, and answers that user only")]
    Foreign {
        /// Which.
        dir: String,
        /// The user that runs it.
        by: String,
    },
    /// It does not answer, or not what it should.
    #[error("the control plane in {dir} does not answer as it should: is it of another version?")]
    Garbled {
        /// Which.
        dir: String,
        /// What was wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The running control plane.
#[derive(Debug, Clone)]
pub struct Control {
    socket: PathBuf,
    dir: String,
    pid: Option<u32>,
}

impl Control {
    /// The control plane that runs in `place`.
    ///
    /// # Errors
    /// [`Error::NotRunning`] when there is none, [`Error::Foreign`] when another user runs it.
    pub async fn find(place: &Place) -> Result<Self, Error> {
        let mut control = Self {
            socket: place.control(),
            dir: place.dir().display().to_string(),
            pid: None,
        };
        let stream = control.connect().await?;
        let peer = stream
            .peer_cred()
            .map_err(|source| control.garbled(source))?;
        control.pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        Ok(control)
    }

    /// A connection to it, and to no process of another user.
    async fn connect(&self) -> Result<UnixStream, Error> {
        let foreign = |by: String| {
            let dir = self.dir.clone();
            Error::Foreign { dir, by }
        };
        let stream = match connect(&self.socket).await {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(foreign(format!("another user than {}", User::own())));
            }
            Err(_) => return Err(Error::NotRunning(self.dir.clone())),
        };
        let user = User::of(&stream).map_err(|source| self.garbled(source))?;
        match user.may_speak_to(User::own()) || User::own().may_speak_to(user) {
            true => Ok(stream),
            false => Err(foreign(user.to_string())),
        }
    }

    /// Its process, where the system says which it is.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// How the partition stands.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self) -> Result<Standing, Error> {
        self.call(Method::GET, "status", Bytes::new()).await
    }

    /// Every rollout, by policy group.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rollouts(&self) -> Result<Vec<Rolling>, Error> {
        self.call(Method::GET, "rollouts", Bytes::new()).await
    }

    /// How the frontends are once the rollout of the newest edit is over.
    ///
    /// # Errors
    /// See [`Error`]. It says no when it is not over `within`.
    pub async fn rolled_out(&self, within: Duration) -> Result<Rested, Error> {
        let path = format!("rolled-out/{}", within.as_secs());
        self.call_for(within + PATIENCE, Method::GET, &path, Bytes::new())
            .await
    }

    /// What would be pushed now.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.call(Method::GET, "plan", Bytes::new()).await
    }

    /// Why an asset is, or is not, being pushed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn explain(&self, asset: &AssetId) -> Result<Explained, Error> {
        let path = format!("explain/{asset}");
        self.call(Method::GET, &path, Bytes::new()).await
    }

    /// The same of every asset.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn explain_all(&self) -> Result<Vec<Explained>, Error> {
        self.call(Method::GET, "explain", Bytes::new()).await
    }

    /// What this manifest would give.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn check(&self, manifest: Vec<u8>) -> Result<Checked, Error> {
        self.call(Method::POST, "check", manifest.into()).await
    }

    /// A person's word.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tell(&self, word: &Word) -> Result<(), Error> {
        let body = serde_json::to_vec(word).map_err(|source| self.garbled(source))?;
        self.call(Method::POST, "tell", body.into()).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Error> {
        self.call_for(PATIENCE, method, path, body).await
    }

    async fn call_for<T: DeserializeOwned>(
        &self,
        patience: Duration,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, Error> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/{path}"))
            .header(header::HOST, "control")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|source| self.garbled(source))?;
        let stream = self.connect().await?;
        let answer = match http::call_over(stream, request, patience).await {
            Ok(answer) => answer,
            Err(http::Error::Transport { .. }) => return Err(Error::NotRunning(self.dir.clone())),
            Err(late) => return Err(self.garbled(late)),
        };
        if answer.status() == StatusCode::OK {
            return serde_json::from_slice(answer.body()).map_err(|source| self.garbled(source));
        }
        match serde_json::from_slice(answer.body()) {
            Ok(Refusal::Problems(problems)) => Err(Error::Problems(problems)),
            Ok(Refusal::Other(message)) => Err(Error::Refused(message)),
            Err(source) => Err(self.garbled(source)),
        }
    }

    fn garbled(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Garbled {
            dir: self.dir.clone(),
            source: source.into(),
        }
    }
}
