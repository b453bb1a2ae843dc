//! What a rollout is, as data: durable, and what people are shown.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use plane_store::{Record, records::StandingPin};
use plugin_sdk::{Health, RolloutId};
use prodspec_model::{AssetId, Digest, IncarnationNo};
use serde::{Deserialize, Serialize};

pub use plane_store::records::By;

/// How many entries of a rollout's history are kept.
const HISTORY: usize = 100;

/// The longest text of an entry, of who and of why, in bytes.
const TEXT: usize = 1000;

/// How many failed contents of an asset are remembered.
const QUARANTINED: usize = 16;

/// One rollout of one policy group. Small: what each target went through is in [`TargetRecord`]s.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// Which one of its group.
    pub id: RolloutId,
    /// The policy asset that names the group.
    pub policy: AssetId,
    /// What was. `None`: the first turnup.
    pub from: Option<IncarnationNo>,
    /// What is new.
    pub to: IncarnationNo,
    /// How it is.
    pub state: State,
    /// When it started.
    pub started_at: Timestamp,
    /// When its first pin moved, by the wall clock of its owner then.
    #[serde(default)]
    pub moved_at: Option<Timestamp>,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// The last selection that drew others along, in words: how many were wanted, how many moved, and what tied them.
    #[serde(default)]
    pub drawn: Option<String>,
    /// What it is at, as its policy calls it.
    pub stage: Option<String>,
    /// A person let everything that had settled by then go on: so many settlings of targets, counted as they were written
    /// down. Clocks of owners differ; their order does not.
    pub promoted: Option<u64>,
    /// The newest verdict, with the worst of its findings and their evidence.
    pub health: Option<Health>,
    /// The verdicts that differed from the one before them, and the one that the rollout was completed with, oldest first;
    /// the newest eight.
    pub verdicts: Vec<Health>,
    /// For how long its owners have watched it in all, when this was written. What takes time is measured by it: it goes
    /// on where the owner before left off, whatever the clocks of both show.
    #[serde(default)]
    pub watched: Duration,
    /// For how long health has been unknown, if it is.
    #[serde(default)]
    pub unknown: Option<Lasting>,
    /// For how long nothing of it has moved or settled, though it waited neither for a time nor for a person.
    #[serde(default)]
    pub idle: Option<Lasting>,
    /// What happened, oldest first; the newest hundred. What people said is kept longest.
    pub history: Vec<Entry>,
}

/// Something that lasts, and is flagged once when it lasts too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lasting {
    /// Since when, as [`Rollout::watched`] counts.
    pub since: Duration,
    /// Whether that was said.
    pub flagged: bool,
}

/// How a rollout is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum State {
    /// It goes on as its policy and health allow.
    Running,
    /// A person holds it: nothing more is selected, health is still watched.
    Paused,
    /// It failed, or a person aborted it: nothing moves before somebody says so or newer intent is there.
    Stopped {
        /// Why.
        why: String,
    },
    /// Everything goes back to what was.
    RollingBack {
        /// Why.
        why: String,
    },
    /// All of it is what is new.
    Completed,
    /// All of it is what was.
    RolledBack {
        /// Why.
        why: String,
    },
    /// A newer one took over.
    Superseded {
        /// That one.
        by: RolloutId,
    },
}

impl State {
    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::RolledBack { .. } | Self::Superseded { .. }
        )
    }

    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped { .. } => "stopped",
            Self::RollingBack { .. } => "rolling back",
            Self::Completed => "completed",
            Self::RolledBack { .. } => "rolled back",
            Self::Superseded { .. } => "superseded",
        }
    }

    /// Cuts a long reason.
    pub(crate) fn shorten(&mut self) {
        if let Self::Stopped { why } | Self::RollingBack { why } | Self::RolledBack { why } = self {
            cut(why, TEXT);
        }
    }

    /// Why it is so, where there is a reason.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Stopped { why } | Self::RollingBack { why } | Self::RolledBack { why } => {
                Some(why)
            }
            _ => None,
        }
    }
}

impl fmt::Display for State {
    /// Its word, and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.why().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// Something that happened to a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What, for people.
    pub what: String,
    /// Who said so, where somebody did.
    pub by: Option<By>,
}

impl Rollout {
    /// Adds to the history, and forgets the oldest beyond a hundred; what people said only once that is half of it. Longer
    /// texts are cut.
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

    /// The name of its record.
    pub(crate) fn name(policy: &AssetId, id: RolloutId) -> String {
        format!("{policy}/{:010}", id.0)
    }
}

impl Record for Rollout {
    const KIND: &'static str = "rollout";
}

/// The name of what a group remembers of an asset: another group may remember something of it too.
pub(crate) fn name(policy: &AssetId, asset: &AssetId) -> String {
    format!("{policy} {asset}")
}

/// The asset of which a group remembers something by this name.
pub(crate) fn named(policy: &AssetId, name: &str) -> Option<AssetId> {
    let asset = name.strip_prefix(policy.as_str())?.strip_prefix(' ')?;
    AssetId::new(asset).ok()
}

/// What a target went through. Named by group and asset; there for as long as the rollout holds its pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The group whose rollout holds it.
    pub policy: AssetId,
    /// Which rollout.
    pub rollout: RolloutId,
    /// When its pin moved, as [`Rollout::watched`] counts; like all times here.
    pub moved_at: Duration,
    /// When it was first in sync there.
    pub updated_at: Option<Duration>,
    /// Which settling of its rollout its last one was, counted from one. Zero: none yet.
    #[serde(default)]
    pub order: u64,
    /// Its pin before.
    pub was: StandingPin,
    /// When its pin moved back.
    pub back_at: Option<Duration>,
}

impl Record for TargetRecord {
    const KIND: &'static str = "target";
}

/// Contents that failed: not rolled out again before another one has arrived or a person says so. Named by group
/// and asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The group.
    pub policy: AssetId,
    /// Which contents, the newest sixteen, and in which rollouts.
    pub failed: Vec<Failed>,
}

/// A content that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The rollout that failed.
    pub rollout: RolloutId,
    /// The content.
    pub content: Digest,
}

impl Quarantined {
    /// Nothing, yet.
    pub(crate) fn of(policy: AssetId) -> Self {
        Self {
            policy,
            failed: Vec::new(),
        }
    }

    /// `content` failed too.
    pub(crate) fn add(&mut self, rollout: RolloutId, content: Digest) {
        self.failed.retain(|failed| failed.content != content);
        self.failed.push(Failed { rollout, content });
        if self.failed.len() > QUARANTINED {
            self.failed.remove(0);
        }
    }

    /// Whether `content` failed in `rollout`.
    pub(crate) fn failed_in(&self, rollout: RolloutId, content: Digest) -> bool {
        let failed = Failed { rollout, content };
        self.failed.contains(&failed)
    }

    /// Whether `content` failed, in another rollout than `own`.
    pub(crate) fn has(&self, content: Digest, own: Option<RolloutId>) -> bool {
        let mut failed = self.failed.iter();
        failed.any(|failed| failed.content == content && Some(failed.rollout) != own)
    }
}

impl Record for Quarantined {
    const KIND: &'static str = "quarantine";
}

/// Cuts a text to `most` bytes, and shows that it did. What terminals would take for more than text is blanked.
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
