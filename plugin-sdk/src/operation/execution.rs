//! Identity of executions, of effects and of attempts.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    run::FencingToken,
    workflow::{InvalidName, MachineName, WorkflowName},
};

/// The id of one execution of a workflow, written `season-0000000007`.
///
/// ```
/// use plugin_sdk::operation::ExecutionId;
///
/// let id: ExecutionId = "new-season-0000000007".parse()?;
/// assert_eq!((id.workflow.as_str(), id.n), ("new-season", 7));
/// assert_eq!(id.to_string(), "new-season-0000000007");
/// assert!("season-7".parse::<ExecutionId>().is_err());
/// # Ok::<(), plugin_sdk::operation::InvalidExecutionId>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct ExecutionId {
    /// Name of the workflow that is executed.
    pub workflow: WorkflowName,
    /// Number of the execution among all of its partition, from 1.
    pub n: u64,
}

/// A text that is not the id of an execution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the id of an execution; it must look like `season-0000000007`")]
pub struct InvalidExecutionId {
    text: String,
    #[source]
    why: Option<InvalidName>,
}

impl ExecutionId {
    /// The id of execution number `n` of `workflow`.
    pub fn new(workflow: impl Into<WorkflowName>, n: u64) -> Self {
        let workflow = workflow.into();
        Self { workflow, n }
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:010}", self.workflow, self.n)
    }
}

impl Serialize for ExecutionId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for ExecutionId {
    type Err = InvalidExecutionId;

    fn from_str(text: &str) -> Result<Self, InvalidExecutionId> {
        let wrong = |why| InvalidExecutionId {
            text: text.chars().take(120).collect(),
            why,
        };
        let (workflow, digits) = text.rsplit_once('-').ok_or_else(|| wrong(None))?;
        let n = digits.parse().map_err(|_| wrong(None))?;
        // One id has one text: no sign, and as many zeros as the id is written with.
        if format!("{n:010}") != digits {
            return Err(wrong(None));
        }
        let workflow = WorkflowName::new(workflow).map_err(|why| wrong(Some(why)))?;
        Ok(Self { workflow, n })
    }
}

impl TryFrom<String> for ExecutionId {
    type Error = InvalidExecutionId;

    fn try_from(text: String) -> Result<Self, InvalidExecutionId> {
        text.parse()
    }
}

/// A random number that each ownership of a partition draws for the keys of the effects that begin under it. A store that
/// was lost, or restored from an older copy, gives the numbers of executions and runs again; the identity makes the keys
/// differ all the same.
///
/// Written as 16 hexadecimal digits. Zero, the default, is the identity of keys that tests make.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct KeyIdentity(pub u64);

impl KeyIdentity {
    /// Whether it is the identity of keys that tests make.
    pub fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for KeyIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<KeyIdentity> for String {
    fn from(identity: KeyIdentity) -> Self {
        identity.to_string()
    }
}

/// A text that is not the identity of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the identity of a key; it must be 16 hexadecimal digits")]
pub struct InvalidKeyIdentity(String);

impl FromStr for KeyIdentity {
    type Err = InvalidKeyIdentity;

    fn from_str(text: &str) -> Result<Self, InvalidKeyIdentity> {
        let read = u64::from_str_radix(text, 16).map(Self);
        // One identity has one text.
        let read = read.ok().filter(|identity| identity.to_string() == text);
        read.ok_or_else(|| InvalidKeyIdentity(text.chars().take(120).collect()))
    }
}

impl TryFrom<String> for KeyIdentity {
    type Error = InvalidKeyIdentity;

    fn try_from(text: String) -> Result<Self, InvalidKeyIdentity> {
        text.parse()
    }
}

/// The key of an effect: the same for every attempt, retry and owner. Only a restart of the step makes a new run, and so a
/// new key. A callee that remembers the keys of the effects that it has made makes each of them once. No key is given twice,
/// over the loss of the store and the restore of a backup too.
///
/// Written `season-0000000007/publish/1-4f1c09d2a7b3e865`: the execution, the step, and the run with its identity.
/// Different keys have different texts. Store or compare whole keys only; the parts are for people.
///
/// ```
/// use plugin_sdk::operation::{EffectKey, ExecutionId, KeyIdentity};
///
/// let key = EffectKey::new(ExecutionId::new("season", 7), "publish", 1);
/// assert_eq!(key.to_string(), "season-0000000007/publish/1");
/// let key = key.identity(KeyIdentity(0x4f1c_09d2_a7b3_e865));
/// assert_eq!(key.to_string(), "season-0000000007/publish/1-4f1c09d2a7b3e865");
/// assert_eq!(key.to_string().parse(), Ok(key));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct EffectKey {
    /// The execution that has the effect.
    pub execution: ExecutionId,
    /// The step of the execution whose function has the effect.
    pub step: MachineName,
    /// Number of the run of that step. It rises with every restart of the step, and only then.
    pub run: u32,
    /// The identity of the ownership under which that run began.
    pub identity: KeyIdentity,
}

