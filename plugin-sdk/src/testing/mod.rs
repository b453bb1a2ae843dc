//! Fakes and mocks for tests of plugins, checks and engines. Requires the feature `testing`.
//!
//! Fakes have a working implementation: [`InMemoryProduction`] is a plugin with a production in memory, [`FakeView`] is
//! a partition, [`InMemoryEffects`] a function with effects. Mocks ([`MockAssetPlugin`] and the others, made with
//! `mockall`) return what a test sets.

mod mocks;
mod nouns;
mod operations;
mod production;
mod rollouts;
mod runs;
mod view;

pub use mocks::{
    MockAssetPlugin, MockCheckPlugin, MockDispatchPlugin, MockHealthValidator,
    MockOperationFunction, MockProbe, MockSampleSource, MockTargetSelection, MockTurndown,
};
pub use nouns::{NOW, Thing, asset, check_request, incarnation, reader, seal, without_content};
pub use operations::{InMemoryEffects, dispatch_request, function_request};
pub use production::InMemoryProduction;
pub use rollouts::{FakeHealth, health_request, select_request, target, watched};
pub use runs::FakeRuns;
pub use view::FakeView;
