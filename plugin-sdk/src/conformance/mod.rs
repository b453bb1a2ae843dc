//! The laws of plugins and layers, as functions to run against your own. Behind the feature `testing`.
//!
//! A law that does not hold is an [`Err`] that names it: `unwrap()` it in a test.
//!
//! | of | laws | run |
//! |---|---|---|
//! | check layers | only add; name their delays; an error beneath loses nothing; a cause that does not apply adds nothing | [`check_layer`], [`check_plugin`] |
//! | verdicts | join is associative, commutative, idempotent | [`join`] |
//! | policy layers | choose from the selection beneath; what is held back waits for something | [`select_layer`] |
//! | policies | only targets that wait; the same to the same; every target in the end | [`select()`] |
//! | health layers | only make it worse; an error is unknown and loses nothing | [`health_layer`], [`health_join`] |
//! | asset plugins | diff has no effect; pushed means in sync; push is idempotent; old calls are refused | [`AssetSuite`] |

mod asset;
mod check;
mod health;
mod select;
mod violation;

pub use asset::AssetSuite;
pub use check::{Beneath, check_layer, check_plugin, join};
pub use health::{Found, health_join, health_layer};
pub use select::{Offers, select, select_layer};
pub use violation::Violation;

#[cfg(test)]
mod tests;
