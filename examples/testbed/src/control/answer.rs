//! What all request handlers of the control socket share: the state, the caller, and refusals as answers.

use axum::{
    Json,
    extract::connect_info::Connected,
    http::StatusCode,
    response::{IntoResponse, Response},
    serve::IncomingStream,
};
use control_plane::{By, Error, Handle, model::AssetId, sdk::with_causes};
use tokio::{net::UnixListener, sync::watch};

use super::{Refusal, Said};
use crate::socket::User;

/// A signal that tells the control plane to stop. Clones share the signal.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Stop {
    /// Creates a signal that is not yet given.
    pub fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    /// Gives the signal: the control plane stops.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// Waits until the signal is given.
    pub async fn wait(&self) {
        // This fails only when all senders are dropped, and `self` holds one.
        let _ = self.0.subscribe().wait_for(|stop| *stop).await;
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

/// State shared by all request handlers.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) handle: Handle,
    pub(super) stop: Stop,
    /// The policy whose rollout takes commands.
    pub(super) policy: AssetId,
}

/// The user of the process at the other end of a connection; none if the operating system does not tell it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) Option<User>);

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(User::of(stream.io()).ok())
    }
}

/// Returns the record of who gave a command: the user of the calling process, with the name that the request gives.
pub(super) fn spoken(peer: Peer, said: Said) -> Result<By, Refusal> {
    let Some(user) = peer.0 else {
        return Err(Refusal::Other(
            "the command is refused: the user of the calling process is unknown".into(),
        ));
    };
    Ok(By::new(user.speaking(said.who.as_deref()), said.why))
}

/// The answer of a handler.
pub(super) type Answer<T> = Result<Json<T>, Refused>;

/// A refusal as an HTTP answer.
pub(super) struct Refused(pub(super) Refusal);

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self(match error {
            Error::Refused(problems) => Refusal::Problems(problems),
            other => Refusal::Other(with_causes(&other)),
        })
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::CONFLICT, Json(self.0)).into_response()
    }
}
