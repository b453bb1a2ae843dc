//! One HTTP server: its address and credentials, and requests whose answers are bounded in time and size.

use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use reqwest::{
    Client, RequestBuilder, Response, StatusCode, Url,
    header::{
        AGE, AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    },
    redirect,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde::de::DeserializeOwned;

use crate::Error;

/// Maximum time for a request and its whole answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum size of an answer, in bytes.
pub(crate) const BYTES: usize = 64 << 20;
/// Maximum length of a text of the server that an error quotes, in bytes.
const QUOTED: usize = 200;

/// The address of a server, and how it is asked: credentials, headers and certificates.
///
/// A request and its answer take at most 10 seconds and 64 MiB. Redirects are refused, because they could carry
/// credentials to another server.
///
/// ```
/// use plugins_prometheus::{Prometheus, Server};
///
/// let server = Server::at("https://prometheus.example.com/eu")?
///     .bearer_file("/var/run/secrets/tokens/prometheus")
///     .header("X-Scope-OrgID", "shop")?;
/// let prometheus = Prometheus::new(server)?;
/// # Ok::<(), plugins_prometheus::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "make an `Alertmanager` or a `Prometheus` of it"]
pub struct Server {
    base: Url,
    headers: HeaderMap,
    token: Option<PathBuf>,
    authorities: Vec<CertificateDer<'static>>,
}

impl Server {
    /// Makes a server without credentials. `address` is `http://` or `https://`, the host, and possibly a port and a
    /// path before `/api`.
    ///
    /// # Errors
    /// If the address is not such a URL, or contains a user or a password.
    pub fn at(address: &str) -> Result<Self, Error> {
        let wrong = || {
            // Neither a user with a password nor a query, which may contain a token.
            let shown = address
                .split('?')
                .next()
                .and_then(|it| it.rsplit('@').next());
            let address = shown.unwrap_or_default().to_owned();
            Error::Address { address }
        };
        let base = Url::parse(address).map_err(|_| wrong())?;
        let host = base.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(wrong)?.to_owned();
        if !matches!(base.scheme(), "http" | "https") || base.query().is_some() {
            return Err(wrong());
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(Error::Credentials { host });
        }
        Ok(Self {
            base,
            headers: HeaderMap::new(),
            token: None,
            authorities: Vec::new(),
        })
    }

    /// Sends this token with each request.
    ///
    /// # Errors
    /// If the token contains characters that HTTP does not allow.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        self.authorization(&format!("Bearer {token}"))
    }

    /// Sends the token in this file with each request. The file is read each time, because such tokens are renewed.
    pub fn bearer_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token = Some(path.into());
        self
    }

    /// Sends this user and password with each request.
    ///
    /// # Errors
    /// If the user contains a colon.
    pub fn basic(self, user: &str, password: &str) -> Result<Self, Error> {
        if user.contains(':') {
            return Err(header_error(AUTHORIZATION.as_str()));
        }
        let both = BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.authorization(&format!("Basic {both}"))
    }

    fn authorization(mut self, value: &str) -> Result<Self, Error> {
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| header_error(AUTHORIZATION.as_str()))?;
        value.set_sensitive(true);
        self.headers.insert(AUTHORIZATION, value);
        Ok(self)
    }

    /// Sends this header with each request, such as `X-Scope-OrgID` for the tenant of a shared server.
    ///
    /// # Errors
    /// If HTTP does not allow the name or the value.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        let wrong = || header_error(name);
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        // Any header may be a credential: no text contains its value.
        value.set_sensitive(true);
        self.headers.insert(header, value);
        Ok(self)
    }

    /// Trusts these certificate authorities, in PEM, beside those of the system.
    ///
    /// # Errors
    /// If the text contains no certificate, or one that cannot be read.
    pub fn ca(mut self, pem: &str) -> Result<Self, Error> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
        let read = read.ok().filter(|read| !read.is_empty());
        self.authorities.extend(read.ok_or(Error::Certificates)?);
        Ok(self)
    }

    /// Prepares the connections.
    pub(crate) fn connect(self) -> Result<Connection, Error> {
        let server: Arc<str> = self.base.as_str().trim_end_matches('/').into();
        let fails = |source| Error::Client {
            server: server.to_string(),
            source,
        };
        let builder = Client::builder()
            .default_headers(self.headers)
            .redirect(redirect::Policy::none())
            .timeout(DEADLINE)
            // For http, too: the client wants to have a library of cryptography in any case.
            .tls_backend_preconfigured(tls(&self.authorities).map_err(fails)?);
        let client = builder.build().map_err(|error| fails(error.into()))?;
        Ok(Connection {
            client,
            server,
            token: self.token,
        })
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers may contain credentials.
        let address = self.base.as_str();
        f.debug_struct("Server")
            .field("address", &address)
            .finish_non_exhaustive()
    }
}

