//! Pins: the incarnation at which an asset is enforced, and the port through which an owner's rollouts move pins.

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::Timestamp;
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo, tolerant};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{BoxError, Cause};

/// The pin of an asset: the incarnation at which it is enforced. `I` names the incarnation, by its number or as a whole.
///
/// ```
/// use plugin_sdk::{Cause, Pin};
/// use prodspec_model::IncarnationNo;
///
/// let pin = Pin::At(IncarnationNo(7), Cause::Rollback);
/// assert!(pin.is_at(IncarnationNo(7)));
/// assert!(pin.same_place(&Pin::At(IncarnationNo(7), Cause::Intent)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pin<I = IncarnationNo> {
    /// No pin of its own: the asset follows its policy group's head if a policy governs it, otherwise the newest sealed
    /// incarnation.
    Default,
    /// No incarnation yet: the asset is left alone.
    NotYet,
    /// A fixed incarnation, and the cause that pushes to it have.
    At(I, Cause),
}

/// The pins that this program version knows.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Known<I> {
    Default,
    NotYet,
    At(I, #[serde(deserialize_with = "cause")] Cause),
}

/// A pin that this program version does not know is [`Pin::NotYet`]: the asset is left alone.
impl<'de, I: DeserializeOwned> Deserialize<'de> for Pin<I> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let known = tolerant::known_or(from, |_| Known::NotYet)?;
        Ok(match known {
            Known::Default => Self::Default,
            Known::NotYet => Self::NotYet,
            Known::At(incarnation, cause) => Self::At(incarnation, cause),
        })
    }
}

/// A cause that this program version does not know is a change of intent: every check applies to it.
fn cause<'de, D: Deserializer<'de>>(from: D) -> Result<Cause, D::Error> {
    tolerant::known_or(from, |_| Cause::Intent)
}

impl Pin {
    /// The number of the fixed incarnation, if there is one.
    pub fn incarnation(&self) -> Option<IncarnationNo> {
        match self {
            Self::At(no, _) => Some(*no),
            Self::Default | Self::NotYet => None,
        }
    }

    /// Whether the asset is pinned to the incarnation `no`, for any cause.
    pub fn is_at(&self, no: IncarnationNo) -> bool {
        self.incarnation() == Some(no)
    }

    /// Whether both pins give the asset the same intent; their causes may differ.
    pub fn same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::At(one, _), Self::At(two, _)) => one == two,
            _ => self == other,
        }
    }
}

impl Pin<Incarnation> {
    /// The same pin with the number of its incarnation only.
    pub fn by_number(&self) -> Pin {
        match self {
            Self::Default => Pin::Default,
            Self::NotYet => Pin::NotYet,
            Self::At(incarnation, cause) => Pin::At(incarnation.no(), *cause),
        }
    }
}

/// The state of a pinned asset relative to its intent, as the enforcer last found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinStatus {
    /// The pin of the asset.
    pub pin: Pin,
    /// Digest of the asset's content at that pin. `None` means that its intent does not contain the asset, and its
    /// resource is left alone.
    pub content: Option<Digest>,
    /// Result of the last diff or push.
    pub state: SyncState,
}

/// Result of the enforcer's last look at an asset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SyncState {
    /// A diff that started after the pin moved found the asset in sync.
    InSync {
        /// Time at which it was first found in sync.
        since: Timestamp,
    },
    /// The asset is not in sync, or there was no diff yet.
    OutOfSync {
        /// Time since which this is so.
        since: Timestamp,
        /// Assets that it waits for according to the checks; of many, the first few.
        waits_for: Vec<AssetId>,
        /// Other reason that holds it, such as a pause, a missing approval or a check. `None` means that there is none.
        #[serde(default)]
        why: Option<String>,
        /// `true`: an operator has to act before the asset is pushed; `why` says how.
        #[serde(default)]
        awaits_person: bool,
    },
    /// The asset's own health check refused the pushed content.
    Unhealthy {
        /// Message of the health check.
        why: String,
    },
}

