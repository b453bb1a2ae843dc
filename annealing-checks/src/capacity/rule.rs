//! The builder of [`Capacity`]: the unit, the scope, and how much is needed.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{CheckName, Expression, MetricSource, Problem};
use prodspec_model::policy::AssetField;

use super::{
    Capacity,
    check::{Measured, Usage},
};
use crate::Scope;

/// Default time back to which the peak is looked for.
const BACK: Duration = Duration::from_secs(7 * 24 * 3600);

/// A floor of capacity. It becomes a check when it is given the usage.
#[derive(Debug, Clone)]
#[must_use = "give it the usage: measured or modelled"]
pub struct Rule {
    pub(super) name: CheckName,
    pub(super) unit: String,
    pub(super) scope: Scope,
    pub(super) label: Option<String>,
    pub(super) headroom: f64,
    pub(super) back: Duration,
    pub(super) excluded: Vec<Excluded>,
}

/// A time whose usage does not count, with the reason, such as a storm of retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excluded {
    /// Start of the time that does not count.
    pub from: Timestamp,
    /// End of the time that does not count.
    pub until: Timestamp,
    /// The reason, which is shown with the peak.
    pub why: String,
}

impl Rule {
    pub(super) fn new(unit: &str) -> Self {
        Self {
            name: "capacity".into(),
            unit: unit.into(),
            scope: Scope::all(),
            label: None,
            headroom: 1.0,
            back: BACK,
            excluded: Vec::new(),
        }
    }

    /// Sets the name of the check. A stack with several checks of capacity needs different names.
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Counts the assets of each part of `scope` apart. The series whose label `label` has the name of a part is its usage. By
    /// default all assets count together, and the expression has one series.
    pub fn within(mut self, scope: Scope, label: &str) -> Self {
        self.label = Some(label.to_owned());
        self.over(scope)
    }

    /// Counts the assets of `scope`, without a label. For one series for all assets, and for modelled usage.
    pub fn over(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the factor of the peak. The default is 1.
    pub fn headroom(mut self, headroom: f64) -> Self {
        self.headroom = headroom;
        self
    }

    /// Sets the time back to which the peak is looked for: 1 day to 30 days. The default is 7 days.
    pub fn back(mut self, back: Duration) -> Self {
        self.back = back;
        self
    }

    /// Leaves out the usage of these times.
    pub fn without(mut self, excluded: impl IntoIterator<Item = Excluded>) -> Self {
        self.excluded.extend(excluded);
        self
    }

    /// Returns the check whose usage is an expression, evaluated each 5 min.
    ///
    /// # Errors
    /// If the source does not accept the expression.
    pub fn measured(
        self,
        expression: &str,
        source: impl MetricSource,
    ) -> Result<Capacity, Problem> {
        let mut expression = Expression::new(expression);
        expression.labels.extend(self.label.clone());
        source.accepts(&expression)?;
        let usage = Measured::new(expression, source);
        Ok(Capacity::new(self, Usage::Measured(Box::new(usage))))
    }

    /// Returns the check whose usage is modelled: the sum of a field of the assets in each part of the scope.
    pub fn modelled(self, field: impl Into<AssetField>) -> Capacity {
        Capacity::new(self, Usage::Modelled(field.into()))
    }
}
