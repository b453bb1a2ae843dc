//! Faults that can be planted in the control plane and in production, to see that the demo notices each. Only with the
//! feature `planted-faults`, and only when the environment asks for one:
//!
//! ```text
//! SHAKESPEARE_PLANTED=canary-skipped cargo run -p shakespeare --features planted-faults -- demo
//! ```
//!
//! `tests/planted.rs` plants each, and sees its step broken.

use std::sync::Arc;

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
        Planted::CanarySkipped => builder.rollouts(|all| all),
        _ => builder.rollouts(move |_| {
            let lacking = move |request| lacking(request, fault);
            ServiceBuilder::new()
                .map_request(lacking)
                .service(policy::standard())
        }),
    }
}

/// The request without what the fault takes from it.
fn lacking(mut request: SelectRequest, fault: Planted) -> SelectRequest {
    let policy = Arc::make_mut(&mut request.policy);
    match fault {
        Planted::HoldIgnored => policy.hold = None,
        Planted::LimitsIgnored => (policy.max_in_flight, policy.max_unavailable) = (None, None),
        Planted::WavesIgnored => policy.waves.clear(),
        Planted::PromoteIgnored => request.promoted = None,
        _ => {}
    }
    request
}
