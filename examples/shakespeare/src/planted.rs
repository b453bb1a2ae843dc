//! Faults that can be planted in the control plane, to test that the demo notices them. A fault needs the feature
//! `planted-faults`, and an environment variable that names it; the testbed has faults of production, the same way:
//!
//! ```text
//! SHAKESPEARE_PLANTED=canary-skipped cargo run -p shakespeare --features planted-faults -- demo
//! ```
//!
//! `tests/planted.rs` plants each fault and expects that the step about it fails.

use std::sync::Arc;

use clap::ValueEnum;
use control_plane::{
    ControlPlaneBuilder,
    prelude::ServiceBuilder,
    sdk::{Direction, SelectRequest, Selection, service::NarrowLayer},
    strategist::policy,
};

/// The environment variable that names a fault.
const VARIABLE: &str = "SHAKESPEARE_PLANTED";

/// The faults that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Planted {
    /// A rollout selects all targets at once and ignores its policy.
    CanarySkipped,
    /// Every updated asset is judged healthy.
    HealthIgnored,
    /// A rollback selects no target.
    RollbackSuppressed,
    /// The `hold` of a policy is ignored.
    HoldIgnored,
    /// Firing alerts delay no push.
    AlertIgnored,
    /// The limits `max_in_flight` and `max_unavailable` are ignored.
    LimitsIgnored,
    /// The waves of a policy are ignored.
    WavesIgnored,
    /// An operator's `promote` command is ignored.
    PromoteIgnored,
}

impl Planted {
    /// Returns the fault that the environment names, if any.
    fn named() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok()?;
        Self::from_str(&name, false).ok()
    }
}

/// Adds the fault that the environment names to the control plane, if it names one.
pub(crate) fn plant(builder: ControlPlaneBuilder) -> ControlPlaneBuilder {
    let Some(fault) = Planted::named() else {
        return builder;
    };
    tracing::warn!(
        ?fault,
        "this process runs with a planted fault; use it for tests only"
    );
    match fault {
        Planted::HealthIgnored => builder.health(|healthy| healthy),
        Planted::AlertIgnored => builder.checks(|base| {
            ServiceBuilder::new()
                .layer(control_plane::checks::DependencySolverLayer::standard())
                .service(base)
        }),
        _ => careless(builder, fault),
    }
}

/// Plants a fault in the selection of rollouts.
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

/// Removes from the request the part that the fault ignores.
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
