//! Faults that can be planted in the control plane and in production, to see that the demo notices each. Only with the
//! feature `planted-faults`, and only when the environment asks for one:
//!
//! ```text
//! SHAKESPEARE_PLANTED=canary-skipped cargo run -p shakespeare --features planted-faults -- demo
//! ```
//!
//! `tests/planted.rs` plants each, and sees its step broken.

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
    /// As many are on their way at once as there are, whatever the policy says.
    LimitsIgnored,
    /// A wave does not wait for the one before it.
    WavesIgnored,
    /// A person's word that it is good enough changes nothing.
    PromoteIgnored,
    /// A balancer says that it lets less through while more is still in flight.
    LimitToldEarly,
    /// Every other answer of a balancer counts as an error, though it is none: only its own counters know.
    BalancerErrs,
}

impl Planted {
    /// The one that the environment names.
    fn named() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok()?;
        Self::from_str(&name, false).ok()
    }
}

/// Whether balancers say too early what they let through.
pub(crate) fn limit_told_early() -> bool {
    Planted::named() == Some(Planted::LimitToldEarly)
}

/// Whether balancers count errors that nobody sees.
pub(crate) fn balancer_errs() -> bool {
    Planted::named() == Some(Planted::BalancerErrs)
}

/// The same control plane with the fault that the environment names, if it names one.
pub(crate) fn plant(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let Some(fault) = Planted::named() else {
        return builder;
    };
    tracing::warn!(?fault, "a fault is planted");
    match fault {
        Planted::HealthIgnored => builder.health(|healthy| healthy),
        Planted::AlertIgnored => builder.checks(|base| {
            ServiceBuilder::new()
                .layer(control_plane::checks::DependencySolverLayer::standard())
                .service(base)
        }),
        // In production, not here.
        Planted::LimitToldEarly | Planted::BalancerErrs => builder,
        _ => careless(builder, fault),
    }
}

/// Rollouts whose policy lacks something.
fn careless(builder: ControlPlaneBuilder, fault: Planted) -> ControlPlaneBuilder {
    match fault {
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
                .layer(policy::MaxInFlightLayer::by_policy())
                .layer(policy::MaxUnavailableLayer::by_policy())
                .layer(policy::CanaryLayer::by_policy())
                .layer(policy::WavesLayer::by_policy())
                .layer(policy::OneDomainAtATimeLayer::by_policy())
                .layer(policy::BakeLayer::by_policy())
                .service(all)
        }),
        Planted::LimitsIgnored => builder.rollouts(|all| {
            ServiceBuilder::new()
                .layer(policy::HoldLayer::by_policy())
                .layer(policy::CanaryLayer::by_policy())
                .layer(policy::WavesLayer::by_policy())
                .layer(policy::OneDomainAtATimeLayer::by_policy())
                .layer(policy::BakeLayer::by_policy())
                .service(all)
        }),
        Planted::WavesIgnored => builder.rollouts(|all| {
            ServiceBuilder::new()
                .layer(policy::HoldLayer::by_policy())
                .layer(policy::MaxInFlightLayer::by_policy())
                .layer(policy::MaxUnavailableLayer::by_policy())
                .layer(policy::CanaryLayer::by_policy())
                .layer(policy::OneDomainAtATimeLayer::by_policy())
                .layer(policy::BakeLayer::by_policy())
                .service(all)
        }),
        Planted::PromoteIgnored => builder.rollouts(|_| {
            let deaf = |mut request: SelectRequest| {
                request.promoted = None;
                request
            };
            ServiceBuilder::new()
                .map_request(deaf)
                .service(policy::standard())
        }),
        _ => builder.rollouts(|all| all),
    }
}
