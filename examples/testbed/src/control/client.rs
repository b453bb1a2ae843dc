//! The client of the control socket: finds the running control plane of a state directory, and sends it questions and
//! commands.

use std::{io, path::PathBuf, time::Duration};

use bytes::Bytes;
use control_plane::{
    DryRun, Explained, TrainView,
    enforcer::{ApprovalSet, Plan},
    model::AssetId,
    prelude::Problems,
    strategist::{GroupOutcome, Rollout, preview::Schedule},
    workflow::{
        Drained, Ended, Execution, ExecutionId, ExecutionPage, ExecutionQuery, ScheduleState,
        WatchState,
    },
};
use http_body_util::Full;
use hyper::{Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::{Begun, Refusal, Rolling, Shown, Standing, StartWorkflow, Word};
use crate::{
    place::Place,
    production::http,
    program::called,
    socket::{User, connect},
};

/// Maximum time for an answer. The slowest question is a plan, which reads all of production.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a call to the control plane failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No control plane runs in this state directory.
    #[error("no control plane is running in {0}: start one with `{me} --state {0} run`", me = called())]
    NotRunning(String),
    /// The manifest makes no incarnation. The message does not contain the problems; the caller prints one per line.
    #[error("the manifest makes no incarnation")]
    Problems(Problems),
    /// The control plane refused the command; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The control plane is run by another user.
    #[error(
        "the control plane in {dir} is run by {by} and answers that user only: run this command as that user"
    )]
    Foreign {
        /// Path of its state directory.
        dir: String,
        /// The user that runs the control plane.
        by: String,
    },
    /// The control plane gave no answer in time, or one that cannot be read.
    #[error(
        "the control plane in {dir} gave no usable answer: check that it has the same version as this program"
    )]
    Garbled {
        /// Path of its state directory.
        dir: String,
        /// Why the answer cannot be used.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A client of the running control plane of one state directory.
#[derive(Debug, Clone)]
pub struct Control {
    socket: PathBuf,
    dir: String,
    pid: Option<u32>,
}

impl Control {
    /// Finds the control plane that is running in `place`.
    ///
    /// # Errors
    /// [`Error::NotRunning`] when none is running, [`Error::Foreign`] when another user runs it.
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

    /// Connects to the control plane. Refuses a socket that belongs to a process of another user.
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

    /// Returns the process id of the control plane; none if the operating system does not tell it.
    pub fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Returns the state of the partition and of its rollouts.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn status(&self) -> Result<Standing, Error> {
        self.call(Method::GET, "status", Bytes::new()).await
    }

    /// Returns the rollouts of every policy group.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn rollouts(&self) -> Result<Vec<Rolling>, Error> {
        self.call(Method::GET, "rollouts", Bytes::new()).await
    }

    /// Waits until the rollout of the newest edit is over, and returns how it ended.
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Refused`] when it is not over `within` this time.
    pub async fn rolled_out(&self, within: Duration) -> Result<GroupOutcome, Error> {
        let path = format!("rolled-out/{}", within.as_secs());
        self.call_for(within + PATIENCE, Method::GET, &path, Bytes::new())
            .await
    }

    /// Waits until a change is over, or waits for a person, and returns its rollout.
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Refused`] when it is not over `within` this time, or when there is no such change.
    pub async fn changed(&self, key: &AssetId, within: Duration) -> Result<Rollout, Error> {
        let path = format!("change/{}/{key}", within.as_secs());
        self.call_for(within + PATIENCE, Method::GET, &path, Bytes::new())
            .await
    }

    /// Returns when the targets of a rollout move from now on, if each one takes `takes` seconds: of the change with this key,
    /// or of the edits of the manifest.
    ///
    /// # Errors
    /// See [`Error`]. [`Error::Refused`] when no such rollout is live that goes forward by itself.
    pub async fn preview(&self, key: Option<&AssetId>, takes: u32) -> Result<Schedule, Error> {
        let key = key.map(|key| format!("/{key}")).unwrap_or_default();
        let path = format!("preview/{takes}{key}");
        self.call(Method::GET, &path, Bytes::new()).await
    }

    /// The changes that wait for approvals, in sets of equal changes.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn approvals(&self) -> Result<Vec<ApprovalSet>, Error> {
        self.call(Method::GET, "approvals", Bytes::new()).await
    }

    /// Returns the trains, with their stages and versions.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn trains(&self) -> Result<Vec<TrainView>, Error> {
        self.call(Method::GET, "trains", Bytes::new()).await
    }

    /// Returns what would happen to each asset now.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn plan(&self) -> Result<Plan, Error> {
        self.call(Method::GET, "plan", Bytes::new()).await
    }

    /// Returns why an asset is, or is not, being pushed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn explain(&self, asset: &AssetId) -> Result<Explained, Error> {
        let path = format!("explain/{asset}");
        self.call(Method::GET, &path, Bytes::new()).await
    }

    /// Returns for every asset why it is, or is not, being pushed.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn explain_all(&self) -> Result<Vec<Explained>, Error> {
        self.call(Method::GET, "explain", Bytes::new()).await
    }

    /// Returns the incarnation that this manifest would give, without sealing it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn check(&self, manifest: Vec<u8>) -> Result<DryRun, Error> {
        self.call(Method::POST, "check", manifest.into()).await
    }

    /// Sends a command of an operator.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tell(&self, word: &Word) -> Result<(), Error> {
        let body = serde_json::to_vec(word).map_err(|source| self.garbled(source))?;
        self.call(Method::POST, "tell", body.into()).await
    }

    /// Starts an execution of a workflow, or finds the one that the same key has started.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn start(&self, start: &StartWorkflow) -> Result<Begun, Error> {
        let body = serde_json::to_vec(start).map_err(|source| self.garbled(source))?;
        self.call(Method::POST, "executions", body.into()).await
    }

    /// Returns all live executions that the query asks for, from its page to the last one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn executions(&self, query: &ExecutionQuery) -> Result<Vec<Execution>, Error> {
        let mut all = Vec::new();
        let mut next = Some(query.clone());
        while let Some(query) = next {
            let body = serde_json::to_vec(&query).map_err(|source| self.garbled(source))?;
            let page = self.call(Method::POST, "executions/list", body.into());
            let page: ExecutionPage = page.await?;
            all.extend(page.executions);
            next = page.next.map(|number| query.after(number));
        }
        Ok(all)
    }

    /// Returns an execution, live or ended, with its log and what it waits for.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn execution(&self, id: &ExecutionId) -> Result<Shown, Error> {
        let path = format!("executions/{id}");
        self.call(Method::GET, &path, Bytes::new()).await
    }

    /// Returns the executions that have ended and are kept, the newest last.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn ended_executions(&self) -> Result<Vec<Ended>, Error> {
        self.call(Method::GET, "ended", Bytes::new()).await
    }

    /// Returns the workflows that are drained.
    ///
    /// # Errors
    /// When no control plane answers, or it refuses the question.
    pub async fn drained(&self) -> Result<Vec<Drained>, Error> {
        self.call(Method::GET, "drained", Bytes::new()).await
    }

    /// Returns all schedules.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn schedules(&self) -> Result<Vec<ScheduleState>, Error> {
        self.call(Method::GET, "schedules", Bytes::new()).await
    }

    /// Returns all watches.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn watches(&self) -> Result<Vec<WatchState>, Error> {
        self.call(Method::GET, "watches", Bytes::new()).await
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
