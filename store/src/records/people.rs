//! Commands of operators: pauses, approvals, overrides. Each has who, why and when. None is ever deleted: used or ended
//! ones are marked.

use jiff::Timestamp;
use plugin_sdk::{By, CheckName, FencingToken};
use prodspec_model::{AssetId, Digest, IncarnationNo, TypeName, tolerant};
use serde::{Deserialize, Deserializer, Serialize};

use crate::record::Record;

/// The assets that a command is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scope {
    /// One asset, named by its id.
    Asset(AssetId),
    /// All assets of a type.
    Type(TypeName),
    /// All assets of the partition.
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

/// A pause: no push starts in its scope. Recorded under its scope; the last pause of each scope is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The assets that are paused. A scope that this program version does not know is the whole partition.
    #[serde(deserialize_with = "scope")]
    pub scope: Scope,
    /// The operator who paused them, and the reason.
    #[serde(flatten)]
    pub by: By,
    /// Time at which the command was given.
    pub at: Timestamp,
    /// Time at which the pause ends by itself. `None` means that it lasts until an operator resumes it.
    pub until: Option<Timestamp>,
    /// The operator who ended it, and when. `None` means that no operator has ended it.
    #[serde(default)]
    pub resumed: Option<Ended>,
}

fn scope<'de, D: Deserializer<'de>>(from: D) -> Result<Scope, D::Error> {
    tolerant::known_or(from, |_| Scope::Partition)
}

impl Record for Pause {
    const KIND: &'static str = "pause";
    const SAME: &'static [&'static str] = &["at"];
}

impl Pause {
    /// Whether the pause is in force at `now`.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.resumed.is_none() && self.until.is_none_or(|until| now < until)
    }
}

/// The end of a pause, of a stop, or of a command that was repeated, by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The operator who ended it, and the reason.
    #[serde(flatten)]
    pub by: By,
    /// Time at which the command was given.
    pub at: Timestamp,
}

/// An approval of a change by a person: a destructive one is allowed, for one push, and a policy that asks for people counts one.
/// Recorded under asset, change, time and person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Asset whose change is approved.
    pub asset: AssetId,
    /// Digest of the approved change.
    pub change: Digest,
    /// The operator who approved it, and the reason.
    #[serde(flatten)]
    pub by: By,
    /// Time at which the command was given.
    pub at: Timestamp,
    /// Time at which the approval expires if it is unused.
    pub until: Timestamp,
    /// The push that used the approval up. `None` means that it is unused.
    #[serde(default)]
    pub used: Option<Used>,
    /// The operator who repeated the command before it was used, and when: the repeated one is in force instead.
    #[serde(default)]
    pub replaced: Option<Ended>,
}

impl Record for Approval {
    const KIND: &'static str = "approval";
}

/// An override: one named check does not delay one change of an asset, for one push. Recorded under asset, change,
/// check and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// Asset whose push the check delays.
    pub asset: AssetId,
    /// Digest of the change that is let through.
    pub change: Digest,
    /// Name of the check that is overridden.
    pub check: CheckName,
    /// The operator who overrides it, and the reason.
    #[serde(flatten)]
    pub by: By,
    /// Time at which the command was given.
    pub at: Timestamp,
    /// Time at which the override expires if it is unused.
    pub until: Timestamp,
    /// The push that used the override up. `None` means that it is unused.
    #[serde(default)]
    pub used: Option<Used>,
    /// The operator who repeated the command before it was used, and when: the repeated one is in force instead.
    #[serde(default)]
    pub replaced: Option<Ended>,
}

impl Record for Override {
    const KIND: &'static str = "override";
}

/// The push that used up an approval or an override.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Time at which the push was admitted.
    pub at: Timestamp,
    /// Number of the incarnation that was pushed.
    pub incarnation: IncarnationNo,
    /// Fencing token of the owner that admitted the push.
    pub token: FencingToken,
}

impl Approval {
    /// Name under which the approval is recorded. Two people may approve at the same time.
    pub fn name(&self) -> String {
        let who = Digest::of(self.by.who.as_bytes()).short();
        format!("{}/{}/{}/{who}", self.asset, self.change, self.at)
    }

    /// Whether the approval can let a push through at `now`: it is unused, not replaced, and has not expired.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.used.is_none() && self.replaced.is_none() && now < self.until
    }
}

impl Override {
    /// Name under which the override is recorded.
    pub fn name(&self) -> String {
        format!("{}/{}/{}/{}", self.asset, self.change, self.check, self.at)
    }

    /// Whether the override can let a push through at `now`: it is unused, not replaced, and has not expired.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.used.is_none() && self.replaced.is_none() && now < self.until
    }
}
