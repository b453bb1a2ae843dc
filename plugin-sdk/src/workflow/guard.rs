//! Guards: conditions over the states of machines, as data.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

use super::name::{MachineName, StateName};

/// A condition over the states of machines. It decides when an action is enabled and which ends are good or bad.
///
/// A guard sees states only: no outputs, no clock, no code. The kinds of guards are stored with every execution; a
/// program version that does not know a kind refuses to read the definition.
///
/// ```
/// use plugin_sdk::workflow::{all, any, cancelled, is, not};
///
/// let undo = all([is("load", "done"), any([is("verify", ["failed", "expired"]), cancelled()])]);
/// assert_eq!(undo.to_string(), "all([is(load, done), any([is(verify, [expired, failed]), cancelled()])])");
/// assert_eq!(not(cancelled()).to_string(), "not(cancelled())");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// Holds if all of these hold. Without any it always holds.
    All(Vec<Guard>),
    /// Holds if one of these holds. Without any it never holds.
    Any(Vec<Guard>),
    /// Holds if the other one does not.
    Not(Box<Guard>),
    /// Holds while the machine is in one of the states.
    Is {
        /// The machine whose state is compared.
        machine: MachineName,
        /// The states in which the guard holds.
        states: States,
    },
    /// Holds from the moment at which cancelling the execution was asked for.
    Cancelled,
}

/// The states that [`is`] compares with: one name, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct States(pub BTreeSet<StateName>);

/// Holds if all of `guards` hold.
pub fn all(guards: impl IntoIterator<Item = Guard>) -> Guard {
    Guard::All(guards.into_iter().collect())
}

/// Holds if at least one of `guards` holds.
pub fn any(guards: impl IntoIterator<Item = Guard>) -> Guard {
    Guard::Any(guards.into_iter().collect())
}

/// Holds if `guard` does not hold.
pub fn not(guard: Guard) -> Guard {
    Guard::Not(Box::new(guard))
}

/// Holds while `machine` is in the state, or in one of the states.
pub fn is(machine: impl Into<MachineName>, states: impl Into<States>) -> Guard {
    Guard::Is {
        machine: machine.into(),
        states: states.into(),
    }
}

/// Holds from the moment at which cancelling the execution was asked for.
pub fn cancelled() -> Guard {
    Guard::Cancelled
}

impl Guard {
    /// The guard that always holds: the default of an action.
    pub fn always() -> Self {
        Self::All(Vec::new())
    }

    /// The guard that never holds.
    pub fn never() -> Self {
        Self::Any(Vec::new())
    }

    /// Whether this is [`Guard::always`], as written.
    pub fn is_always(&self) -> bool {
        *self == Self::always()
    }

    /// Whether this is [`Guard::never`], as written.
    pub fn is_never(&self) -> bool {
        *self == Self::never()
    }
}

impl Default for Guard {
    fn default() -> Self {
        Self::always()
    }
}

impl From<&str> for States {
    fn from(state: &str) -> Self {
        Self(BTreeSet::from([state.into()]))
    }
}

impl From<StateName> for States {
    fn from(state: StateName) -> Self {
        Self(BTreeSet::from([state]))
    }
}

impl<S: Into<StateName>, const N: usize> From<[S; N]> for States {
    fn from(states: [S; N]) -> Self {
        states.into_iter().collect()
    }
}

impl<S: Into<StateName>> From<Vec<S>> for States {
    fn from(states: Vec<S>) -> Self {
        states.into_iter().collect()
    }
}

impl<S: Into<StateName>> FromIterator<S> for States {
    fn from_iter<I: IntoIterator<Item = S>>(states: I) -> Self {
        Self(states.into_iter().map(Into::into).collect())
    }
}

/// Writes the guard like the code that makes it.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(guards) => list(f, "all", guards),
            Self::Any(guards) => list(f, "any", guards),
            Self::Not(guard) => write!(f, "not({guard})"),
            Self::Is { machine, states } => write!(f, "is({machine}, {states})"),
            Self::Cancelled => f.write_str("cancelled()"),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, word: &str, guards: &[Guard]) -> fmt::Result {
    write!(f, "{word}([")?;
    separated(f, guards)?;
    f.write_str("])")
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.len() == 1 {
            return separated(f, &self.0);
        }
        f.write_str("[")?;
        separated(f, &self.0)?;
        f.write_str("]")
    }
}

fn separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
) -> fmt::Result {
    for (at, item) in items.into_iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    Ok(())
}
