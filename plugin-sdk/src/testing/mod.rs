//! Fakes and mocks for the tests of plugins, checks and engines. Behind the feature `testing`.
//!
//! Fakes work ([`InMemoryProduction`] is a plugin with a production, [`FakeView`] a partition); mocks
//! ([`MockAssetPlugin`] and the others, by `mockall`) do what a test tells them to.

mod mocks;
mod nouns;
mod production;
mod rollouts;
mod view;

pub use mocks::{
    MockAssetPlugin, MockCheckPlugin, MockHealthValidator, MockMetricSource, MockTargetSelection,
    MockTurndown,
};
pub use nouns::{NOW, Thing, asset, check_request, incarnation, reader};
pub use production::InMemoryProduction;
pub use rollouts::{FakeHealth, health_request, select_request, target, watched};
pub use view::FakeView;
