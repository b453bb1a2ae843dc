//! The HTTP interface of the press.

use std::{io, time::Duration};

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, put},
};
use tokio::net::TcpListener;

use super::{
    api::{Faults, Fence, Order, View},
    state::{Error, Press},
};
use crate::production::api::Refusal;

type Answer<T> = Result<Json<T>, Error>;

/// Serves until the process ends.
pub(super) async fn serve(press: Press, listener: TcpListener) -> io::Result<()> {
    let router = Router::new()
        .route("/", get(view))
        .route("/faults", put(faults))
        .route("/effects/{*key}", put(effect))
        .with_state(press);
    axum::serve(listener, router).await
}

async fn view(State(press): State<Press>) -> Json<View> {
    Json(press.view())
}

async fn faults(State(press): State<Press>, Json(faults): Json<Faults>) -> Json<()> {
    press.set_faults(faults);
    Json(())
}

async fn effect(
    State(press): State<Press>,
    Path(key): Path<String>,
    Query(fence): Query<Fence>,
    Json(order): Json<Order>,
) -> Answer<()> {
    let faults = press.called(&key, fence)?;
    // A task of its own: a call that has begun goes on when its caller dies.
    let working = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(faults.slow_ms)).await;
        match faults.fail {
            0 => press.make(&key, fence, order),
            _ => Err(Error::Jammed),
        }
    });
    let made = working
        .await
        .unwrap_or_else(|died| Err(io::Error::other(died).into()));
    if faults.fail == 0 && faults.drop > 0 {
        std::future::pending::<()>().await;
    }
    made.map(Json)
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, seen) = match &self {
            Self::Fenced { seen, .. } => (StatusCode::CONFLICT, Some(seen.token)),
            Self::Jammed => (StatusCode::SERVICE_UNAVAILABLE, None),
            Self::Io(_) => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        let message = self.to_string();
        (status, Json(Refusal { message, seen })).into_response()
    }
}
