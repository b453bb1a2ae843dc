//! Why a server cannot be configured, or why its answer does not count.

use jiff::Timestamp;

use crate::server::{BYTES, DEADLINE};

/// An error of the configuration, or of an answer. The text says what to do; none of them contains a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not a URL with the scheme `http` or `https`.
    #[error(
        "`{address}` is not an address of a server: write http://host:port or https://host:port"
    )]
    Address {
        /// The address as given, without a user and a password.
        address: String,
    },
    /// The address contains a user or a password.
    #[error("the address of `{host}` contains a user or a password: use `basic` instead")]
    Credentials {
        /// The host of the address.
        host: String,
    },
    /// A header has a name or a value that HTTP does not allow.
    #[error("the header `{name}` has a name or a value that HTTP does not allow")]
    Header {
        /// The name of the header.
        name: String,
    },
    /// The text contains no certificate.
    #[error(
        "the text given to `ca` contains no certificate in PEM: give it the file's contents, not its path"
    )]
    Certificates,
    /// A connection with TLS cannot be prepared.
    #[error("cannot prepare connections to {server}")]
    Client {
        /// The address of the server.
        server: String,
        /// The reason given by the library of TLS or HTTP.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file with the token cannot be read.
    #[error("cannot read the token for {server} from {}", path.display())]
    Token {
        /// The address of the server.
        server: String,
        /// The file that should contain the token.
        path: std::path::PathBuf,
        /// The reason given by the operating system.
        source: std::io::Error,
    },
    /// No answer, or only a part of one, within the deadline.
    #[error("{server} does not answer in {} s, or not whole", DEADLINE.as_secs())]
    Unreachable {
        /// The address of the server.
        server: String,
        /// The reason given by the library of HTTP.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server sends the request elsewhere.
    #[error("{server} redirects to `{to}`: use that address if it is the right one")]
    Redirect {
        /// The address of the server.
        server: String,
        /// The address that the server names.
        to: String,
    },
    /// The server refuses the request or fails.
    #[error("{server} answers {status}: {says}")]
    Status {
        /// The address of the server.
        server: String,
        /// The status of the answer.
        status: u16,
        /// The start of the answer.
        says: String,
    },
    /// The answer is longer than the limit.
    #[error("{server} answers with more than {} MiB: ask for less", BYTES >> 20)]
    TooLong {
        /// The address of the server.
        server: String,
    },
    /// The answer is not JSON, or not of the API.
    #[error(
        "{server} answers with `{content}`, which is not this API's: check the address and proxies in between"
    )]
    NotTheApi {
        /// The address of the server.
        server: String,
        /// The type of the content, or its start.
        content: String,
    },
    /// The answer has no time, so that its age is not known.
    #[error("{server} answers without the header `Date`: let proxies in between keep it")]
    NoDate {
        /// The address of the server.
        server: String,
    },
    /// The server warns that its answer is not complete.
    #[error("{server} warns \"{warning}\"")]
    Warning {
        /// The address of the server.
        server: String,
        /// The first warning of the answer.
        warning: String,
    },
    /// The server has no alerting rules, so that no alert can fire.
    #[error(
        "{server} has no alerting rules, so no alert can fire: load them, or ask another server"
    )]
    NoRules {
        /// The address of the server.
        server: String,
    },
    /// An alerting rule fails, so that its alerts cannot fire.
    #[error("the alerting rule `{rule}` of {server} cannot be evaluated: {why}")]
    Rule {
        /// The address of the server.
        server: String,
        /// The name of the rule.
        rule: String,
        /// The reason that the server gives.
        why: String,
    },
    /// A group of rules is not evaluated at its interval.
    #[error(
        "the rule group `{group}` of {server} was evaluated at {last}, and every {every} s is due: repair the server"
    )]
    Late {
        /// The address of the server.
        server: String,
        /// The name of the group.
        group: String,
        /// Time of its last evaluation.
        last: Timestamp,
        /// The interval of its evaluations, in seconds.
        every: f64,
    },
}
