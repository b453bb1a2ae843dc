//! Faults that can be planted in production, to test that a demo notices them. A fault needs the feature
//! `planted-faults`, and the environment variable `TESTBED_PLANTED` that names it, such as
//! `TESTBED_PLANTED=balancer-errs`.

use clap::ValueEnum;

/// The environment variable that names a fault.
const VARIABLE: &str = "TESTBED_PLANTED";

/// The faults that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Planted {
    /// A balancer acknowledges a lower limit while more requests are still in flight.
    LimitToldEarly,
    /// A balancer counts one error for each request that it answers, although the client saw no error.
    BalancerErrs,
    /// The press forgets the keys of what it has printed.
    PressForgets,
}

impl Planted {
    /// Returns the fault that the environment names, if any.
    fn named() -> Option<Self> {
        let name = std::env::var(VARIABLE).ok()?;
        Self::from_str(&name, false).ok()
    }
}

/// Returns true if balancers shall acknowledge a lower limit too early.
pub(crate) fn limit_told_early() -> bool {
    Planted::named() == Some(Planted::LimitToldEarly)
}

/// Returns true if balancers shall count errors that no client sees.
pub(crate) fn balancer_errs() -> bool {
    Planted::named() == Some(Planted::BalancerErrs)
}

/// Returns true if the press shall print again under a key that it has printed.
pub(crate) fn press_forgets() -> bool {
    Planted::named() == Some(Planted::PressForgets)
}
