//! Changes of editable sources: recorded before they are made, so that each is made once.

use jiff::Timestamp;
use plugin_sdk::{Holder, SourceChange};
use prodspec_model::{AssetId, Revision, SourceName};
use serde::{Deserialize, Serialize};

use crate::Record;

/// A change of a source, recorded under its id before it is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// The source that is changed.
    pub source: SourceName,
    /// The change itself, as it is proposed and committed.
    #[serde(flatten)]
    pub change: SourceChange,
    /// The program that holds the changed fields afterwards. `None`: no program holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// The assets that the next incarnation changes because of it, as it was tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assets: Vec<AssetId>,
    /// The revision of the source on which the change is made.
    pub before: Revision,
    /// The revision of the source after it.
    pub after: Revision,
    /// Time at which it was made for sure. `None`: it may have been made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Timestamp>,
}

impl Record for ChangeRecord {
    const KIND: &'static str = "change";
}
