//! The builder of [`ByExpression`]: the expression, how its series meet assets, and its bound.

use std::{fmt, sync::Arc, time::Duration};

use plugin_sdk::{Expression, MetricSource, Problem};
use prodspec_model::{Asset, addons::PhysicalCluster};

use super::ByExpression;
use crate::health::{
    bound::Bound,
    scope::{Scope, scope_setters},
};

/// Default length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// Returns the text that the label of an asset's series has.
type Of = dyn Fn(&Asset) -> Option<String> + Send + Sync;

/// The cluster of an asset, for [`Measured::meets`].
pub fn cluster(asset: &Asset) -> Option<String> {
    let at = asset.addon::<PhysicalCluster>().ok().flatten();
    at.map(|at| at.cluster)
}

/// An expression whose series meet assets. It has no bound yet.
#[derive(Clone)]
#[must_use = "give it a bound, and a source to read"]
pub struct Measured {
    pub(super) expression: Expression,
    /// One for each label of the expression.
    pub(super) of: Vec<Arc<Of>>,
}

impl Measured {
    /// Measures by this expression. Without [`meets`](Self::meets) it has one series, which is about all assets.
    pub fn by(expression: &str) -> Self {
        Self {
            expression: Expression::new(expression),
            of: Vec::new(),
        }
    }

    /// Sets a label by which series meet assets: the series of an asset is the one whose label has the text that `of` returns
    /// for it. An asset for which it returns `None` has no series.
    pub fn meets(
        mut self,
        label: &str,
        of: impl Fn(&Asset) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.expression = self.expression.by(label);
        self.of.push(Arc::new(of));
        self
    }

    /// Sets an upper bound: larger values are unhealthy. The findings have the name `name`.
    pub fn at_most(self, name: &str, most: f64) -> Rule {
        Rule::new(self, name, Bound::AtMost(most))
    }

    /// Sets a lower bound: smaller values are unhealthy. The findings have the name `name`.
    pub fn at_least(self, name: &str, least: f64) -> Rule {
        Rule::new(self, name, Bound::AtLeast(least))
    }

    /// The texts of the labels of an asset's series. `None`: it has no series.
    pub(super) fn key(&self, asset: &Asset) -> Option<Vec<String>> {
        self.of.iter().map(|of| of(asset)).collect()
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Measured").field(&self.expression).finish()
    }
}

/// A measured expression with its bound. By default a window is 60 s long.
#[derive(Debug, Clone)]
#[must_use = "give it a source to read"]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) measured: Measured,
    pub(super) bound: Bound,
    pub(super) over: Duration,
    pub(super) scope: Scope,
}

impl Rule {
    fn new(measured: Measured, name: &str, bound: Bound) -> Self {
        Self {
            name: name.into(),
            measured,
            bound,
            over: WINDOW,
            scope: Scope::default(),
        }
    }

    /// Sets the length of a window, in whole seconds. `$window` in the expression stands for it. Default 60 s.
    pub fn over(mut self, window: Duration) -> Self {
        self.over = window;
        self
    }

    scope_setters!();

    /// Returns the validator that applies this rule and reads `source`.
    ///
    /// # Errors
    /// If the source does not accept the expression, or the bound is not a number.
    pub fn reading(self, source: impl MetricSource) -> Result<ByExpression, Problem> {
        let (Bound::AtMost(number) | Bound::AtLeast(number)) = self.bound;
        if !number.is_finite() {
            let message = format!("the bound of `{}` is {number}: write a number", self.name);
            return Err(Problem::new(message));
        }
        source.accepts(&self.measured.expression)?;
        Ok(ByExpression::new(self, source))
    }
}
