//! The common part of all policy layers: a rule with settings, which are fixed or read from the policy asset.

use std::fmt;

use plugin_sdk::{
    SelectRequest, Selection,
    service::{Narrow, Narrowed},
};
use prodspec_model::rollout::RolloutPolicy;
use tower_layer::Layer;

/// The rule of one policy layer, with its settings.
pub trait Rule: Clone + fmt::Debug + Send + Sync + 'static {
    /// Reads the settings of this rule from a policy. `None`: the policy does not use this rule.
    fn of(policy: &RolloutPolicy) -> Option<Self>;

    /// Whether the rule applies to a request. By default it applies to cautious requests.
    fn applies(request: &SelectRequest) -> bool {
        request.is_cautious()
    }

    /// Returns the part of the inner selection `beneath` that the rule lets through.
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection;
}

/// The source of a rule's settings.
#[derive(Debug, Clone)]
pub enum Setting<R> {
    /// The settings were fixed when the stack was built.
    Fixed(R),
    /// The settings are read from the policy of each request.
    ByPolicy,
}

impl<R: Rule> Narrow for Setting<R> {
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        if !R::applies(request) {
            return beneath;
        }
        match self {
            Self::Fixed(rule) => rule.narrow(request, beneath),
            Self::ByPolicy => match R::of(&request.policy) {
                Some(rule) => rule.narrow(request, beneath),
                None => beneath,
            },
        }
    }
}

/// A [`Rule`] as a tower layer. All layers of this module have this type.
#[derive(Debug, Clone)]
pub struct PolicyLayer<R>(pub(super) Setting<R>);

impl<R: Rule> PolicyLayer<R> {
    /// Creates a layer that uses the same settings at each call.
    pub fn fixed(rule: R) -> Self {
        Self(Setting::Fixed(rule))
    }

    /// Creates a layer that reads its settings from the policy at each call.
    pub fn by_policy() -> Self {
        Self(Setting::ByPolicy)
    }

    /// Changes the settings if they are fixed.
    pub(super) fn with(mut self, change: impl FnOnce(&mut R)) -> Self {
        if let Setting::Fixed(rule) = &mut self.0 {
            change(rule);
        }
        self
    }
}

impl<S, R: Rule> Layer<S> for PolicyLayer<R> {
    type Service = Narrowed<S, Setting<R>>;

    fn layer(&self, inner: S) -> Self::Service {
        plugin_sdk::service::NarrowLayer::new(self.0.clone()).layer(inner)
    }
}
