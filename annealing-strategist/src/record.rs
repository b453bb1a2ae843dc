//! The stored data of a rollout. Operators are shown the same data.

use std::{fmt, time::Duration};

use control_plane_store::Record;
use jiff::Timestamp;
use plugin_sdk::{Health, Pin, RolloutId};
use prodspec_model::{AssetId, Digest, IncarnationNo, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

pub use plugin_sdk::By;

/// Maximum number of entries in the history of a rollout.
const HISTORY: usize = 100;

/// Number of rollouts of a group that are stored. Older records are deleted.
const KEPT: u64 = 32;

/// Maximum length of an entry's text, of its author and of its reason, in bytes.
pub(crate) const TEXT: usize = 1000;

/// Maximum number of failed contents remembered per asset.
const QUARANTINED: usize = 16;

/// One rollout of one policy group. It is small; the data about each target is in [`TargetRecord`]s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// Number of this rollout within its policy group.
    pub id: RolloutId,
    /// The policy asset that names the policy group.
    pub policy: AssetId,
    /// The incarnation that the group had before. `None`: this is the first turnup.
    pub from: Option<IncarnationNo>,
    /// The incarnation that is rolled out.
    pub to: IncarnationNo,
    /// The present state of the rollout. One that this program version does not know is a stop.
    #[serde(deserialize_with = "state")]
    pub state: State,
    /// Time at which the rollout started.
    pub started_at: Timestamp,
    /// Time at which the first pin moved, by the owner's wall clock. `None`: no pin has moved.
    #[serde(default)]
    pub moved_at: Option<Timestamp>,
    /// Time from which evidence of health counts, by the owner's wall clock: another change of the same assets was taken back
    /// then. `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence_from: Option<Timestamp>,
    /// Time at which the rollout ended. `None`: it is still live.
    pub ended_at: Option<Timestamp>,
    /// Description of the last step that moved targets because of others: how many targets were selected or under way
    /// and took the others along, how many move with them in all, and which of them edges or checks tie. `None`: there
    /// was no such step.
    #[serde(default)]
    pub drawn: Option<String>,
    /// Name of the present stage, as the policy calls it. `None`: the policy names no stage.
    pub stage: Option<String>,
    /// Number of target settlings that an operator's promotion covers: targets that settled by then may pass their
    /// gates. Settlings are counted in the order in which they were stored, because clocks of different owners
    /// differ. `None`: nothing was promoted.
    pub promoted: Option<u64>,
    /// The newest verdict, with its worst findings and their evidence. `None`: health has not been checked since the
    /// rollout began, was retried, or was taken over.
    pub health: Option<Health>,
    /// The newest eight verdicts that differ from their predecessor, and the verdict with which the rollout
    /// completed. Oldest first.
    pub verdicts: Vec<Health>,
    /// Total time for which owners had watched this rollout when the record was written. Bakes and deadlines are
    /// measured by it, so they continue after a takeover even if the clocks of the two owners differ.
    #[serde(default)]
    pub watched: Duration,
    /// Set while health is unknown: since when, and whether it was flagged. `None`: health is known, or was not
    /// checked.
    #[serde(default)]
    pub unknown: Option<Lasting>,
    /// Set while no target moves or settles although the rollout waits neither for a time nor for an operator.
    /// `None`: the rollout makes progress.
    #[serde(default)]
    pub idle: Option<Lasting>,
    /// The policy asset, as canonical JSON, if the rolled out edit removes it together with every reference to it: the
    /// rollout goes by it to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_policy: Option<String>,
    /// Events of the rollout, oldest first, at most 100. Commands of operators are kept longest.
    pub history: Vec<Entry>,
}

fn state<'de, D: Deserializer<'de>>(from: D) -> Result<State, D::Error> {
    tolerant::known_or(from, |newer| State::Stopped {
        why: format!(
            "a newer program version left the rollout in the state {newer}, which this version does not know; start the newer version, or abort the rollout"
        ),
    })
}

/// A condition that lasts. It is flagged once when it lasts too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lasting {
    /// Start of the condition, as a value of [`Rollout::watched`].
    pub since: Duration,
    /// Whether the condition was already flagged.
    pub flagged: bool,
}

/// The state of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// The rollout advances as its policy and health allow.
    Running,
    /// An operator paused the rollout: no more targets are selected, but health is still checked.
    Paused,
    /// The rollout failed or an operator aborted it. Nothing moves until an operator gives a command or newer intent
    /// arrives.
    Stopped {
        /// Reason for the stop, for operators.
        why: String,
    },
    /// All targets that moved are going back to their previous content.
    RollingBack {
        /// Reason for the rollback, for operators.
        why: String,
        /// Whether an operator paused it: no more targets are sent back.
        #[serde(default)]
        paused: bool,
    },
    /// All targets have the new content.
    Completed,
    /// All targets have their previous content again.
    RolledBack {
        /// Reason for the rollback, for operators.
        why: String,
    },
    /// A newer rollout took over the targets.
    Superseded {
        /// The newer rollout of the same group.
        by: RolloutId,
    },
}

