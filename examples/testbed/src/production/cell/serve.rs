//! The HTTP interface of a cell: translates requests into calls. It makes no decisions.

use std::time::Duration;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;

use super::{error::Error, state::Cell};
use crate::production::api::{
    BalancerView, Caller, Identity, JobView, MetricsTarget, Progress, Refusal,
};

/// Maximum time for which a `GET` with [`Caller::after`] waits for a change.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum time for which open answers may delay the exit.
const DRAIN: Duration = Duration::from_secs(1);

type Asked = Result<Query<Caller>, QueryRejection>;
type Answer<T> = Result<Json<T>, Error>;

/// Serves until the cell ends.
pub(super) async fn serve(cell: Cell, listener: TcpListener) -> std::io::Result<()> {
    let router = Router::new()
        .route("/", get(identity).delete(turn_down))
        .route("/targets", get(targets))
        .route("/jobs/{name}", get(job).put(put_job).delete(delete_job))
        .route(
            "/balancer",
            get(balancer).put(put_balancer).delete(delete_balancer),
        )
        .with_state(cell.clone());
    let ending = cell.clone();
    let server =
        axum::serve(listener, router).with_graceful_shutdown(async move { ending.end().await });
    tokio::select! {
        served = server.into_future() => served,
        () = async { cell.end().await; tokio::time::sleep(DRAIN).await } => Ok(()),
    }
}

async fn identity(State(cell): State<Cell>, asked: Asked) -> Answer<Identity> {
    wait(&cell, &caller(asked)?).await;
    Ok(Json(cell.identity()))
}

async fn turn_down(State(cell): State<Cell>, asked: Asked) -> Answer<Progress> {
    cell.turn_down(&caller(asked)?).map(Json)
}

async fn targets(State(cell): State<Cell>) -> Json<Vec<MetricsTarget>> {
    Json(cell.targets())
}

async fn job(State(cell): State<Cell>, Path(name): Path<String>, asked: Asked) -> Answer<JobView> {
    let caller = caller(asked)?;
    cell.hear(&format!("jobs/{name}"), &caller)?;
    wait(&cell, &caller).await;
    cell.job(&name, &caller).map(Json)
}

async fn put_job(
    State(cell): State<Cell>,
    Path(name): Path<String>,
    asked: Asked,
    body: Bytes,
) -> Answer<Progress> {
    cell.put_job(&name, parse(&body)?, &caller(asked)?)
        .map(Json)
}

async fn delete_job(
    State(cell): State<Cell>,
    Path(name): Path<String>,
    asked: Asked,
) -> Answer<Progress> {
    cell.delete_job(&name, &caller(asked)?).map(Json)
}

async fn balancer(State(cell): State<Cell>, asked: Asked) -> Answer<BalancerView> {
    let caller = caller(asked)?;
    cell.hear("balancer", &caller)?;
    wait(&cell, &caller).await;
    cell.balancer(&caller).map(Json)
}

async fn put_balancer(State(cell): State<Cell>, asked: Asked, body: Bytes) -> Answer<Progress> {
    let (spec, caller) = (parse(&body)?, caller(asked)?);
    cell.put_balancer(spec, &caller).await.map(Json)
}

async fn delete_balancer(State(cell): State<Cell>, asked: Asked) -> Answer<Progress> {
    cell.delete_balancer(&caller(asked)?).map(Json)
}

async fn wait(cell: &Cell, caller: &Caller) {
    if let Some(after) = caller.after {
        cell.moved(after, WAIT).await;
    }
}

fn caller(asked: Asked) -> Result<Caller, Error> {
    let Query(caller) = asked.map_err(|error| Error::Invalid(error.body_text()))?;
    if caller.n.is_some() && caller.token.is_none() {
        return Err(Error::Invalid(
            "`n` numbers the calls of an owner: pass the owner's token too".into(),
        ));
    }
    Ok(caller)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body)
        .map_err(|error| Error::Invalid(format!("the body cannot be read: {error}")))
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = match &self {
            Self::Fenced { .. } | Self::Refused(_) => StatusCode::CONFLICT,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Absent(_) => StatusCode::NOT_FOUND,
            Self::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let seen = match &self {
            Self::Fenced { seen, .. } => Some(*seen),
            _ => None,
        };
        let message = self.to_string();
        (status, Json(Refusal { message, seen })).into_response()
    }
}