/// One step of an owner's journal that moves pins. All of it is applied, in the order of the fields.
#[derive(Debug, Clone)]
pub struct Actuation<W> {
    /// Records of the caller to write or to delete, in the form that the actuator's journal takes.
    pub writes: Vec<W>,
    /// New heads of policy groups, each with the id of the group's policy asset.
    pub heads: Vec<(AssetId, Incarnation)>,
    /// Pins to move, in this order.
    pub moves: Vec<(AssetId, Pin<Incarnation>)>,
}

/// The step that changes nothing.
impl<W> Default for Actuation<W> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            heads: Vec::new(),
            moves: Vec::new(),
        }
    }
}

/// Moves pins and reports the state of pinned assets. The enforcer's handle implements it. Bound to one ownership of the
/// partition: when that ends, all calls fail and the stream of events ends.
#[async_trait]
pub trait Actuator: Send + Sync + 'static {
    /// A record that goes into the same journal, such as a write to the control plane's store.
    type Write: Send;

    /// Performs one step of the partition's journal. Returns when the step is durable.
    ///
    /// # Errors
    /// When an incarnation of the step is being removed: nothing was done. Otherwise the ownership has ended or the store
    /// is broken, and it is unknown whether the step was done.
    async fn actuate(&self, step: Actuation<Self::Write>) -> Result<(), BoxError>;

    /// Streams the changes that enforcement has taken in, in its order. The first items are the newest incarnation and
    /// the states of all assets with a pin of their own; all later changes follow. The stream ends with the ownership, or
    /// at once if this process does not own the partition.
    fn pin_events(&self) -> BoxStream<'static, PinEvent>;
}

/// Rollouts in a rehearsal of enforcement, for a plan: they take the steps that a new owner's rollouts would take at once.
/// Nothing becomes durable. The strategist implements it.
///
/// ```
/// use plugin_sdk::{Actuation, BoxError, PinEvent, RehearsedRollouts};
///
/// /// Rollouts that move no pin.
/// struct Still;
///
/// #[async_trait::async_trait]
/// impl RehearsedRollouts for Still {
///     async fn steps(&mut self, _: Vec<PinEvent>) -> Result<Vec<Actuation<()>>, BoxError> {
///         Ok(Vec::new())
///     }
/// }
/// ```
#[async_trait]
pub trait RehearsedRollouts: Send {
    /// Takes in the events since the last call, and returns the steps that follow from them at once. The first events
    /// are those with which [`Actuator::pin_events`] begins.
    ///
    /// # Errors
    /// When the records of rollouts cannot be read.
    async fn steps(&mut self, events: Vec<PinEvent>) -> Result<Vec<Actuation<()>>, BoxError>;
}

/// A change that enforcement reports to those who move pins, in the order in which it took the changes in.
#[derive(Debug, Clone)]
pub enum PinEvent {
    /// Enforcement has taken in this newest incarnation, which decides which assets are governed.
    Took(Incarnation),
    /// The present states of assets with a pin of their own, and of assets that have just lost it.
    Statuses(Vec<(AssetId, PinStatus)>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form_of_a_pin_is_stable() {
        let stored = |pin: Pin| serde_json::to_string(&pin).unwrap();
        assert_eq!(stored(Pin::Default), r#""default""#);
        assert_eq!(stored(Pin::NotYet), r#""not_yet""#);
        let at = Pin::At(IncarnationNo(7), Cause::Rollback);
        assert_eq!(stored(at), r#"{"at":[7,"rollback"]}"#);
        let read: Pin = serde_json::from_str(&stored(at)).unwrap();
        assert_eq!(read, at);
    }

    #[test]
    fn cause_of_a_pin_does_not_change_its_place() {
        let one = Pin::At(IncarnationNo(7), Cause::Rollback);
        assert!(one.same_place(&Pin::At(IncarnationNo(7), Cause::Intent)));
        assert!(!one.same_place(&Pin::At(IncarnationNo(8), Cause::Rollback)));
        assert!(!one.same_place(&Pin::NotYet));
        assert!(Pin::NotYet.same_place(&Pin::NotYet));
        assert!(!Pin::NotYet.same_place(&Pin::Default));
    }
}