/// An answer of the expected shape, and the server's time when it answered.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) body: T,
    pub(crate) date: Timestamp,
}

/// Makes requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    client: Client,
    /// The address of the server, without a slash at its end.
    pub(crate) server: Arc<str>,
    token: Option<PathBuf>,
}

impl Connection {
    /// Asks for `path`, which begins with a slash.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Error> {
        let request = self.client.get(format!("{}{path}", self.server));
        let answer = self.authorized(request)?.send().await;
        let answer = answer.map_err(|error| self.unreachable(error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if status.is_redirection() {
            let to = headers
                .get(LOCATION)
                .map_or(&b""[..], HeaderValue::as_bytes);
            let (server, to) = (self.server.to_string(), quoted(to));
            return Err(Error::Redirect { server, to });
        }
        let body = self.whole(answer).await?;
        if status != StatusCode::OK {
            return Err(Error::Status {
                server: self.server.to_string(),
                status: status.as_u16(),
                says: quoted(&body),
            });
        }
        let content = headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        if !content.starts_with(b"application/json") {
            return Err(self.not_the_api(content));
        }
        let date = made_at(&headers).ok_or_else(|| Error::NoDate {
            server: self.server.to_string(),
        })?;
        let read = serde_json::from_slice(&body);
        Ok(Answer {
            body: read.map_err(|_| self.not_the_api(&body))?,
            date,
        })
    }

    /// Adds the token as it is now.
    fn authorized(&self, request: RequestBuilder) -> Result<RequestBuilder, Error> {
        let Some(path) = &self.token else {
            return Ok(request);
        };
        let fails = |source| Error::Token {
            server: self.server.to_string(),
            path: path.clone(),
            source,
        };
        let token = std::fs::read_to_string(path).map_err(fails)?;
        let value = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
        let mut value = value.map_err(|_| fails(io::ErrorKind::InvalidData.into()))?;
        value.set_sensitive(true);
        Ok(request.header(AUTHORIZATION, value))
    }

    /// Reads the body, up to the limit.
    async fn whole(&self, mut answer: Response) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        loop {
            let part = answer
                .chunk()
                .await
                .map_err(|error| self.unreachable(error))?;
            let Some(part) = part else { return Ok(body) };
            if body.len() + part.len() > BYTES {
                let server = self.server.to_string();
                return Err(Error::TooLong { server });
            }
            body.extend_from_slice(&part);
        }
    }

    fn unreachable(&self, error: reqwest::Error) -> Error {
        Error::Unreachable {
            server: self.server.to_string(),
            source: error.without_url().into(),
        }
    }

    fn not_the_api(&self, content: &[u8]) -> Error {
        Error::NotTheApi {
            server: self.server.to_string(),
            content: quoted(content),
        }
    }
}

/// The authorities of the system and these, with the cryptography of ring.
fn tls(
    authorities: &[CertificateDer<'static>],
) -> Result<ClientConfig, Box<dyn std::error::Error + Send + Sync>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The time at which an answer was made, by the clock of the server. A cache may say that the answer is older.
fn made_at(headers: &HeaderMap) -> Option<Timestamp> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let date = rfc2822::parse(text(DATE)?).ok()?.timestamp();
    let age = text(AGE).and_then(|age| age.parse().ok()).unwrap_or(0);
    date.checked_sub(SignedDuration::from_secs(age)).ok()
}

fn header_error(name: &str) -> Error {
    Error::Header {
        name: name.to_owned(),
    }
}

/// The start of a text of the server, on one line.
fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(QUOTED)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}
