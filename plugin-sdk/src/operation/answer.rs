//! Answers: what a function says should be. The control plane does it, in one commit, or none of it.

use std::{collections::BTreeMap, time::Duration};

use prodspec_model::SourceName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{InvalidStart, Limit, Note, OverLimit, PauseAsset, Requirement, Start};
use crate::{
    edit::FieldEdit,
    error::PluginError,
    workflow::{InvalidName, Machine, StateName},
};

/// The result of a function that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ran {
    /// The function is done. Its answer says what should be.
    Done(Answer),
    /// Work that the function began is still under way. It is called again, with the same key.
    InProgress {
        /// Time until the next call.
        check_again_in: Duration,
    },
    /// The function needs these assets first, by a name for each requirement. It is called again with all that it asked
    /// for so far, at most five times.
    Needs(BTreeMap<String, Requirement>),
}

impl Ran {
    /// The work is still under way; the function is called again after `check_again_in`.
    pub fn in_progress(check_again_in: Duration) -> Self {
        Self::InProgress { check_again_in }
    }

    /// The function needs the assets of one requirement, under the name `name`.
    pub fn needs(name: impl Into<String>, requirement: Requirement) -> Self {
        Self::Needs(BTreeMap::from([(name.into(), requirement)]))
    }

    /// Adds a requirement to those that the function needs. Another result is unchanged.
    #[must_use]
    pub fn and_needs(mut self, name: impl Into<String>, requirement: Requirement) -> Self {
        if let Self::Needs(needs) = &mut self {
            needs.insert(name.into(), requirement);
        }
        self
    }
}

/// The edit of one field, with the source that contains it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceEdit {
    /// The source of truth whose field is edited.
    pub source: SourceName,
    /// The field with its value before and after.
    #[serde(flatten)]
    pub edit: FieldEdit,
}

/// What a function says should be: an outcome, an output, and changes that the control plane makes. A function returns
/// changes and makes none itself.
///
/// ```
/// use plugin_sdk::{FieldEdit, FieldPath, operation::Answer};
///
/// # fn answer() -> Result<plugin_sdk::operation::Ran, plugin_sdk::plugin::Error> {
/// let cluster = FieldPath::keys(["apps", "shop", "cluster"]);
/// Ok(Answer::new()
///     .edit("apps.yaml", FieldEdit::add("apps.yaml#0", cluster, "eu-1"))
///     .note("eu-1 has the most room")
///     .output(&["shop"])?
///     .done())
/// # }
/// # answer().unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Answer {
    /// The outcome, one of those that the step's action declares. `done` unless the function says otherwise.
    pub outcome: StateName,
    /// The output of the step, as JSON, at most 64 KiB. It is kept with the execution and shown.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Entries that are added to the context, or replace entries of it. Later steps see them.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Edits of fields, all of one source. They are added to those of the steps before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SourceEdit>,
    /// Assets to pause: no push of them starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseAsset>,
    /// Executions to start. The step does not wait for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Start>,
    /// Machines to add to this execution.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub track: Vec<Machine>,
    /// Lines for people, kept in the log of the execution.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
    }
}

