//! Pins: the incarnation at which an asset is enforced, and the port through which an owner's rollouts move pins.

use async_trait::async_trait;
use prodspec_model::{AssetId, Incarnation, IncarnationNo, tolerant};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};

use crate::{BoxError, Cause, Enforcement, FeedItem};

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

/// The head of a policy group: the default pin of its assets. `I` names the incarnation, by its number or as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupHead<I = IncarnationNo> {
    /// The incarnation whose rollout the group completed last.
    At(I),
    /// The newest incarnation, whichever it is: the assets are rolled out by edits of their sources.
    Latest,
    /// A head that a newer program version has set and this one does not know. The assets are left alone.
    Unknown,
}

/// The heads that this program version knows.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum KnownHead<I> {
    At(I),
    Latest,
    Unknown,
}

impl<'de, I: DeserializeOwned> Deserialize<'de> for GroupHead<I> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let known = tolerant::known_or(from, |_| KnownHead::Unknown)?;
        Ok(match known {
            KnownHead::At(incarnation) => Self::At(incarnation),
            KnownHead::Latest => Self::Latest,
            KnownHead::Unknown => Self::Unknown,
        })
    }
}

impl<I> GroupHead<I> {
    /// The fixed incarnation, if there is one.
    pub fn incarnation(&self) -> Option<&I> {
        match self {
            Self::At(incarnation) => Some(incarnation),
            Self::Latest | Self::Unknown => None,
        }
    }
}

impl GroupHead<Incarnation> {
    /// The same head with the number of its incarnation only.
    pub fn by_number(&self) -> GroupHead {
        match self {
            Self::At(incarnation) => GroupHead::At(incarnation.no()),
            Self::Latest => GroupHead::Latest,
            Self::Unknown => GroupHead::Unknown,
        }
    }
}

/// One step of an owner's journal that moves pins. All of it is applied, in the order of the fields.
#[derive(Debug, Clone)]
pub struct Actuation<W> {
    /// Records of the caller to write or to delete, in the form that the actuator's journal takes.
    pub writes: Vec<W>,
    /// New heads of policy groups, each with the id of the group's policy asset.
    pub heads: Vec<(AssetId, GroupHead<Incarnation>)>,
    /// Pins to move, in this order: that of each asset at most once.
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

/// Moves pins. The enforcer's handle implements it. Bound to one ownership of the partition: when that ends, all calls fail,
/// and so does the feed, which reports the outcomes of moves: follow [`Follow::Pinned`](crate::Follow::Pinned).
#[async_trait]
pub trait Actuator: Enforcement {
    /// A record that goes into the same journal, such as a write to the control plane's store.
    type Write: Send;

    /// Performs one step of the partition's journal. Returns when the step is durable.
    ///
    /// # Errors
    /// When an incarnation of the step is being removed: nothing was done. Otherwise the ownership has ended or the store
    /// is broken, and it is unknown whether the step was done.
    async fn actuate(&self, step: Actuation<Self::Write>) -> Result<(), BoxError>;
}

/// Rollouts in a rehearsal of enforcement, for a plan: they take the steps that a new owner's rollouts would take at once.
/// Nothing becomes durable. The strategist implements it.
///
/// ```
/// use plugin_sdk::{Actuation, BoxError, FeedItem, RehearsedRollouts};
///
/// /// Rollouts that move no pin.
/// struct Still;
///
/// #[async_trait::async_trait]
/// impl RehearsedRollouts for Still {
///     async fn steps(&mut self, _: Vec<FeedItem>) -> Result<Vec<Actuation<()>>, BoxError> {
///         Ok(Vec::new())
///     }
/// }
/// ```
#[async_trait]
pub trait RehearsedRollouts: Send {
    /// Takes in the items since the last call, and returns the steps that follow from them at once. The first items are the
    /// newest incarnation and the standings of all assets with a pin of their own.
    ///
    /// # Errors
    /// When the records of rollouts cannot be read.
    async fn steps(&mut self, items: Vec<FeedItem>) -> Result<Vec<Actuation<()>>, BoxError>;
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
    fn stored_form_of_a_head_is_stable() {
        let stored = |head: GroupHead| serde_json::to_string(&head).unwrap();
        assert_eq!(stored(GroupHead::Latest), r#""latest""#);
        assert_eq!(stored(GroupHead::At(IncarnationNo(7))), r#"{"at":7}"#);
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
