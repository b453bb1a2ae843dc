//! The port to whoever enforces: pins go out, what was taken in and how assets stand comes back. Engines do not know each
//! other; whoever composes them implements this.

use async_trait::async_trait;
use futures::stream::BoxStream;
use plane_store::{Write, records::Standing};
use plugin_sdk::{BoxError, Cause};
use prodspec_model::{AssetId, Incarnation};

/// Moves pins, and says what becomes of them. Bound to one ownership of the partition: when that ends, so do its answers.
#[async_trait]
pub trait Actuator: Send + Sync + 'static {
    /// One step of the partition's journal, in this order: `writes`, `head`, `moves`. Returns when it is durable.
    ///
    /// # Errors
    /// When it never will be: the ownership ended, or the store is broken.
    async fn actuate(&self, step: Actuation) -> Result<(), BoxError>;

    /// What enforcement has taken in, in its order. First the newest incarnation and every asset with a pin of its own;
    /// then every change. Ends with the ownership.
    fn feed(&self) -> BoxStream<'static, Feed>;
}

/// One step: all of it is applied, in this order.
#[derive(Debug, Clone, Default)]
pub struct Actuation {
    /// What the strategist remembers.
    pub writes: Vec<Write>,
    /// A policy group's new head, by its policy asset.
    pub head: Option<(AssetId, Incarnation)>,
    /// Pins to move.
    pub moves: Vec<(AssetId, PinTo)>,
}

/// Where a pin goes.
#[derive(Debug, Clone)]
pub enum PinTo {
    /// To this incarnation, for this cause.
    At(Incarnation, Cause),
    /// Nowhere: the asset is left alone.
    NotYet,
    /// To what the asset follows without a pin of its own: its group's head.
    Default,
}

/// What enforcement says.
#[derive(Debug, Clone)]
pub enum Feed {
    /// This incarnation is the newest now, and governs what follows it.
    Took(Incarnation),
    /// How these assets stand now.
    Stands(Vec<(AssetId, Standing)>),
}