impl Answer {
    /// An answer with the outcome `done` and nothing else.
    pub fn new() -> Self {
        Self {
            outcome: StateName::DONE.into(),
            output: Value::Null,
            context: Map::new(),
            edits: Vec::new(),
            pauses: Vec::new(),
            starts: Vec::new(),
            track: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the outcome, one of those that the step's action declares.
    #[must_use]
    pub fn outcome(mut self, outcome: impl Into<StateName>) -> Self {
        self.outcome = outcome.into();
        self
    }

    /// Sets the output of the step.
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if the output cannot be written as JSON.
    pub fn output(mut self, output: &impl Serialize) -> Result<Self, PluginError> {
        self.output = to_json("the output", output)?;
        Ok(self)
    }

    /// Sets an entry of the context, which later steps see.
    ///
    /// # Errors
    /// [`PluginError::Permanent`] if the value cannot be written as JSON.
    pub fn context(
        mut self,
        name: impl Into<String>,
        value: &impl Serialize,
    ) -> Result<Self, PluginError> {
        let value = to_json("an entry of the context", value)?;
        self.context.insert(name.into(), value);
        Ok(self)
    }

    /// Adds the edit of a field of `source`.
    #[must_use]
    pub fn edit(mut self, source: impl AsRef<str>, edit: FieldEdit) -> Self {
        let source = SourceName(source.as_ref().into());
        self.edits.push(SourceEdit { source, edit });
        self
    }

    /// Adds the pause of an asset.
    #[must_use]
    pub fn pause(mut self, pause: PauseAsset) -> Self {
        self.pauses.push(pause);
        self
    }

    /// Adds the start of an execution.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.starts.push(start);
        self
    }

    /// Adds a machine to this execution.
    #[must_use]
    pub fn track(mut self, machine: Machine) -> Self {
        self.track.push(machine);
        self
    }

    /// Adds a line for people.
    #[must_use]
    pub fn note(mut self, note: impl Into<Note>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The result of a function that is done with this answer.
    pub fn done(self) -> Ran {
        Ran::Done(self)
    }

    /// The source that the edits are of. `None`: there are no edits, or they are of several sources.
    pub fn source(&self) -> Option<&SourceName> {
        let first = &self.edits.first()?.source;
        let one = self.edits.iter().all(|edit| edit.source == *first);
        one.then_some(first)
    }

    /// Checks the answer against everything that it alone tells: names, limits, one source. Whether the function may give
    /// it is a question for [`Powers`](super::Powers).
    ///
    /// # Errors
    /// The first part that cannot be accepted. Nothing of such an answer is kept.
    pub fn check(&self) -> Result<(), InvalidAnswer> {
        self.outcome.check()?;
        for (limit, count) in [
            (Limit::EDITS, self.edits.len()),
            (Limit::PAUSES, self.pauses.len()),
            (Limit::STARTS, self.starts.len()),
            (Limit::MACHINES, self.track.len()),
            (Limit::NOTES, self.notes.len()),
        ] {
            limit.check(count)?;
        }
        Limit::OUTPUT.check_json(&self.output)?;
        Limit::CONTEXT.check_json(&self.context)?;
        for note in &self.notes {
            Limit::NOTE.check(note.text.len())?;
        }
        for start in &self.starts {
            start.check()?;
        }
        Limit::ANSWER.check_json(self)?;
        match self.edits.first() {
            Some(first) if self.source().is_none() => Err(self.two_sources(&first.source)),
            _ => Ok(()),
        }
    }

    fn two_sources(&self, first: &SourceName) -> InvalidAnswer {
        let mut others = self.edits.iter().map(|edit| &edit.source);
        let other = others.find(|source| *source != first).unwrap_or(first);
        InvalidAnswer::Sources(first.clone(), other.clone())
    }
}

fn to_json(what: &str, value: &impl Serialize) -> Result<Value, PluginError> {
    let json = serde_json::to_value(value);
    json.map_err(|error| {
        PluginError::permanent(format!("{what} cannot be written as JSON: {error}"))
    })
}

/// An answer that cannot be accepted. It counts as a failure of the function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAnswer {
    /// The outcome has a wrong form.
    #[error(transparent)]
    Outcome(#[from] InvalidName),
    /// A part is over its limit.
    #[error(transparent)]
    Limit(#[from] OverLimit),
    /// A start cannot be accepted.
    #[error(transparent)]
    Start(#[from] InvalidStart),
    /// The edits are of several sources, two of which are named.
    #[error("the edits are of `{}` and `{}`; all edits of an operation go to one source", .0.0, .1.0)]
    Sources(SourceName, SourceName),
}

/// The result of a [`Probe`](super::Probe): whether the effect of a key happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Probed {
    /// The effect happened. The answer is that of the function.
    Happened(Answer),
    /// The effect did not happen, and an attempt made before can no longer make it happen.
    NotHappened,
    /// An attempt is still under way. The probe is asked again.
    InProgress,
}

#[cfg(test)]
mod tests {
    use prodspec_model::tolerant::newer;

    use super::*;
    use crate::{FieldPath, testing};

    fn edit(n: usize) -> FieldEdit {
        FieldEdit::add("apps.yaml#0", FieldPath::default().index(n), n)
    }

    fn full() -> Answer {
        let asset = testing::asset("job/eu").id();
        Answer::new()
            .outcome("no")
            .output(&1)
            .and_then(|it| it.context("room", &[1]))
            .unwrap()
            .edit("apps.yaml", edit(0))
            .pause(PauseAsset::new(asset.clone(), "it fails"))
            .start(Start::of("season").key("season/2027"))
            .track(Machine::calls("more", "load-texts"))
            .note(Note::new("little room").warning().about(asset))
    }

    #[test]
    fn r41_answer_over_a_limit_is_refused_with_its_name() {
        assert_eq!(full().check(), Ok(()));
        let over = |answer: Answer| match answer.check() {
            Err(InvalidAnswer::Limit(over)) => over.limit,
            other => panic!("{other:?}"),
        };
        let text = |bytes: usize| "x".repeat(bytes);
        let edits = (0..1_001).fold(Answer::new(), |it, n| it.edit("apps.yaml", edit(n)));
        assert_eq!(over(edits), Limit::EDITS);
        let output = Answer::new().output(&text(65_535)).unwrap();
        assert_eq!(over(output), Limit::OUTPUT);
        let context = Answer::new().context("a", &text(262_144)).unwrap();
        assert_eq!(over(context), Limit::CONTEXT);
        assert_eq!(over(Answer::new().note(text(1_001))), Limit::NOTE);
        let notes = (0..101).fold(Answer::new(), |it, _| it.note("again"));
        assert_eq!(over(notes), Limit::NOTES);
        let large = FieldEdit::add("apps.yaml#0", FieldPath::default(), text(1 << 20));
        assert_eq!(over(Answer::new().edit("apps.yaml", large)), Limit::ANSWER);
        let machine = Machine::calls("more", "load-texts");
        let track = (0..1_001).fold(Answer::new(), |it, _| it.track(machine.clone()));
        assert_eq!(over(track), Limit::MACHINES);
        let start = Answer::new().start(Start::of("season").key(""));
        assert_eq!(start.check(), Err(InvalidStart::Key.into()));
    }

    #[test]
    fn r34_edits_of_two_sources_are_refused_with_both_names() {
        let one = Answer::new().edit("apps.yaml", edit(0));
        assert_eq!(one.source(), Some(&SourceName("apps.yaml".into())));
        let two = one.edit("other.yaml", edit(1));
        assert_eq!(two.source(), None);
        assert_eq!(
            two.check().unwrap_err().to_string(),
            "the edits are of `apps.yaml` and `other.yaml`; all edits of an operation go to one source"
        );
    }

    #[test]
    fn answers_of_newer_versions_are_read() {
        let needs = Ran::needs("jobs", Requirement::default().with_status());
        for ran in [
            full().done(),
            needs,
            Ran::in_progress(Duration::from_secs(5)),
        ] {
            let sent = serde_json::to_value(&ran).unwrap();
            // Values of enums, maps with keys that are data, and times.
            let closed = [
                "",
                "/needs",
                "/in_progress/check_again_in",
                "/done/context",
                "/done/track/*/actions",
                "/done/track/*/actions/*/*",
            ];
            for (at, newer) in newer(&sent, &closed) {
                assert_eq!(serde_json::from_value::<Ran>(newer).unwrap(), ran, "{at}");
            }
        }
    }

    #[test]
    fn empty_answer_is_done_without_anything_else() {
        assert_eq!(serde_json::from_str::<Answer>("{}").unwrap(), Answer::new());
        let sent = serde_json::to_value(Answer::new()).unwrap();
        assert_eq!(sent, serde_json::json!({ "outcome": "done" }));
    }
}
