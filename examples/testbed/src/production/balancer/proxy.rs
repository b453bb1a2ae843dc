//! Passes one request through the balancer: waits for a place on an endpoint, sends the request there, and tries
//! another endpoint if the connection fails.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{self, HeaderName},
    http::request::Parts,
};
use tokio::sync::watch;

use super::{
    Life,
    table::{NoPlace, Place, Table},
};
use crate::production::{
    http::{self, Http},
    meter::{self, Meter},
};

/// Maximum size of a request's body, in bytes. The body is kept in memory until the answer is complete.
const BODY_LIMIT: usize = 64 << 10;
/// Maximum time for one request, including the waiting time and all attempts.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause before the endpoints are tried again after all of them have failed.
const REST: Duration = Duration::from_millis(20);

/// Headers about a single connection, which are not passed on.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The balancer exits and cannot serve the request. The connection is closed without an answer, so that the client
/// tries another balancer.
#[derive(Debug, thiserror::Error)]
#[error(
    "this balancer is shutting down and can no longer serve the request: send it to another balancer"
)]
pub(super) struct GoingAway;

/// Sends requests to the endpoints of the table.
#[derive(Debug)]
pub(super) struct Proxy {
    http: Http,
    table: Arc<Table>,
    life: watch::Receiver<Life>,
    meter: Meter,
}

impl Proxy {
    pub(super) fn new(table: Arc<Table>, life: watch::Receiver<Life>) -> Self {
        Self {
            http: http::client(),
            table,
            life,
            meter: Meter::new(None),
        }
    }

    /// Answers one request. A failure becomes an error status, except while the balancer is shutting down: then the
    /// request gets no answer. Requests for metrics are answered here and not counted.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, GoingAway> {
        if request.method() == Method::GET && request.uri().path() == meter::PATH {
            return Ok(self.metrics());
        }
        let in_flight = self.meter.begin();
        let answer = self.pass_on(request).await?;
        #[cfg(feature = "planted-faults")]
        if crate::planted::balancer_errs() {
            self.meter.begin().answered(StatusCode::BAD_GATEWAY);
        }
        in_flight.answered(answer.status());
        Ok(answer)
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let Ok(text) = self.meter.text() else {
            return plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot encode the metrics\n",
            );
        };
        let mut answer = Response::new(Full::new(text.into()));
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, meter::CONTENT_TYPE);
        answer
    }

    async fn pass_on(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, GoingAway> {
        let (mut parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_LIMIT).collect().await else {
            return Ok(plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                "a request's body may have at most 65,536 bytes\n",
            ));
        };
        strip(&mut parts.headers);
        let body = body.to_bytes();
        tokio::time::timeout(PATIENCE, self.attempt_all(&parts, body))
            .await
            .unwrap_or_else(|_| {
                Ok(plain(
                    StatusCode::GATEWAY_TIMEOUT,
                    "no endpoint answered in time\n",
                ))
            })
    }

    async fn attempt_all(
        &self,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>, GoingAway> {
        let repeatable = matches!(parts.method, Method::GET | Method::HEAD);
        let mut tried = Vec::new();
        loop {
            let place = match self.table.place(&tried).await {
                Ok(place) => place,
                Err(NoPlace::QueueFull) => {
                    return Ok(plain(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "too many requests are waiting\n",
                    ));
                }
                Err(NoPlace::AllTried) if *self.life.borrow() == Life::Up => {
                    tokio::time::sleep(REST).await;
                    tried.clear();
                    continue;
                }
                Err(NoPlace::AllTried) => return Err(GoingAway),
            };
            match self.attempt(&place, parts, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(http::Error::Transport { unsent, .. }) if unsent || repeatable => {
                    tried.push(place.slot());
                }
                Err(error) => {
                    tracing::warn!(
                        endpoint = place.endpoint().name,
                        %error,
                        "an endpoint did not answer a request; answering with 502"
                    );
                    return Ok(plain(
                        StatusCode::BAD_GATEWAY,
                        "the endpoint did not answer, and the request cannot be sent twice\n",
                    ));
                }
            }
        }
    }

    async fn attempt(
        &self,
        place: &Place,
        parts: &Parts,
        body: Bytes,
    ) -> Result<Response<Full<Bytes>>, http::Error> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let uri: Uri = format!("http://{}{path}", place.endpoint().address)
            .parse()
            .map_err(
                |source: hyper::http::uri::InvalidUri| http::Error::Transport {
                    unsent: false,
                    source: source.into(),
                },
            )?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = parts.headers.clone();
        let answer = http::call(&self.http, request, PATIENCE).await?;
        let (mut parts, body) = answer.into_parts();
        strip(&mut parts.headers);
        Ok(Response::from_parts(parts, Full::new(body)))
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn plain(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *answer.status_mut() = status;
    answer
}
