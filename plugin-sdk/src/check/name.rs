//! Names of checks. A name that a layer registered is distinguished from a name that a check only wrote into a delay.

use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use serde::{Deserialize, Serialize};

/// The name of a check, unique in its stack. Overrides refer to checks by name, and `explain` shows it.
///
/// The layer that puts a check into a stack registers the check's name and stamps it on every delay of that check. A
/// name that a check or another layer writes into a delay has no stamp and is replaced: see
/// [`Checks`](crate::service::Checks). Two names are equal if their texts are equal.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckName {
    text: Arc<str>,
    #[serde(skip)]
    stack: Option<StackId>,
}

/// Identifies the stack in which a name is registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StackId(u64);

impl StackId {
    /// An id that no other stack of this process has.
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl CheckName {
    /// The name of the stack itself. Delays that come from no single check, such as the failure of a whole stack, carry
    /// it. No check can have this name, and no override lifts such a delay.
    pub const STACK: &'static str = "checks";

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The same name, registered in `stack`.
    pub(crate) fn stamped(&self, stack: Option<StackId>) -> Self {
        Self {
            text: self.text.clone(),
            stack,
        }
    }

    /// The name of a part of this registered check, if `written` is `own`, a slash and a text.
    pub(crate) fn part(&self, own: &Self, written: &Self) -> Option<Self> {
        self.stack?;
        let part = written.text.strip_prefix(&*own.text)?;
        part.starts_with('/').then(|| Self {
            text: format!("{}{part}", self.text).into(),
            stack: self.stack,
        })
    }

    /// The stack in which the name is registered. `None`: it is not registered.
    pub(crate) fn stack(&self) -> Option<StackId> {
        self.stack
    }
}

impl From<&str> for CheckName {
    fn from(name: &str) -> Self {
        Self {
            text: name.into(),
            stack: None,
        }
    }
}

impl PartialEq for CheckName {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CheckName {}

impl PartialOrd for CheckName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CheckName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for CheckName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CheckName").field(&self.text).finish()
    }
}

impl fmt::Display for CheckName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
