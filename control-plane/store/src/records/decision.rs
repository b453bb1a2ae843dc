//! Decisions: what an iteration did and why, for people and for audits.

use jiff::Timestamp;
use plugin_sdk::{Cause, Delay, FencingToken};
use prodspec_model::{Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// Why an asset was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Trigger {
    /// A newer incarnation changed it.
    IntentChanged,
    /// Its pin moved.
    PinMoved,
    /// A wait after a failure is over.
    RetryDue,
    /// It asked to be looked at again.
    LookAgain,
    /// Its turn in the scan of everything.
    DriftScan,
    /// What it waited for has settled.
    DependencySettled,
    /// A person asked.
    Asked,
}

/// One thing that an iteration did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// Why it looked.
    pub trigger: Trigger,
    /// Why it would push.
    pub cause: Cause,
    /// At which incarnation.
    pub incarnation: IncarnationNo,
    /// Under which ownership.
    pub token: FencingToken,
    /// The change in question.
    pub change: Option<Digest>,
    /// The change in one line.
    pub summary: String,
    /// What was decided.
    pub outcome: Outcome,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Admitted: the push may start.
    Admitted,
    /// The push is done.
    Pushed,
    /// It failed, or its outcome is unknown.
    Failed(String),
    /// It waits, for these reasons.
    Delayed(Vec<Delay>),
    /// It waits for something other than a check.
    Held(String),
}

/// An asset's last decisions, oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decisions(pub Vec<Decision>);

impl Decisions {
    /// How many are kept.
    pub const KEPT: usize = 16;

    /// Adds one and forgets the oldest beyond [`Decisions::KEPT`].
    pub fn push(&mut self, decision: Decision) {
        self.0.push(decision);
        if self.0.len() > Self::KEPT {
            self.0.drain(..self.0.len() - Self::KEPT);
        }
    }
}

impl Record for Decisions {
    const KIND: &'static str = "decisions";
}
