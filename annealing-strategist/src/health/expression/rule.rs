//! The builder of [`ByExpression`]: the measured quantity, how its series meet assets, and its bound.

use std::{fmt, sync::Arc, time::Duration};

use plugin_sdk::{Counter, Expression, MetricSource, Problem};
use prodspec_model::{Asset, AssetId, Digest, addons::PhysicalCluster, policy::Count};

use super::{ByExpression, readings::Readings, seen::Question};
use crate::health::{
    bound::Bound,
    scope::{Scope, scope_setters},
};

/// Default length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// Returns the text that the label of an asset's series has.
pub(in crate::health) type Of = dyn Fn(&Asset) -> Option<String> + Send + Sync;

/// The cluster of an asset, for [`Measured::meets`].
pub fn cluster(asset: &Asset) -> Option<String> {
    let at = asset.addon::<PhysicalCluster>().ok().flatten();
    at.map(|at| at.cluster)
}

/// A measured quantity whose series meet assets. It has no bound yet.
#[derive(Clone)]
#[must_use = "give it a bound, and a source to read"]
pub struct Measured {
    pub(super) expression: Expression,
    /// The number of all events. `None`: the quantity is not a share.
    pub(super) among: Option<Expression>,
    /// One for each label of the expression.
    pub(super) of: Vec<Arc<Of>>,
}

impl Measured {
    /// Measures by this expression. Without [`meets`](Self::meets) it has one series, which is about all assets.
    pub fn by(expression: &str) -> Self {
        Self::new(Expression::new(expression))
    }

    /// Measures how many events counters have counted per second.
    pub fn rate(counter: Counter) -> Self {
        Self::new(Expression::counter(counter))
    }

    /// Measures which share of the events counted by `whole` is counted by `part`: errors among requests, for example.
    pub fn share(part: Counter, whole: Counter) -> Self {
        Self {
            among: Some(Expression::counter(whole)),
            ..Self::rate(part)
        }
    }

    fn new(expression: Expression) -> Self {
        Self {
            expression,
            among: None,
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
        self.among = self.among.map(|it| it.by(label));
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

    /// For each label, how it meets an asset.
    #[cfg(feature = "statistics")]
    pub(in crate::health) fn of(self) -> Vec<Arc<Of>> {
        self.of
    }

    /// Both expressions, or the one.
    pub(in crate::health) fn expressions(&self) -> impl Iterator<Item = &Expression> {
        [&self.expression].into_iter().chain(&self.among)
    }
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Measured")
            .field(&self.expression)
            .field(&self.among)
            .finish()
    }
}

/// A measured quantity with its bound. By default a window is 60 s long.
#[derive(Clone)]
#[must_use = "give it a source to read"]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) question: Question,
    /// One for each label of the expression.
    pub(super) of: Vec<Arc<Of>>,
    pub(super) over: Duration,
    pub(super) scope: Scope,
}

impl Rule {
    pub(in crate::health) fn new(measured: Measured, name: &str, bound: Bound) -> Self {
        Self {
            name: name.into(),
            question: Question {
                expression: measured.expression,
                among: measured.among,
                bound,
                count: Count::Critical,
                policy: None,
            },
            of: measured.of,
            over: WINDOW,
            scope: Scope::default(),
        }
    }

    /// Sets the length of a window, in whole seconds. `$window` in the expression stands for it. Default 60 s.
    pub fn over(mut self, window: Duration) -> Self {
        self.over = window;
        self
    }

    /// Sets how the findings count. Default: the rule must be healthy.
    pub fn count(mut self, count: Count) -> Self {
        self.question.count = count;
        self
    }

    /// Sets the health policy that has the rule.
    pub(in crate::health) fn of_policy(mut self, id: AssetId, digest: Digest) -> Self {
        self.question.policy = Some((id, digest));
        self
    }

    scope_setters!();

    /// Returns the validator that applies this rule and reads `source`.
    ///
    /// # Errors
    /// If the source does not accept the expression, or the bound is not a number.
    pub fn reading(self, source: impl MetricSource) -> Result<ByExpression, Problem> {
        let (Bound::AtMost(number) | Bound::AtLeast(number)) = self.question.bound;
        if !number.is_finite() {
            let message = format!("the bound of `{}` is {number}: write a number", self.name);
            return Err(Problem::new(message));
        }
        let mut expressions = self.question.expressions();
        expressions.try_for_each(|it| source.accepts(it))?;
        drop(expressions);
        Ok(ByExpression::new(self, Arc::new(Readings::of(source))))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("name", &self.name)
            .field("question", &self.question)
            .finish_non_exhaustive()
    }
}
