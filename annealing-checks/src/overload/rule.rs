//! The builder of [`Overload`]: the expression, its bound, and the assets that it is about.

use std::time::Duration;

use plugin_sdk::{CheckName, Expression, MetricSource, Problem};

use super::Overload;
use crate::{Scope, Types};

/// Default length of a window.
const WINDOW: Duration = Duration::from_secs(30);

/// An expression with its bound. It becomes a check when it is given a source.
#[derive(Debug, Clone)]
#[must_use = "give it a source to read"]
pub struct Rule {
    pub(super) name: CheckName,
    pub(super) expression: Expression,
    pub(super) most: f64,
    pub(super) types: Types,
    pub(super) scope: Option<Scope>,
    pub(super) window: Duration,
}

impl Rule {
    pub(super) fn new(most: f64, expression: &str) -> Self {
        Self {
            name: "overload".into(),
            expression: Expression::new(expression),
            most,
            types: Types::default(),
            scope: None,
            window: WINDOW,
        }
    }

    /// Sets the name of the check. A stack with several checks of overload needs different names.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Limits the check to assets of these types. The default is all types.
    pub fn types(mut self, types: Types) -> Self {
        self.types = types;
        self
    }

    /// Compares the series whose label `label` has a value only with the assets that `scope` counts under that value. By
    /// default the expression has one series, for all assets.
    pub fn within(mut self, scope: Scope, label: &str) -> Self {
        self.scope = Some(scope);
        self.expression.labels = vec![label.to_owned()];
        self
    }

    /// Sets how often the expression is evaluated. The default is 30 s. The enforcer refuses verdicts older than 60 s, and
    /// a value is up to 15 s older than its window: a window of more than 30 s makes pushes wait for the next one.
    pub fn every(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Returns the check that reads `source`.
    ///
    /// # Errors
    /// If the source does not accept the expression, or the bound is not a number.
    pub fn reading(self, source: impl MetricSource) -> Result<Overload, Problem> {
        if !self.most.is_finite() {
            let message = format!(
                "the bound of `{}` is {}: write a number",
                self.name, self.most
            );
            return Err(Problem::new(message));
        }
        source.accepts(&self.expression)?;
        Ok(Overload::new(self, source))
    }
}
