#![doc = include_str!("../README.md")]

mod alertmanager;
mod error;
mod metrics;
mod prometheus;
mod promql;
mod server;

pub use alertmanager::Alertmanager;
pub use error::Error;
pub use prometheus::Prometheus;
pub use server::Server;