impl State {
    /// Whether the rollout is over: completed, rolled back or superseded.
    pub fn has_ended(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::RolledBack { .. } | Self::Superseded { .. }
        )
    }

    /// The name of the state, for operators.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped { .. } => "stopped",
            Self::RollingBack { paused: false, .. } => "rolling back",
            Self::RollingBack { paused: true, .. } => "paused on the way back",
            Self::Completed => "completed",
            Self::RolledBack { .. } => "rolled back",
            Self::Superseded { .. } => "superseded",
        }
    }

    /// The state of a rollout that begins to roll back for this reason.
    pub(crate) fn rolling_back(why: String) -> Self {
        let paused = false;
        Self::RollingBack { why, paused }
    }

    /// The state after an operator has paused a rollout in this state, or resumed it. `None`: it cannot be.
    pub(crate) fn paused(&self, pause: bool) -> Option<Self> {
        match self {
            Self::Running if pause => Some(Self::Paused),
            Self::Paused if !pause => Some(Self::Running),
            Self::RollingBack { why, paused } if *paused != pause => Some(Self::RollingBack {
                why: why.clone(),
                paused: pause,
            }),
            _ => None,
        }
    }

    /// Cuts the reason to the maximum length of a text.
    pub(crate) fn shorten(&mut self) {
        if let Self::Stopped { why } | Self::RollingBack { why, .. } | Self::RolledBack { why } =
            self
        {
            cut(why, TEXT);
        }
    }

    /// The reason for this state. `None`: states such as `Running` have no reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Stopped { why } | Self::RollingBack { why, .. } | Self::RolledBack { why } => {
                Some(why)
            }
            _ => None,
        }
    }
}

impl fmt::Display for State {
    /// Writes the name of the state, and the reason if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.why().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// One event in the history of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Time at which the event happened.
    pub at: Timestamp,
    /// Description of the event, for operators.
    pub what: String,
    /// The operator who caused the event, and the reason given. `None`: the strategist caused it.
    pub by: Option<By>,
}

impl Rollout {
    /// Creates a rollout that starts at `at` and has moved nothing.
    pub(crate) fn new(
        id: RolloutId,
        policy: AssetId,
        from: Option<IncarnationNo>,
        to: IncarnationNo,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            policy,
            from,
            to,
            state: State::Running,
            started_at: at,
            moved_at: None,
            evidence_from: None,
            drawn: None,
            ended_at: None,
            stage: None,
            promoted: None,
            health: None,
            verdicts: Vec::new(),
            watched: Duration::ZERO,
            unknown: None,
            idle: None,
            removed_policy: None,
            history: Vec::new(),
        }
    }

    /// Adds an entry to the history. Beyond 100 entries the oldest one is removed; entries of operators are removed
    /// only while they are more than half of the history. Long texts are cut.
    pub(crate) fn note(&mut self, at: Timestamp, what: impl Into<String>, mut by: Option<By>) {
        let mut what = what.into();
        cut(&mut what, TEXT);
        if let Some(by) = &mut by {
            cut(&mut by.who, TEXT);
            cut(&mut by.why, TEXT);
        }
        self.history.push(Entry { at, what, by });
        if self.history.len() > HISTORY {
            let said = self.history.iter().filter(|entry| entry.by.is_some());
            let any = said.count() > HISTORY / 2;
            let mut all = self.history.iter();
            let oldest = all.position(|entry| any || entry.by.is_none());
            self.history.remove(oldest.unwrap_or(0));
        }
    }

    /// The rollout whose record is deleted when `id` begins. `None`: there are not that many.
    pub(crate) fn forgotten_for(id: RolloutId) -> Option<RolloutId> {
        let old = id.0.checked_sub(KEPT).filter(|old| *old > 0);
        old.map(RolloutId)
    }

    /// The name under which the record is stored.
    pub(crate) fn name(policy: &AssetId, id: RolloutId) -> String {
        format!("{policy}/{:010}", id.0)
    }
}

impl Record for Rollout {
    const KIND: &'static str = "rollout";
}

/// The name under which a group stores a record about an asset. It contains the group because two groups may store
/// records about the same asset.
pub(crate) fn name(policy: &AssetId, asset: &AssetId) -> String {
    format!("{policy} {asset}")
}