/// A text that is not the key of an effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the key of an effect; it must look like `season-0000000007/publish/1`")]
pub struct InvalidEffectKey(String);

impl EffectKey {
    /// The key of the effect of run number `run` of a step, with the identity zero.
    pub fn new(execution: ExecutionId, step: impl Into<MachineName>, run: u32) -> Self {
        Self {
            execution,
            step: step.into(),
            run,
            identity: KeyIdentity::default(),
        }
    }

    /// The same key with this identity.
    #[must_use]
    pub fn identity(mut self, identity: KeyIdentity) -> Self {
        self.identity = identity;
        self
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.execution, self.step, self.run)?;
        match self.identity.is_zero() {
            true => Ok(()),
            false => write!(f, "-{}", self.identity),
        }
    }
}

impl Serialize for EffectKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for EffectKey {
    type Err = InvalidEffectKey;

    fn from_str(text: &str) -> Result<Self, InvalidEffectKey> {
        let parts: Vec<&str> = text.split('/').collect();
        let read = || {
            let [execution, step, run] = parts[..] else {
                return None;
            };
            let (run, identity) = match run.split_once('-') {
                Some((run, identity)) => {
                    let identity: KeyIdentity = identity.parse().ok()?;
                    (run, Some(identity).filter(|it| !it.is_zero())?)
                }
                None => (run, KeyIdentity::default()),
            };
            let number: u32 = run.parse().ok()?;
            let canonical = number.to_string() == run;
            let step = MachineName::new(step).ok().filter(|_| canonical)?;
            Some(Self::new(execution.parse().ok()?, step, number).identity(identity))
        };
        read().ok_or_else(|| InvalidEffectKey(text.chars().take(250).collect()))
    }
}

impl TryFrom<String> for EffectKey {
    type Error = InvalidEffectKey;

    fn try_from(text: String) -> Result<Self, InvalidEffectKey> {
        text.parse()
    }
}

/// The position of an attempt among all attempts of one step of an execution. It rises with every attempt, every owner and
/// every restart. A guarded callee remembers the greatest fence per step, which is the key without its run, and refuses
/// smaller ones: then a late call of an old run has no effect after one of a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// Fencing token of the owner that calls.
    pub token: FencingToken,
    /// Number of the attempt in its run, from 1.
    pub attempt: u32,
}

impl Fence {
    /// The fence of attempt number `attempt` under the fencing token `token`.
    pub fn new(token: FencingToken, attempt: u32) -> Self {
        Self { token, attempt }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.token.0, self.attempt)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "[a-zA-Z0-9][a-zA-Z0-9._-]{0,12}";

    fn key() -> impl Strategy<Value = EffectKey> {
        let identity = prop_oneof![Just(0), 0..100_u64, any::<u64>()];
        (NAME, any::<u64>(), NAME, any::<u32>(), identity).prop_map(
            |(workflow, n, step, run, identity)| {
                EffectKey::new(ExecutionId::new(&*workflow, n), &*step, run)
                    .identity(KeyIdentity(identity))
            },
        )
    }

    proptest! {
        #[test]
        fn r25_key_reads_back_as_written_so_no_two_keys_have_one_text(key in key()) {
            prop_assert_eq!(key.to_string().parse::<EffectKey>(), Ok(key.clone()));
            let json = serde_json::to_string(&key).unwrap();
            prop_assert_eq!(serde_json::from_str::<EffectKey>(&json).unwrap(), key);
        }

        #[test]
        fn r25_text_of_a_key_is_the_only_one(text in "[a-b]{1,2}-0{8,10}[0-9]{1,3}/[a-b/]{1,3}/[+0]?[0-9]{1,2}(-[+0]?[0-9a-bA]{14,16})?") {
            if let Ok(key) = text.parse::<EffectKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }

    #[test]
    fn ids_with_another_form_are_refused() {
        let wrong = [
            "",
            "season",
            "season-7",
            "season-00000000007",
            "season-+000000007",
            "-0000000007",
            "sea/son-0000000007",
            "season-99999999999999999999",
        ];
        for text in wrong {
            assert!(text.parse::<ExecutionId>().is_err(), "{text}");
        }
        let long = ExecutionId::new("a-1", u64::MAX);
        assert_eq!(long.to_string().parse(), Ok(long));
    }

    #[test]
    fn r25_fence_rises_with_the_owner_before_the_attempt() {
        let fence = |token, attempt| Fence::new(FencingToken(token), attempt);
        assert!(fence(1, 9) < fence(2, 1));
        assert!(fence(2, 1) < fence(2, 2));
        assert_eq!(fence(7, 2).to_string(), "7.2");
    }
}
