//! What all policy layers share: a rule with settings, fixed or from the policy asset. Apart, so that each layer is its
//! rule and nothing else.

use std::fmt;

use plugin_sdk::{
    SelectRequest, Selection,
    service::{Narrow, Narrowed},
};
use prodspec_model::rollout::RolloutPolicy;
use tower_layer::Layer;

/// The settings of one layer, and what it makes of them.
pub trait Rule: Clone + fmt::Debug + Send + Sync + 'static {
    /// Its part of the policy. `None`: the policy asks for nothing of its kind.
    fn of(policy: &RolloutPolicy) -> Option<Self>;

    /// Whether it has a say. Unless it says otherwise, where there is something to be careful about.
    fn applies(request: &SelectRequest) -> bool {
        request.is_cautious()
    }

    /// What is left of `beneath`.
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection;
}

/// Where a rule's settings come from.
#[derive(Debug, Clone)]
pub enum Setting<R> {
    /// From whoever built the stack.
    Fixed(R),
    /// From the policy of each request.
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

/// A rule as a layer. Each of this module's layers is one.
#[derive(Debug, Clone)]
pub struct PolicyLayer<R>(pub(super) Setting<R>);

impl<R: Rule> PolicyLayer<R> {
    /// The same settings at each call.
    pub fn fixed(rule: R) -> Self {
        Self(Setting::Fixed(rule))
    }

    /// The settings of the policy, read at each call.
    pub fn by_policy() -> Self {
        Self(Setting::ByPolicy)
    }

    /// Changes settings that are fixed.
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
