//! Health by policies that are intent: assets with the payload [`HealthPolicy`](prodspec_model::policy::HealthPolicy).
//!
//! The rules:
//! - A look reads the newest text of each policy, whatever incarnation is rolled out. A policy that is edited judges the same windows
//!   by its new text.
//! - A policy judges the assets that match it, among those that a rollout has moved or can hurt. Several policies may judge one
//!   asset; each has to find it healthy.
//! - Metrics of an updated asset count from `warm_up` after it has settled: no window that began earlier is judged.
//! - A *critical* rule must be healthy. An *optional* one must not be unhealthy. A *muted* one is shown.
//! - A source that fails makes the rules that need it unknown.
//! - All policies share one reading of each expression and window, and one of alerts in 5 s.
//! - [`valid`] refuses, before the seal, a policy that can pass without data, or that names an unknown source, label or field.

mod compiled;
mod sources;
mod valid;
mod validator;

pub use valid::valid;
pub use validator::Policies;

#[cfg(test)]
mod tests;
