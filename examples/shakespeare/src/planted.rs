//! Faults that can be planted in the control plane, to see that the demo notices each. Only with the feature
//! `planted-faults`, and only when the environment asks for one:
//!
//! ```text
//! SHAKESPEARE_PLANTED=canary-skipped cargo run -p shakespeare --features planted-faults -- demo
//! ```

use clap::ValueEnum;
use control_plane::{
    ControlPlaneBuilder,
    prelude::ServiceBuilder,
    sdk::{Direction, SelectRequest, Selection, service::NarrowLayer},
    strategist::policy,
};

/// The variable that names a fault.
const VARIABLE: &str = "SHAKESPEARE_PLANTED";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Planted {
    /// A rollout moves everything at once, whatever the policy says.
    CanarySkipped,
    /// What was updated is always found healthy.
    HealthIgnored,
    /// What is to go back never does.
    RollbackSuppressed,
    /// A hold holds nothing.
    HoldIgnored,
    /// Nothing waits for an alert.
    AlertIgnored,
}

/// The same control plane with the fault that the environment names, if it names one.
pub(crate) fn plant(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let named = std::env::var(VARIABLE).ok();
    let Some(fault) = named.and_then(|name| Planted::from_str(&name, false).ok()) else {
        return builder;
    };
    tracing::warn!(?fault, "a fault is planted");
    match fault {
        Planted::CanarySkipped => builder.rollouts(|all| all),
        Planted::HealthIgnored => builder.health(|healthy| healthy),
        Planted::RollbackSuppressed => builder.rollouts(|_| {
            let forward = |request: &SelectRequest, beneath: Selection| {
                beneath.narrowed(|_| request.direction == Direction::Forward)
            };
            ServiceBuilder::new()
                .layer(NarrowLayer::new(forward))
                .service(policy::standard())
        }),
        Planted::HoldIgnored => builder.rollouts(|all| {
            ServiceBuilder::new()
                .layer(policy::CanaryLayer::by_policy())
                .layer(policy::OneDomainAtATimeLayer::by_policy())
                .layer(policy::BakeLayer::by_policy())
                .service(all)
        }),
        Planted::AlertIgnored => builder.checks(|base| {
            ServiceBuilder::new()
                .layer(control_plane::checks::DependencySolverLayer::standard())
                .service(base)
        }),
    }
}
