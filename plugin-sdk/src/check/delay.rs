//! Delays: reasons to wait, and when to look again. Checks of pushes and dispatch rules of steps both make them.

use std::time::Duration;

use jiff::Timestamp;
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::name::{CheckName, StackId};
use crate::claim::Key;

/// Time until what is delayed is looked at again, unless the delay says otherwise.
const AGAIN: Duration = Duration::from_secs(30);

/// One reason why a push, or a step of an execution, has to wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delay {
    /// Name of the check or dispatch rule that delays. The layer that put it into its stack stamps this name; a name
    /// written by the check itself is replaced.
    pub check: CheckName,
    /// Why it waits, in a line for operators.
    pub reason: String,
    /// The evidence for the delay, as JSON. `Null`: none. The field [`DEAD_END`] marks a dead end.
    pub evidence: Value,
    /// When it is looked at again.
    pub recheck: Recheck,
}

/// The field of [`Delay::evidence`] that marks a dead end: a wait that no push can end. Its value is text that names
/// the edit or the command that ends the wait.
pub const DEAD_END: &str = "dead_end";

/// The field of [`Delay::evidence`] that marks a wait for approvals of the change. Its value is the number of people who are missing.
pub const AWAITS_APPROVAL: &str = "awaits_approval";

impl Delay {
    /// The edit or command that ends this wait, if it is a dead end. `None`: a push of some asset at its present pin
    /// may end it. See [`DEAD_END`].
    pub fn dead_end(&self) -> Option<&str> {
        self.evidence.get(DEAD_END)?.as_str()
    }

    /// Whether approvals of the change end this wait. See [`AWAITS_APPROVAL`].
    pub fn awaits_approval(&self) -> bool {
        self.evidence.get(AWAITS_APPROVAL).is_some()
    }

    /// Makes a delay without evidence. The check's name is stamped later, by the layer of the check.
    pub fn new(reason: impl Into<String>, recheck: Recheck) -> Self {
        Self {
            check: CheckName::default(),
            reason: reason.into(),
            evidence: Value::Null,
            recheck,
        }
    }

    /// A delay without evidence, looked at again after 30 seconds.
    pub(crate) fn soon(reason: impl Into<String>) -> Self {
        Self::new(reason, Recheck::After(AGAIN))
    }

    /// Sets the name of the check that delays, for verdicts that no layer stamps.
    #[must_use]
    pub fn check(mut self, check: impl Into<CheckName>) -> Self {
        self.check = check.into();
        self
    }

    /// Sets the evidence of the delay, as JSON.
    #[must_use]
    pub fn because(mut self, evidence: impl Into<Value>) -> Self {
        self.evidence = evidence.into();
        self
    }

    /// A total order, so that a joined verdict does not depend on the order of its parts.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let rest = |delay: &Self| delay.evidence.to_string();
        (&self.check, &self.reason, &self.recheck)
            .cmp(&(&other.check, &other.reason, &other.recheck))
            .then_with(|| rest(self).cmp(&rest(other)))
            .then_with(|| self.check.stack().cmp(&other.check.stack()))
    }
}

/// When a delayed push or step is looked at again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recheck {
    /// At this wall-clock time, not earlier.
    At(Timestamp),
    /// After this much time has passed.
    After(Duration),
    /// As soon as this asset is settled.
    WhenSettled(AssetId),
    /// As soon as more is free under this key of a [`Claim::Keep`](crate::Claim::Keep).
    WhenFree(Key),
}

/// The delays of both, each once, in an order that does not depend on the order of the parts.
pub(crate) fn join_delays(mut delays: Vec<Delay>, others: Vec<Delay>) -> Vec<Delay> {
    delays.extend(others);
    delays.sort_by(Delay::order);
    delays.dedup_by(|one, other| one.order(other).is_eq());
    delays
}

/// Stamps `name` on each delay, except delays whose name is registered in `stack`. A name that begins with `own` and a slash names a
/// part of the check, and stays. Any other name that a delay had is put before the reason.
pub(crate) fn stamp_delays(
    delays: &mut [Delay],
    name: &CheckName,
    own: &CheckName,
    stack: Option<StackId>,
) {
    let registered = |name: &CheckName| stack.is_some() && name.stack() == stack;
    for delay in delays.iter_mut().filter(|delay| !registered(&delay.check)) {
        if let Some(part) = name.part(own, &delay.check) {
            delay.check = part;
            continue;
        }
        let written = std::mem::replace(&mut delay.check, name.clone());
        if written != *name && written != *own && !written.as_str().is_empty() {
            delay.reason = format!("{written}: {}", delay.reason);
        }
    }
    delays.sort_by(Delay::order);
}
