//! Steps of executions.

use std::collections::BTreeMap;

use control_plane_runtime::StoredWait;
use control_plane_store::Record;
use plugin_sdk::{
    ChangeId, Claim, FencingToken,
    operation::{EffectKey, ExecutionId, KeyIdentity, PauseAsset, SourceEdit, Start},
    workflow::{MachineName, StateName},
};
use prodspec_model::{AssetId, tolerant};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::Live;

/// The state of one machine of an execution, from the moment at which its first action began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The present state of the machine.
    pub state: StateName,
    /// Number of the run, from 1. It rises with every restart, and is part of the key of effects.
    pub run: u32,
    /// The identity of the run's key, if it began by a restart. `None`: it is that of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<KeyIdentity>,
    /// Number of transitions of the machine in this run.
    #[serde(default)]
    pub transitions: u32,
    /// How often the action of each state began in this run, for actions that are bounded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub begun: BTreeMap<StateName, u32>,
    /// Number of the last attempt of all runs. It rises with every call, so that the fence of a new run is greater than
    /// those of the old ones.
    #[serde(default)]
    pub attempt: u32,
    /// Number of attempts of the present action. One that has none is withdrawn when its guard does not hold any more.
    #[serde(default)]
    pub tries: u32,
    /// Number of failures in a row.
    #[serde(default)]
    pub failures: u32,
    /// The owners in a row that died while a call was in flight, by the identities of their keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<KeyIdentity>,
    /// The last failure. `None`: the last answer was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the machine does or waits for. An activity that this program version does not know waits for a person.
    #[serde(deserialize_with = "does")]
    pub does: Does,
    /// The last call, while it may still take effect or its outcome is asked for. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<OpenCall>,
    /// A time that the action waits for. `None`: it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<StoredWait>,
    /// When all attempts together are over. `None`: none has begun since the last
    /// pause, or there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<StoredWait>,
    /// When the last attempt, which has not answered, can no longer take effect. `None`: it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<StoredWait>,
    /// Whether a restart waits until the last attempt can no longer take effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restarts: bool,
    /// Whether a cancel came before that restart could be made. It is made if the cancel is taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overtaken: bool,
    /// Claims that the action holds.
    #[serde(
        default,
        deserialize_with = "plugin_sdk::claims",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub claims: Vec<Claim>,
    /// Whether the function has said that its work is under way; it is called again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub under_way: bool,
    /// Whether an attempt of this run may have had an effect, and none has said since whether it had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uncertain: bool,
    /// The changes of intent that the last answer asked for. `None`: it asked for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edit: Option<Box<StepEdit>>,
    /// The child execution that is waited for. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ExecutionId>,
    /// The child execution of an older run, which ends before the new run begins anything. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_child: Option<ExecutionId>,
}

/// What a machine does or waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// No action is under way.
    Rests,
    /// A function is called, or is to be called.
    Calls,
    /// A person chooses an option.
    Asks,
    /// A timer of the action runs.
    Waits,
    /// A child execution is live.
    Starts,
    /// An edit of a source is being made.
    Edits,
    /// The assets that an edit changed are not in sync yet.
    Settles,
    /// The outcome of a call is not known and must not be guessed: a person says what happened.
    Unsettled,
    /// It was in flight at too many deaths: a person says whether it is called again.
    Poisoned,
}

fn does<'de, D: Deserializer<'de>>(from: D) -> Result<Does, D::Error> {
    tolerant::known_or(from, |_| Does::Unsettled)
}

impl Record for StepRecord {
    const KIND: &'static str = "workflow-step";
}

impl StepRecord {
    /// The name of the record of a machine. Ids and names have no spaces.
    pub fn name(execution: &ExecutionId, machine: &MachineName) -> String {
        format!("{execution} {machine}")
    }

    /// The key of the effects of the present run, as that of this machine of the execution `id`.
    pub fn key(&self, id: &ExecutionId, live: &Live, machine: &MachineName) -> EffectKey {
        let identity = self.identity.unwrap_or(live.origin.identity);
        EffectKey::new(id.clone(), machine.clone(), self.run).identity(identity)
    }
}

/// A call that may still take effect, or whose outcome is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The owner that wrote this.
    pub token: FencingToken,
    /// The identity of that owner's keys.
    #[serde(default)]
    pub owner: KeyIdentity,
    /// Whether the owner has ended in order while the call was in flight. Then its end was no death.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
    /// When it counts as a call without an answer.
    pub until: StoredWait,
    /// Whether it was in flight, so that it could have been what ended its owner.
    pub in_flight: bool,
    /// Whether it counts as a failure if it had no effect.
    pub counts: bool,
}

/// Changes of intent that an answer asks for. They are stored before they are made, so that the next owner makes the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEdit {
    /// The id under which they are made once.
    pub id: ChangeId,
    /// The outcome of the action when they are made.
    pub outcome: StateName,
    /// The edits, all of one source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<SourceEdit>,
    /// What the machine has changed with earlier edits: one for each field, from its first value to its last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<SourceEdit>,
    /// The assets whose pushes are paused together with the edits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<PauseAsset>,
    /// The executions to start when the edits are made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Start>,
    /// Whether fields that have other values by now are left alone, instead of refusing the whole edit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lenient: bool,
    /// Maximum number of assets that they may change. `None`: 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blast_radius: Option<u32>,
    /// Whether they may turn assets down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub turndown: bool,
    /// Whether they wait for a machine that makes what several machines have gathered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gathered: bool,
    /// The assets that were changed. `None`: the edit is not made, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assets: Option<Vec<AssetId>>,
    /// Whether the action has gone on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

impl StepEdit {
    /// What the machine has changed with this edit, if it is made, and with those before it.
    pub(crate) fn made(&self) -> Vec<SourceEdit> {
        let mut all = self.before.clone();
        for new in self.edits.iter().filter(|_| self.assets.is_some()) {
            let same = |known: &&mut SourceEdit| {
                let (known, new) = (&known.edit, &new.edit);
                (&known.document, &known.path) == (&new.document, &new.path)
            };
            let mut known = all.iter_mut().filter(|it| it.source == new.source);
            match known.find(same) {
                Some(known) => known.edit.to = new.edit.to.clone(),
                None => all.push(new.clone()),
            }
        }
        all
    }

    /// No changes yet, made once under `id`, after which the action has this outcome.
    pub(crate) fn new(id: ChangeId, outcome: &StateName) -> Self {
        Self {
            id,
            outcome: outcome.clone(),
            edits: Vec::new(),
            before: Vec::new(),
            pauses: Vec::new(),
            starts: Vec::new(),
            lenient: false,
            blast_radius: None,
            turndown: false,
            gathered: false,
            assets: None,
            over: false,
        }
    }
}

/// What the last answer of a machine left.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// Its place among the outputs with context: entries of greater ones replace those of smaller ones.
    pub order: u32,
    /// The output, as JSON, for people and programs that ask for it.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// Its entries of the context, which later steps see.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
}

impl Record for Output {
    const KIND: &'static str = "workflow-output";
}
