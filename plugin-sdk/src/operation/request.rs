//! Requests: all that a function sees of its execution and of intent.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use prodspec_model::IncarnationId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{EffectKey, ExecutionId, Fence, Required, SourceEdit, StartCause};
use crate::{error::PluginError, reader::IncarnationReader, workflow::MachineName};

/// Calls a function for one step of an execution. Plain data, apart from the reader.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FunctionRequest {
    /// Names the execution, the step and its run. The same for every attempt and every owner: pass it on to callees that
    /// remember keys.
    pub key: EffectKey,
    /// The position of this attempt among all attempts with this key. Pass it on to callees that refuse smaller ones.
    pub fence: Fence,
    /// The incarnation whose content counts. The same for all calls of an execution.
    pub incarnation: IncarnationId,
    /// The reason why the execution was started.
    pub cause: StartCause,
    /// Wall-clock time of the request. It may jump.
    pub now: Timestamp,
    /// Wall-clock time at which this attempt counts as one without an answer. Nothing of it may take effect later if the
    /// function is [advisory](crate::Guard::Advisory): then another attempt, or a new run, may begin.
    pub deadline: Timestamp,
    /// The input of the execution, over which that of the action is merged if both are objects; else that of the action, unless
    /// it is null. As JSON.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// What the steps before left for each other.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Edits of the steps before that are not made yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SourceEdit>,
    /// Assets that the function asked for, by the name of the requirement. For a watch, `changed` holds the assets that
    /// made it fire.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub required: BTreeMap<String, Vec<Required>>,
    /// Whether the execution is being cancelled. End soon, or clean up if this step is for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Reads the assets of the incarnation. Not serialized.
    #[serde(skip)]
    pub reader: IncarnationReader,
}

impl FunctionRequest {
    /// Makes a request as the control plane does; tests of functions use it too. The cause is a command, and there is no
    /// input, context or reader.
    pub fn new(
        key: EffectKey,
        fence: Fence,
        incarnation: IncarnationId,
        now: Timestamp,
        deadline: Timestamp,
    ) -> Self {
        Self {
            key,
            fence,
            incarnation,
            cause: StartCause::Command,
            now,
            deadline,
            input: Value::Null,
            context: Map::new(),
            edits: Vec::new(),
            required: BTreeMap::new(),
            cancelled: false,
            reader: IncarnationReader::default(),
        }
    }

    crate::setters! {
        /// Sets the reason why the execution was started.
        cause: StartCause,
        /// Sets the context that the steps before left.
        context: Map<String, Value>,
        /// Sets the edits of the steps before.
        edits: Vec<SourceEdit>,
        /// Sets whether the execution is being cancelled.
        cancelled: bool,
        /// Sets the reader of the incarnation.
        reader: IncarnationReader,
    }

    /// Sets the input of the step, as JSON.
    #[must_use]
    pub fn with_input(mut self, input: impl Into<Value>) -> Self {
        self.input = input.into();
        self
    }

    /// Sets the assets of the requirement `name`.
    #[must_use]
    pub fn with_required(mut self, name: impl Into<String>, assets: Vec<Required>) -> Self {
        self.required.insert(name.into(), assets);
        self
    }

    /// The execution that the call is for.
    pub fn execution(&self) -> &ExecutionId {
        &self.key.execution
    }

    /// The step of the execution that the call is for.
    pub fn step(&self) -> &MachineName {
        &self.key.step
    }

    /// The field `name` of the input. A field that is missing is read like a null, so an `Option` is `None` then.
    ///
    /// ```
    /// # use plugin_sdk::{plugin, testing};
    /// let request = testing::function_request().with_input(serde_json::json!({ "to": 3 }));
    /// let to: u32 = request.input("to")?;
    /// let from: Option<u32> = request.input("from")?;
    /// assert_eq!((to, from), (3, None));
    /// let missing = request.input::<u32>("from").unwrap_err();
    /// assert!(missing.to_string().starts_with("the input has no field `from`"));
    /// # Ok::<(), plugin::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if the field is missing or is no `T`.
    pub fn input<T: DeserializeOwned>(&self, name: &str) -> Result<T, PluginError> {
        read("the input", self.input.get(name), name)
    }

    /// The entry `name` of the context. A missing entry is read like a null, so an `Option` is `None` then.
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if the entry is missing or is no `T`.
    pub fn context_entry<T: DeserializeOwned>(&self, name: &str) -> Result<T, PluginError> {
        read("the context", self.context.get(name), name)
    }

    /// The assets of the requirement `name`. `None`: the function has not asked for them yet.
    pub fn required(&self, name: &str) -> Option<&[Required]> {
        self.required.get(name).map(Vec::as_slice)
    }
}

fn read<T: DeserializeOwned>(
    what: &str,
    value: Option<&Value>,
    name: &str,
) -> Result<T, PluginError> {
    T::deserialize(value.unwrap_or(&Value::Null)).map_err(|error| {
        PluginError::permanent(match value {
            Some(_) => format!("the field `{name}` of {what} cannot be read: {error}"),
            None => format!("{what} has no field `{name}`; add it"),
        })
    })
}

impl fmt::Debug for FunctionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionRequest")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("incarnation", &self.incarnation)
            .field("cause", &self.cause)
            .field("input", &self.input)
            .field("cancelled", &self.cancelled)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{FieldEdit, FieldPath, testing};

    #[test]
    fn r33_request_survives_a_process_boundary_except_for_its_reader() {
        let asset = testing::asset("job/eu");
        let edit = SourceEdit {
            source: prodspec_model::SourceName("m.yaml".into()),
            edit: FieldEdit::add("m.yaml#0", FieldPath::keys(["a"]), 1),
        };
        let changed = vec![Required::new(asset.clone(), testing::NOW)];
        let request = testing::function_request()
            .with_input(json!({ "to": 3 }))
            .edits(vec![edit])
            .with_required("changed", changed)
            .cancelled(true)
            .reader(testing::reader([asset]));
        let sent = serde_json::to_value(&request).unwrap();
        let read: FunctionRequest = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), sent);
        assert!(read.reader.incarnation().is_none());
        assert_eq!(read.required("changed").unwrap().len(), 1);
        assert_eq!(read.required("others"), None);
    }

    #[test]
    fn request_of_a_newer_version_is_read() {
        let sent = serde_json::to_value(testing::function_request()).unwrap();
        for (at, newer) in prodspec_model::tolerant::newer(&sent, &[]) {
            let read: FunctionRequest = serde_json::from_value(newer).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), sent, "{at}");
        }
    }
}
