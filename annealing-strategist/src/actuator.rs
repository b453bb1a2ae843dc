//! The port to enforcement. Pins go out; new incarnations and the state of assets come back.
//!
//! The engines do not depend on each other. The crate that composes them (`control-plane`) implements this port.

use async_trait::async_trait;
use control_plane_store::{Write, records::PinStatus};
use futures::stream::BoxStream;
use plugin_sdk::{BoxError, Cause};
use prodspec_model::{AssetId, Incarnation};

/// Moves pins and reports the state of assets. Bound to one ownership of the partition: all calls fail and the feed
/// ends when that ownership ends.
#[async_trait]
pub trait Actuator: Send + Sync + 'static {
    /// Performs one step of the partition's journal: `writes`, then `head`, then `moves`. Returns when the step is
    /// durable.
    ///
    /// # Errors
    /// When the step will never be durable: the ownership ended, or the store is broken.
    async fn actuate(&self, step: Actuation) -> Result<(), BoxError>;

    /// Streams the changes that enforcement has taken in, in its order. The first items are the newest incarnation
    /// and every asset with a pin of its own; all later changes follow. The stream ends with the ownership.
    fn feed(&self) -> BoxStream<'static, Feed>;
}

/// One step of the journal. All of it is applied, in the order of the fields.
#[derive(Debug, Clone, Default)]
pub struct Actuation {
    /// Records of the strategist to write or delete.
    pub writes: Vec<Write>,
    /// A new head for one policy group, named by its policy asset. `None`: the head stays.
    pub head: Option<(AssetId, Incarnation)>,
    /// Pins to move, in this order.
    pub moves: Vec<(AssetId, PinTo)>,
}

/// The place to which a pin moves.
#[derive(Debug, Clone)]
pub enum PinTo {
    /// Pin the asset to this incarnation, for this cause.
    At(Incarnation, Cause),
    /// Hold the asset at no incarnation: enforcement leaves it alone.
    NotYet,
    /// Remove the asset's own pin; the asset then follows its group's head.
    Default,
}

/// A change that enforcement reports to the strategist.
#[derive(Debug, Clone)]
pub enum Feed {
    /// This incarnation is now the newest and decides which assets are governed.
    Took(Incarnation),
    /// The present pin statuses of these assets.
    Statuses(Vec<(AssetId, PinStatus)>),
}
