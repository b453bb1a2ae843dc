//! The inputs of the shell: commands, questions, pins, and events for the kernel, with the requests and answers that
//! they carry. All parts of the shell send or take inputs, so this module uses none of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use control_plane_store::Write;
use futures::channel::{mpsc::UnboundedSender, oneshot};
use plugin_sdk::{
    Actuation, By, Cause, Change, Delay, FeedItem, FencingToken, Follow, Observation, Observed,
    Pin, Served, Serving, Shared, Usage, Verdict, observe,
};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use crate::kernel::{
    ApprovalSet, Branch, Command, Event, Explanation, Interventions, Status, Target,
};

/// One input of the shell. Inputs with a reply are answered through it; a dropped reply means no answer.
pub(crate) enum Input {
    /// An event for the kernel.
    Kernel(Event),
    /// A check has a question about other assets.
    Ask(Question),
    /// A rollout asks about pushes that would follow if pins moved.
    Ahead(Box<Ahead>),
    /// An asset of an [`Input::Ahead`] differs from production.
    Differing(Box<Differing>),
    /// An asset of an [`Input::Ahead`] was compared and, if it differs, checked.
    Foreseen(Box<Foreseen>),
    Status(oneshot::Sender<Status>),
    Interventions(oneshot::Sender<Interventions>),
    /// Asks for the changes that wait for approvals.
    Awaiting(oneshot::Sender<Vec<ApprovalSet>>),
    Branches(oneshot::Sender<BTreeMap<Branch, u64>>),
    /// Replies `None` if the asset is not known.
    Explain(AssetId, oneshot::Sender<Option<Explanation>>),
    Assets(oneshot::Sender<Vec<AssetId>>),
    /// Asks for the incarnations that retention must spare.
    Referenced(oneshot::Sender<Vec<IncarnationNo>>),
    /// Replies once that is so.
    Wait(Awaited, oneshot::Sender<()>),
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
    /// Begins the feed with this number.
    Attach(FeedNo, UnboundedSender<FeedItem>),
    /// A feed follows other assets from now on.
    Follow(FeedNo, Follow),
    /// Wraps an input from a task of one ownership; the ownerships with other tokens ignore it.
    Of(FencingToken, Box<Input>),
    /// Another process owns the partition.
    Lost,
    /// Production has seen this token, which is newer than the ownership's.
    Fenced(FencingToken),
    /// The store is broken; the text says why.
    Stopped(String),
}

/// A question of a check about other assets.
pub(crate) enum Question {
    /// The observation of an asset.
    Observe {
        asset: AssetId,
        reply: oneshot::Sender<Result<Observation, observe::Error>>,
    },
    /// The use of a shared provider, without the consumer `but`.
    Usage {
        shared: Shared,
        but: AssetId,
        reply: oneshot::Sender<Usage>,
    },
    /// The capacity of the assets of `serving`, without `but`.
    Served {
        serving: Serving,
        but: AssetId,
        reply: oneshot::Sender<Served>,
    },
}

impl Input {
    /// Whether the input is kept until enforcement has started.
    pub(super) fn waits_for_start(&self) -> bool {
        let keeps = matches!(
            self,
            Self::Tell(..)
                | Self::Pin(..)
                | Self::Actuate(..)
                | Self::Retire(_)
                | Self::Attach(..)
                | Self::Follow(..)
                | Self::Wait(..)
                | Self::Kernel(Event::Publish(_))
        );
        keeps && !self.is_given_up()
    }

    /// Whether the caller of this input no longer waits for its answer. An owner obeys a command nevertheless: its
    /// caller cannot know whether it was too late.
    pub(super) fn is_given_up(&self) -> bool {
        match self {
            Self::Tell(_, reply) | Self::Pin(_, _, reply) | Self::Actuate(_, reply) => {
                reply.is_canceled()
            }
            Self::Wait(_, reply) => reply.is_canceled(),
            Self::Ahead(question) => question.reply.is_canceled(),
            _ => false,
        }
    }
}

/// The event that a caller waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaited {
    /// Enforcement has taken this incarnation, or a newer one.
    Taken(IncarnationNo),
    /// All enforced assets are settled at this incarnation, or at a newer one.
    AllSettled(IncarnationNo),
}

/// Number of the feed of an attached engine, unique in its enforcer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FeedNo(pub(super) u64);

/// The reply to a request: `Ok` once it is durable, or why it was refused.
pub(crate) type Reply = oneshot::Sender<Result<(), Refused>>;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The request names this incarnation, which is being removed.
    Retired(IncarnationNo),
    /// An operator's command does not fit the present state; the text says why, and what would fit.
    Word(String),
}

/// A request of retention: which of these `old` incarnations may be removed. The reply names those that may.
#[derive(Debug)]
pub(crate) struct Retiring {
    pub(crate) old: BTreeSet<IncarnationNo>,
    pub(crate) reply: oneshot::Sender<BTreeSet<IncarnationNo>>,
}

/// The question whether pushes of `assets` to their contents at `at` would wait. The reply names those that would.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) at: Incarnation,
    pub(crate) assets: Vec<AssetId>,
    pub(crate) cause: Cause,
    pub(crate) reply: oneshot::Sender<Vec<(AssetId, Vec<Delay>)>>,
}

/// A push that does not exist, for the checks.
#[derive(Debug)]
pub(crate) struct Differing {
    /// Number of the question.
    pub(crate) question: u64,
    pub(crate) cause: Cause,
    pub(crate) target: Target,
    pub(crate) change: Arc<Change>,
    pub(crate) observed: Observed,
}

/// The findings of the plugin and the checks about one asset of a question.
#[derive(Debug)]
pub(crate) struct Foreseen {
    /// Number of the question.
    pub(crate) question: u64,
    pub(crate) asset: AssetId,
    /// The change with the verdict on it. `None`: no push is known to follow.
    pub(crate) found: Option<(Arc<Change>, Verdict)>,
    /// Number of the newest incarnation when the checks began.
    pub(crate) newest: IncarnationNo,
}

impl Refused {
    /// The refusal of a command that clears a stop where there is none.
    pub(super) fn nothing_stopped() -> Self {
        Self::Word("enforcement of the partition is not stopped; there is nothing to clear".into())
    }
}

/// The assets to wait for in [`Handle::wait_settled`](crate::Handle::wait_settled).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settle {
    /// All enforced assets, each settled at this incarnation or a newer one.
    All(IncarnationNo),
    /// One asset, settled at this incarnation or a newer one.
    Asset(AssetId, IncarnationNo),
}

impl fmt::Display for Settle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(no) => write!(f, "production at incarnation {}", no.0),
            Self::Asset(asset, no) => write!(f, "`{asset}` at incarnation {}", no.0),
        }
    }
}
