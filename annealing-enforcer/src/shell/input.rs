//! What reaches the shell from outside the kernel's own calls: words, questions, pins.

use std::collections::{BTreeMap, BTreeSet};

use futures::channel::{mpsc::UnboundedSender, oneshot};
use plane_store::records::By;
use plugin_sdk::{FencingToken, Observation, Shared, Usage};
use prodspec_model::{AssetId, IncarnationNo};

use super::{
    handle::{Actuation, Settle},
    retire::{Reply, Retiring},
};
use crate::kernel::{Branch, Command, Event, Explanation, FeedItem, Pin, Status, Words};

/// What comes in from outside the kernel's own calls.
pub(crate) enum Input {
    Kernel(Event),
    Observe {
        asset: AssetId,
        reply: oneshot::Sender<Result<Observation, String>>,
    },
    Usage {
        shared: Shared,
        but: AssetId,
        reply: oneshot::Sender<Usage>,
    },
    Status(oneshot::Sender<Status>),
    Words(oneshot::Sender<Words>),
    Branches(oneshot::Sender<BTreeMap<Branch, u64>>),
    Explain(AssetId, oneshot::Sender<Option<Explanation>>),
    Assets(oneshot::Sender<Vec<AssetId>>),
    Cited(oneshot::Sender<Vec<IncarnationNo>>),
    /// Answers whether there is such an asset.
    WaitSettled(Settle, oneshot::Sender<bool>),
    Tell(Box<Command>, Reply),
    /// A person clears what stopped enforcement.
    Clear(By, Reply),
    Pin(AssetId, Pin, Reply),
    Actuate(Box<Actuation>, Reply),
    Retire(Retiring),
    /// What was to be retired, and is not.
    Spared(BTreeSet<IncarnationNo>),
    Feed(UnboundedSender<FeedItem>),
    /// From something that an ownership started, for that one only.
    Of(FencingToken, Box<Input>),
    /// Another process owns the partition.
    Lost,
    /// Production has seen this token, which is newer than the ownership's.
    Fenced(FencingToken),
    /// The store is broken.
    Stopped(String),
}
