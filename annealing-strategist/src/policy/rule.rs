//! The common part of all policy layers: a rule with settings, which are fixed or read from the policy asset.

use std::{fmt, marker::PhantomData};

use plugin_sdk::{
    SelectRequest, Selection,
    service::{Narrow, NarrowLayer, Narrowed},
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

/// A [`Rule`] with fixed settings as a tower layer. All layers of this module have this type.
#[derive(Debug, Clone)]
pub struct PolicyLayer<R>(pub(super) R);

impl<R: Rule> PolicyLayer<R> {
    /// Creates a layer that uses the same settings at each call.
    pub fn fixed(rule: R) -> Self {
        Self(rule)
    }

    /// Creates a layer that reads its settings from the policy at each call. It has no settings to set:
    ///
    /// ```compile_fail,E0599
    /// use annealing_strategist::policy::CanaryLayer;
    /// use std::time::Duration;
    ///
    /// CanaryLayer::by_policy().bake(Duration::from_secs(1800));
    /// ```
    pub fn by_policy() -> ByPolicyLayer<R> {
        ByPolicyLayer(PhantomData)
    }
}

impl<S, R: Rule> Layer<S> for PolicyLayer<R> {
    type Service = Narrowed<S, Fixed<R>>;

    fn layer(&self, inner: S) -> Self::Service {
        NarrowLayer::new(Fixed(self.0.clone())).layer(inner)
    }
}

/// A [`Rule`] that reads its settings from the policy of each request, as a tower layer.
#[derive(Debug, Clone)]
pub struct ByPolicyLayer<R>(PhantomData<R>);

impl<S, R: Rule> Layer<S> for ByPolicyLayer<R> {
    type Service = Narrowed<S, ByPolicy<R>>;

    fn layer(&self, inner: S) -> Self::Service {
        NarrowLayer::new(ByPolicy(PhantomData)).layer(inner)
    }
}

/// A rule whose settings were fixed when the stack was built.
#[derive(Debug, Clone)]
pub struct Fixed<R>(R);

impl<R: Rule> Narrow for Fixed<R> {
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        if R::applies(request) {
            self.0.narrow(request, beneath)
        } else {
            beneath
        }
    }
}

/// A rule whose settings are read from the policy of each request.
#[derive(Debug, Clone)]
pub struct ByPolicy<R>(PhantomData<R>);

impl<R: Rule> Narrow for ByPolicy<R> {
    fn narrow(&self, request: &SelectRequest, beneath: Selection) -> Selection {
        match R::of(&request.policy).filter(|_| R::applies(request)) {
            Some(rule) => rule.narrow(request, beneath),
            None => beneath,
        }
    }
}