/// The asset that a stored record's `name` refers to. `None`: the name is not one of this group.
pub(crate) fn named(policy: &AssetId, name: &str) -> Option<AssetId> {
    let asset = name.strip_prefix(policy.as_str())?.strip_prefix(' ')?;
    AssetId::new(asset).ok()
}

/// The data that a rollout stores about one target. Named by group and asset; kept while the rollout holds the
/// target's pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The policy asset of the group whose rollout holds the target.
    pub policy: AssetId,
    /// The rollout that moved the target.
    pub rollout: RolloutId,
    /// The incarnation at which the target is pinned, if that is not the one of the rollout: the target came later, or was
    /// turned down later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<IncarnationNo>,
    /// Time at which the pin moved, as a value of [`Rollout::watched`]. So are the other times of this record.
    pub moved_at: Duration,
    /// Time at which the target last settled at the new pin. `None`: it has not settled.
    pub updated_at: Option<Duration>,
    /// Number of this target's last settling among all settlings of the rollout, counted from one. Zero: it has not
    /// settled.
    #[serde(default)]
    pub order: u64,
    /// The pin that the target had before the rollout moved it.
    pub was: Pin,
    /// Time at which the pin moved back. `None`: it has not moved back.
    pub back_at: Option<Duration>,
}

impl Record for TargetRecord {
    const KIND: &'static str = "target";
    const SAME: &'static [&'static str] = &["rollout"];
}

/// The failed contents of one asset, and those that waited in a rollout that failed. They are not rolled out again until
/// other content arrives or an operator retries. Contents that only waited are also released when a rollout completes
/// that fixes all that failed. Named by group and asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The policy asset of the group in which the contents failed.
    pub policy: AssetId,
    /// The newest 16 failed contents, oldest first.
    pub failed: Vec<Failed>,
}

/// One content that failed in a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The rollout in which the content failed.
    pub rollout: RolloutId,
    /// The incarnation that was rolled out.
    #[serde(default)]
    pub to: IncarnationNo,
    /// Digest of the content that failed.
    pub content: Digest,
    /// Whether the rollout had moved the asset, or one that it is tied to by an edge. If not, the content only waited.
    pub reached: bool,
}

impl Quarantined {
    /// Creates an empty record for the group of `policy`.
    pub(crate) fn of(policy: AssetId) -> Self {
        Self {
            policy,
            failed: Vec::new(),
        }
    }

    /// Adds a content that failed. Once reached, it never counts as one that only waited.
    pub(crate) fn add(&mut self, mut failed: Failed) {
        let before = self.find(failed.content, None);
        failed.reached |= before.is_some_and(|before| before.reached);
        self.failed.retain(|other| other.content != failed.content);
        self.failed.push(failed);
        if self.failed.len() > QUARANTINED {
            self.failed.remove(0);
        }
    }

    /// Whether `content` is recorded as failed in `rollout`.
    pub(crate) fn failed_in(&self, rollout: RolloutId, content: Digest) -> bool {
        let mut all = self.failed.iter();
        all.any(|failed| failed.rollout == rollout && failed.content == content)
    }

    /// Returns the rollouts that had reached the asset when they failed.
    pub(crate) fn reached_in(&self) -> impl Iterator<Item = RolloutId> {
        let reached = self.failed.iter().filter(|failed| failed.reached);
        reached.map(|failed| failed.rollout)
    }

    /// Returns the record of `content` if it failed in a rollout other than `own`.
    pub(crate) fn find(&self, content: Digest, own: Option<RolloutId>) -> Option<&Failed> {
        let mut failed = self.failed.iter();
        failed.find(|failed| failed.content == content && Some(failed.rollout) != own)
    }

    /// Whether `content` is recorded as failed in a rollout other than `own`.
    pub(crate) fn has(&self, content: Digest, own: Option<RolloutId>) -> bool {
        self.find(content, own).is_some()
    }
}

impl Record for Quarantined {
    const KIND: &'static str = "quarantine";
}

/// Cuts a text to `most` bytes and marks the cut. Control characters are replaced by spaces.
pub(crate) fn cut(text: &mut String, most: usize) {
    const CUT: char = '\u{2026}';
    if text.contains(char::is_control) {
        *text = text.replace(char::is_control, " ");
    }
    if text.len() <= most {
        return;
    }
    let fits = |at: &usize| text.is_char_boundary(*at) && at + CUT.len_utf8() <= most;
    let end = (0..=most).rev().find(fits).unwrap_or(0);
    text.truncate(end);
    text.push(CUT);
}

#[cfg(test)]
mod tests;
