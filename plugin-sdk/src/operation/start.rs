//! Starts of workflows, pauses of assets and notes: parts of answers beside outputs and edits.

use std::{collections::BTreeMap, fmt, sync::Arc};

use prodspec_model::{Asset, AssetId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Limit, OverLimit};
use crate::{
    error::PluginError,
    problem::Severity,
    workflow::{InvalidName, WorkflowName},
};

/// The start of an execution of a workflow, as it is asked for.
///
/// ```
/// use plugin_sdk::operation::Start;
///
/// let start = Start::of("season")
///     .key("season/2027")
///     .label("app", "shop")
///     .input(serde_json::json!({ "works": ["hamlet", "lear"] }));
/// start.check()?;
/// # Ok::<(), plugin_sdk::operation::InvalidStart>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Start {
    /// Name of the workflow to execute.
    pub workflow: WorkflowName,
    /// The key of the start: the same key means the same execution, however often it is asked for. `None`: every start is
    /// a new execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// The input of the execution, as JSON, at most 64 KiB.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// Labels by which dispatch layers tell executions apart, such as `app`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Arc<BTreeMap<String, String>>,
}

/// A start that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidStart {
    /// The name of the workflow has a wrong form.
    #[error(transparent)]
    Workflow(#[from] InvalidName),
    /// The key is empty, or has control characters.
    #[error("the key of the start is empty or has control characters; use a short readable text")]
    Key,
    /// A part of the start is over its limit.
    #[error(transparent)]
    Limit(#[from] OverLimit),
}

impl Start {
    /// A start of `workflow`, without key, input and labels.
    pub fn of(workflow: impl Into<WorkflowName>) -> Self {
        Self {
            workflow: workflow.into(),
            key: None,
            input: Value::Null,
            labels: Arc::default(),
        }
    }

    /// Sets the key, 1 to 512 bytes.
    #[must_use]
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets the input of the execution, as JSON.
    #[must_use]
    pub fn input(mut self, input: impl Into<Value>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the input of the execution to the payload of an asset.
    ///
    /// # Errors
    /// When the payload cannot be read as JSON.
    pub fn input_of(self, asset: &Asset) -> Result<Self, PluginError> {
        let input: Value = serde_json::from_str(asset.payload_json()).map_err(|error| {
            let id = asset.id_str();
            PluginError::permanent(format!("the payload of {id} is no JSON: {error}"))
        })?;
        Ok(self.input(input))
    }

    /// Adds a label of the execution.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.labels).insert(name.into(), value.into());
        self
    }

    /// Checks the name, the key and the limits.
    ///
    /// # Errors
    /// The first part that cannot be accepted.
    pub fn check(&self) -> Result<(), InvalidStart> {
        self.workflow.check()?;
        if let Some(key) = &self.key {
            if key.is_empty() || key.chars().any(char::is_control) {
                return Err(InvalidStart::Key);
            }
            Limit::KEY.check(key.len())?;
        }
        Limit::INPUT.check_json(&self.input)?;
        Limit::check_labels(&self.labels)?;
        Ok(())
    }
}

/// A pause of one asset: no push of it starts until an operator resumes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PauseAsset {
    /// Id of the asset to pause.
    pub asset: AssetId,
    /// The reason for the pause, for operators.
    pub why: String,
}

impl PauseAsset {
    /// Pauses `asset`, for the reason `why`.
    pub fn new(asset: AssetId, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { asset, why }
    }
}

/// A line for people, kept in the log of the execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Note {
    /// The text, at most 1,000 bytes.
    pub text: String,
    /// Whether the text is a warning or an error. `None`: it is a plain remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The asset that the text is about. `None`: no single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asset: Option<AssetId>,
}

impl Note {
    /// A remark with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            severity: None,
            asset: None,
        }
    }

    /// Makes the note a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Some(Severity::Warning);
        self
    }

    /// Sets the asset that the text is about.
    #[must_use]
    pub fn about(mut self, asset: AssetId) -> Self {
        self.asset = Some(asset);
        self
    }
}

impl<T: Into<String>> From<T> for Note {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(asset) = &self.asset {
            write!(f, "{asset}: ")?;
        }
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r41_start_over_a_limit_is_refused_with_its_name() {
        let start = || Start::of("season");
        assert_eq!(start().key("season/2027").check(), Ok(()));
        assert_eq!(start().key("").check(), Err(InvalidStart::Key));
        assert_eq!(start().key("a\nb").check(), Err(InvalidStart::Key));
        let over = |start: Start| match start.check() {
            Err(InvalidStart::Limit(over)) => over.limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(over(start().key("x".repeat(513))), Limit::KEY);
        let input = json!("x".repeat(65_535));
        assert_eq!(over(start().input(input)), Limit::INPUT);
        assert_eq!(over(start().label("app", "x".repeat(254))), Limit::LABEL);
        let many = (0..33).fold(start(), |start, n| start.label(n.to_string(), "x"));
        assert_eq!(over(many), Limit::LABELS);
        let unnamed = Start::of("a/b").check();
        assert!(matches!(unnamed, Err(InvalidStart::Workflow(_))));
    }
}
