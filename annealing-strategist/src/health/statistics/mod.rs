//! Statistical health: moved units are compared with units that have not moved, in the same windows of time.
//!
//! A *unit* is one asset, a *window* a closed span of time. Each unit has one value for each window, such as the share of
//! requests that failed. Larger is worse: negate values of which smaller is worse. Nothing here depends on the scale of values.
//!
//! - [`p_value`]: the rank of the moved unit among its control units in one window, as a p-value.
//! - [`Martingale`]: the evidence of all windows so far. Looking at it again and again raises no more false alarms than
//!   looking once, as long as the units are exchangeable without a fault.
//! - [`combined`], [`windows_for`]: several moved units, and the number of windows after which silence means health.
//! - [`ratio_of_means`]: the size of the effect. Evidence without an effect is no alarm.
//! - [`levelled`]: shares of units with unlike traffic, made comparable.
//! - [`lag_one`]: whether units differ for longer than a window. Such units are not exchangeable, and must not be judged.
//! - [`compare`]: a single look, by the test of Mann and Whitney.
//!
//! ```
//! use annealing_strategist::health::statistics::{Martingale, p_value, uniform, windows_for};
//!
//! let control = [1.0, 2.0, 0.0, 3.0, 2.0, 1.0, 2.0, 1.0, 0.0].map(Some);
//! let mut evidence = Martingale::default();
//! for window in 0..6 {
//!     let u = uniform(format!("rollout 7, errors, job/eu, window {window}").as_bytes());
//!     evidence.add(p_value(Some(10.0), &control, u));
//! }
//! let (alpha, rules) = (0.05, 1.0);
//! assert!(evidence.value() >= rules / alpha, "an alarm, if the effect is large enough");
//! assert_eq!(windows_for(control.len(), rules / alpha), Some(4));
//! ```
//!
//! Sources: the rank of exchangeable values is uniform (V. Vovk, A. Gammerman and G. Shafer, *Algorithmic Learning in a
//! Random World*, 2005); a mixture of betting functions over its p-values is a test martingale, whose chance ever to reach
//! 1/alpha is at most alpha (J. Ville, 1939; V. Fedorova and others, *Plug-in martingales for testing exchangeability
//! on-line*, 2012); H. B. Mann and D. R. Whitney, 1947; J. L. Hodges and E. L. Lehmann, 1963.

mod fit;
mod level;
mod martingale;
mod rank;
mod single;

pub use fit::lag_one;
pub use level::{LEAST, Share, levelled};
pub use martingale::{Martingale, combined, ratio_of_means, windows_for};
pub use rank::{p_value, uniform};
pub use single::{Comparison, Shift, Side, TooFew, compare};

#[cfg(test)]
mod tests;
