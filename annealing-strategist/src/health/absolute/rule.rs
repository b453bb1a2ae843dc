//! Builders for rules: what is measured, its bound, and the options.

use std::{sync::Arc, time::Duration};

use plugin_sdk::SampleSource;

use super::{
    Absolute,
    evidence::{Kind, Question},
};
use crate::health::{
    bound::Bound,
    scope::{Scope, scope_setters},
};

/// A measured quantity that has no bound yet.
#[derive(Debug, Clone)]
#[must_use = "give it a bound, and a source to read"]
pub struct Measure {
    name: Arc<str>,
    kind: Kind,
}

impl Measure {
    pub(super) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
        }
    }

    /// Sets an upper bound: larger values are unhealthy.
    pub fn at_most(self, most: f64) -> Rule {
        self.bound(Bound::AtMost(most))
    }

    /// Sets a lower bound: smaller values are unhealthy.
    pub fn at_least(self, least: f64) -> Rule {
        self.bound(Bound::AtLeast(least))
    }

    fn bound(self, bound: Bound) -> Rule {
        Rule {
            name: self.name,
            question: Question {
                kind: self.kind,
                bound,
                over: Duration::from_secs(60),
                min_samples: 5,
                min_events: 1,
            },
            scope: Scope::default(),
        }
    }
}

/// A measured quantity with its bound. By default the window is 60 s long and needs 5 samples and 1 event.
#[derive(Debug, Clone)]
#[must_use = "give it a source to read"]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) question: Question,
    pub(super) scope: Scope,
}

impl Rule {
    /// Sets the length of the window, which ends at the time of the check. Default 60 s.
    pub fn over(mut self, window: Duration) -> Self {
        self.question.over = window;
        self
    }

    /// Sets the minimum number of samples, counted in the longest series; with fewer the verdict is unknown. The
    /// source decides how often samples are taken. Default 5.
    pub fn min_samples(mut self, least: usize) -> Self {
        self.question.min_samples = least;
        self
    }

    /// For ratios: sets the minimum number of events in the whole; with fewer the verdict is unknown. One error in
    /// three requests is not a meaningful share. Default 1.
    pub fn min_events(mut self, least: u64) -> Self {
        self.question.min_events = least;
        self
    }

    scope_setters!();

    /// Returns the validator that applies this rule and reads `source`.
    pub fn reading(self, source: Arc<dyn SampleSource>) -> Absolute {
        Absolute::new(self, source)
    }
}
