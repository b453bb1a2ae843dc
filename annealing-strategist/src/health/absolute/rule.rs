//! How a rule is written: what is measured, the bound that it needs, and what else may be said.

use std::{sync::Arc, time::Duration};

use plugin_sdk::MetricSource;

use super::{
    Absolute,
    evidence::{Bound, Kind, Question},
};

/// Something measured, which has no bound yet.
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

    /// More is unhealthy.
    pub fn at_most(self, most: f64) -> Rule {
        self.bound(Bound::AtMost(most))
    }

    /// Less is unhealthy.
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
            only: None,
            neighbours: true,
            under_way: true,
        }
    }
}

/// A measure with its bound. By default over 60 s, with at least 5 samples and 1 event.
#[derive(Debug, Clone)]
#[must_use = "give it a source to read"]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) question: Question,
    pub(super) only: Option<Arc<[String]>>,
    pub(super) neighbours: bool,
    pub(super) under_way: bool,
}

impl Rule {
    /// The length of the window, which ends when it is asked.
    pub fn over(mut self, window: Duration) -> Self {
        self.question.over = window;
        self
    }

    /// Fewer samples of every series say nothing. How fast they come is up to the source.
    pub fn min_samples(mut self, least: usize) -> Self {
        self.question.min_samples = least;
        self
    }

    /// Of a ratio: fewer events in the whole say nothing. One error in three requests is no share yet.
    pub fn min_events(mut self, least: u64) -> Self {
        self.question.min_events = least;
        self
    }

    /// Only assets of these types are asked about, such as `shakespeare.v1.FrontendJob`: the others do not have the
    /// metric, and would be unknown for ever.
    pub fn only<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.only = Some(types.into_iter().map(Into::into).collect());
        self
    }

    /// Neighbours are not asked about.
    pub fn without_neighbours(mut self) -> Self {
        self.neighbours = false;
        self
    }

    /// What is under way is not asked about.
    pub fn settled_only(mut self) -> Self {
        self.under_way = false;
        self
    }

    /// The validator that reads `source`.
    pub fn reading(self, source: Arc<dyn MetricSource>) -> Absolute {
        Absolute::new(self, source)
    }
}
