//! The inputs of the shell: commands, questions, pins, and events for the kernel.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::Write;
use control_plane_store::records::By;
use futures::channel::{mpsc::UnboundedSender, oneshot};
use plugin_sdk::{Actuation, FencingToken, Observation, Pin, PinEvent, Shared, Usage, observe};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::{
    handle::Settle,
    retire::{Reply, Retiring},
};
use crate::kernel::{Branch, Command, Event, Explanation, Interventions, Status};

/// One input of the shell. Inputs with a reply are answered through it; a dropped reply means no answer.
pub(crate) enum Input {
    /// An event for the kernel.
    Kernel(Event),
    /// A check asks for an observation of another asset.
    Observe {
        asset: AssetId,
        reply: oneshot::Sender<Result<Observation, observe::Error>>,
    },
    /// A check asks how much of a shared provider is used, without the consumer `but`.
    Usage {
        shared: Shared,
        but: AssetId,
        reply: oneshot::Sender<Usage>,
    },
    Status(oneshot::Sender<Status>),
    Interventions(oneshot::Sender<Interventions>),
    Branches(oneshot::Sender<BTreeMap<Branch, u64>>),
    /// Replies `None` if the asset is not known.
    Explain(AssetId, oneshot::Sender<Option<Explanation>>),
    Assets(oneshot::Sender<Vec<AssetId>>),
    /// Asks for the incarnations that retention must spare.
    Referenced(oneshot::Sender<Vec<IncarnationNo>>),
    /// Replies once settled; `false` if the asset is not known.
    WaitSettled(Settle, oneshot::Sender<bool>),
    /// A command of an operator.
    Tell(Box<Command>, Reply),
    /// An operator clears the stop of the partition.
    Clear(By, Reply),
    Pin(AssetId, Pin<Incarnation>, Reply),
    /// A step of a rollout: writes, heads and pins.
    Actuate(Box<Actuation<Write>>, Reply),
    /// Asks which old incarnations may be removed.
    Retire(Retiring),
    /// Incarnations of an [`Input::Retire`] that are kept: pins to them are allowed again.
    Retained(BTreeSet<IncarnationNo>),
    /// These assets have decisions on record.
    Decided(Vec<AssetId>),
    /// Subscribes to the feed of rollouts.
    Feed(UnboundedSender<PinEvent>),
    /// Wraps an input from a task of one ownership; the ownerships with other tokens ignore it.
    Of(FencingToken, Box<Input>),
    /// Another process owns the partition.
    Lost,
    /// Production has seen this token, which is newer than the ownership's.
    Fenced(FencingToken),
    /// The store is broken; the text says why.
    Stopped(String),
}
