//! What people said: pauses, approvals, overrides. Each with who, why and when. None is ever deleted: what is used up or
//! over is marked as that.

use jiff::Timestamp;
use plugin_sdk::{CheckName, FencingToken};
use prodspec_model::{AssetId, Digest, IncarnationNo, TypeName};
use serde::{Deserialize, Serialize};

use crate::record::Record;

/// Who says something, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct By {
    /// Who says it.
    pub who: String,
    /// The reason, for those who read it later.
    pub why: String,
}

impl By {
    /// `who` says it because of `why`.
    ///
    /// ```
    /// let by = plane_store::records::By::new("ada", "the migration is done");
    /// assert_eq!(by.to_string(), "ada: the migration is done");
    /// ```
    pub fn new(who: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            who: who.into(),
            why: why.into(),
        }
    }
}

impl std::fmt::Display for By {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

/// What a person's word is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// One asset.
    Asset(AssetId),
    /// All assets of a type.
    Type(TypeName),
    /// The whole partition.
    Partition,
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asset(asset) => write!(f, "asset/{asset}"),
            Self::Type(name) => write!(f, "type/{name}"),
            Self::Partition => f.write_str("partition"),
        }
    }
}

/// No push starts in a scope. Named by the scope: the last pause of each is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// What is paused.
    pub scope: Scope,
    /// Who paused it.
    #[serde(flatten)]
    pub by: By,
    /// When that was said.
    pub at: Timestamp,
    /// When it ends by itself; `None`: it lasts until a person resumes it.
    pub until: Option<Timestamp>,
    /// Who ended it, and when.
    #[serde(default)]
    pub resumed: Option<Ended>,
}

impl Record for Pause {
    const KIND: &'static str = "pause";
}

impl Pause {
    /// Whether it holds at a time.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.resumed.is_none() && self.until.is_none_or(|until| now < until)
    }
}

/// The end of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Who ended it.
    #[serde(flatten)]
    pub by: By,
    /// When that was said.
    pub at: Timestamp,
}

/// One change of an asset may destroy, in one push. Named by asset, change and the time at which it was said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The asset that may lose something.
    pub asset: AssetId,
    /// The digest of the change that was looked at.
    pub change: Digest,
    /// Who approved it.
    #[serde(flatten)]
    pub by: By,
    /// When that was said.
    pub at: Timestamp,
    /// When it expires if it is not used by then.
    pub until: Timestamp,
    /// The push that used it up.
    #[serde(default)]
    pub used: Option<Used>,
}

impl Record for Approval {
    const KIND: &'static str = "approval";
}

/// One named check does not delay one change of an asset, in one push. Named by asset, change, check and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The asset that is delayed.
    pub asset: AssetId,
    /// The digest of the change that was looked at.
    pub change: Digest,
    /// The check that is overridden.
    pub check: CheckName,
    /// Who overrides it.
    #[serde(flatten)]
    pub by: By,
    /// When that was said.
    pub at: Timestamp,
    /// When it expires if it is not used by then.
    pub until: Timestamp,
    /// The push that used it up.
    #[serde(default)]
    pub used: Option<Used>,
}

impl Record for Override {
    const KIND: &'static str = "override";
}

/// The push that used a word up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// When the push was admitted.
    pub at: Timestamp,
    /// The incarnation that was pushed.
    pub incarnation: IncarnationNo,
    /// The ownership under which it was admitted.
    pub token: FencingToken,
}

impl Approval {
    /// The name of its record.
    pub fn name(&self) -> String {
        format!("{}/{}/{}", self.asset, self.change, self.at)
    }

    /// Whether it lets a push through at a time.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.used.is_none() && now < self.until
    }
}

impl Override {
    /// The name of its record.
    pub fn name(&self) -> String {
        format!("{}/{}/{}/{}", self.asset, self.change, self.check, self.at)
    }

    /// Whether it lets a push through at a time.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.used.is_none() && now < self.until
    }
}
