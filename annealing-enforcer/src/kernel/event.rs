//! The events that the kernel takes in, and the effects that it asks its shell for.

use std::{collections::BTreeMap, sync::Arc};

use control_plane_store::records::{
    Approval, AssetRecord, Decision, Floor, Orphaned, Override, Owned, Pause,
};
use plugin_sdk::{
    Approved, Cause, Change, Diff, GroupHead, Mono, Observation, Observed, Pin, Pushed, Run,
    Served, Serving, Shared, Standing, Usage, Verdict, observe, plugin,
};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, IncarnationNo, addons::Edge};

use super::{
    notice::Notice,
    state::{edges::InProduction, numbers::TypeNo, people::Command},
};

/// An event that the kernel takes in.
#[derive(Debug, Clone)]
pub enum Event {
    /// A newer incarnation of the partition was sealed.
    Publish(Incarnation),
    /// The pin of one asset moved.
    Pin {
        /// Id of the asset whose pin moved.
        asset: AssetId,
        /// The new pin of the asset.
        pin: Pin<Incarnation>,
    },
    /// Groups completed rollouts and pins moved. Heads are applied first.
    Actuate {
        /// Rollout policies with the new heads of their groups.
        heads: Vec<(AssetId, GroupHead<Incarnation>)>,
        /// Ids of assets with their new pins.
        moves: Vec<(AssetId, Pin<Incarnation>)>,
    },
    /// A diff ended, of an attempt or of an observation.
    DiffDone {
        /// The diff call that ended.
        run: Run,
        /// The finding of the diff, or its error.
        answer: Result<Diff, plugin::Error>,
    },
    /// Several diffs of attempts or observations ended together, each as in [`Event::DiffDone`].
    DiffsDone(Vec<(Run, Result<Diff, plugin::Error>)>),
    /// A run of the check stack ended.
    CheckDone {
        /// The check call that ended.
        run: Run,
        /// The merged verdict. An error counts as a delay.
        answer: Result<Verdict, String>,
    },
    /// A push, a follow-up of one, or a turndown ended.
    PushDone {
        /// The push call that ended.
        run: Run,
        /// The answer of the plugin, or its error.
        answer: Result<Pushed, plugin::Error>,
    },
    /// A call of push was not made: when it was to begin, its evidence, the lease or its own deadline had expired.
    PushNotStarted {
        /// The push call that was not made.
        run: Run,
        /// `true`: the call was to follow up a push in progress.
        continuation: bool,
    },
    /// A check asks for the comparison of another asset with production.
    Observe {
        /// Number of the question; the reply carries it.
        ticket: u64,
        /// Id of the asset that the check asks about.
        asset: AssetId,
    },
    /// A check asks for the use of a shared capacity by its consumers.
    Usage {
        /// Number of the question; the reply carries it.
        ticket: u64,
        /// The capacity that the check asks about.
        shared: Shared,
        /// Id of the asset whose own use is left out of the sum.
        but: AssetId,
    },
    /// A check asks for the serving capacity of some assets.
    Served {
        /// Number of the question; the reply carries it.
        ticket: u64,
        /// The assets that are counted together.
        serving: Serving,
        /// Id of the asset that is left out of the sum.
        but: AssetId,
    },
    /// The journal is durable up to and including this record, counted from the first.
    Durable(u64),
    /// The lease was renewed; this process may start calls until then.
    Renewed(Mono),
    /// An operator gave a command.
    Person(Command),
    /// A shutdown began: no new diff, check or push may start, and pushes under way are followed to their ends.
    Drain,
    /// Time has passed: due timers are handled.
    Tick,
    /// Makes the kernel panic, to test how the shell handles that.
    #[cfg(test)]
    Break,
}

/// The effects of a step, to be performed by the shell. One value is reused from step to step.
#[derive(Debug, Default)]
pub struct Effects {
    /// Records to make durable, in this order.
    pub records: Vec<Record>,
    /// Calls to make; each answer comes back as an event.
    pub calls: Vec<Call>,
    /// Answers to [`Event::Observe`], each with the number of its question.
    pub replies: Vec<(u64, Result<Observation, observe::Error>)>,
    /// Answers to [`Event::Usage`], each with the number of its question.
    pub usages: Vec<(u64, Usage)>,
    /// Answers to [`Event::Served`], each with the number of its question.
    pub served: Vec<(u64, Served)>,
    /// `true`: an asset may have settled, or may have stopped being settled.
    pub settled_changed: bool,
    /// News for the feeds of attached engines, in order.
    pub feed: Vec<News>,
    /// Notices to operators, for the log.
    pub notices: Vec<Notice>,
    /// The reason why the operator's command was refused. Nothing of a refused command is recorded.
    pub refused: Option<String>,
    /// The invariant that a push would have broken, and how. The partition has to stop.
    pub violation: Option<String>,
}

/// News for feeds. See [`FeedItem`](plugin_sdk::FeedItem) and [`Follow`](plugin_sdk::Follow).
#[derive(Debug, Clone)]
pub enum News {
    /// The newest incarnation was taken in.
    Took(Incarnation),
    /// The standings of assets with a pin of their own whose pin, content or state the step has changed, and of assets that
    /// it took the pin from.
    Pinned(Vec<(AssetId, Standing)>),
    /// The new standings of the assets that [`Kernel::follow`](super::Kernel::follow) has named.
    Followed(Vec<(AssetId, Standing)>),
}

/// A record to be made durable.
#[derive(Debug, Clone)]
pub enum Record {
    /// The state of one asset in production. `None`: there is no state to keep.
    Asset(AssetId, Option<AssetRecord>),
    /// Every asset of this incarnation without a record of its own, and of one of these types, was in sync with it.
    Floor(Floor),
    /// The newest incarnation taken in. Records of pins that moved with it come before this one.
    Taken(IncarnationNo),
    /// The asset's own pin moved. [`Pin::Default`]: it has no pin of its own any more.
    Pin(AssetId, Pin),
    /// The total time for which the partition has been owned.
    Owned(Owned),
    /// The new head of a policy group.
    Head(AssetId, GroupHead),
    /// The asset became an orphan. `None`: it came back into intent, or was acknowledged.
    Orphan(AssetId, Option<Orphaned>),
    /// An asset continues under a new id: its history goes along.
    Renamed(AssetId, AssetId),
    /// A decision about an asset, for its history.
    Decision(AssetId, Decision),
    /// The asset is gone from intent and from production: its decisions are deleted. Commands about it stay.
    Gone(AssetId),
    /// A pause of pushes, or its end.
    Pause(Pause),
    /// An approval of a destructive change, spent or not.
    Approval(Approval),
    /// An override of one check, spent or not.
    Override(Override),
}

/// A call that the shell has to make.
#[derive(Debug, Clone)]
pub enum Call {
    /// Compare the asset with production.
    Diff(Target),
    /// Run the check stack for a push.
    Check(CheckCall),
    /// Push the asset, or follow up a push in progress.
    Push(PushCall),
    /// Drop the call, as its answer is not needed any more.
    Abandon(Run),
}

/// One asset at one incarnation: the object of a call.
#[derive(Debug, Clone)]
pub struct Target {
    /// The number of the call.
    pub run: Run,
    /// The number that the provider compares. It differs from that of `run` for diffs only: several diffs of an asset may
    /// overlap, and arrive in any order, so only pushes raise it, and diffs that find the outcome of one.
    pub fence: u32,
    /// The number of the asset's type, in the order of registration.
    pub plugin: TypeNo,
    /// The asset as its intent has it.
    pub asset: Asset,
    /// The incarnation from which the asset is read.
    pub incarnation: Incarnation,
}

/// The parameters of one run of the check stack.
#[derive(Debug, Clone)]
pub struct CheckCall {
    /// The asset that is to be pushed.
    pub target: Target,
    /// The change that the push would make.
    pub change: Arc<Change>,
    /// The state of production that the diff observed.
    pub observed: Observed,
    /// The cause of the push.
    pub cause: Cause,
    /// Whether no push is due: a rollout asks before it moves the pin.
    pub ahead: bool,
    /// The approvals of the change that count now.
    pub approvals: Vec<Approved>,
    /// The edges that production may have in addition to those of the incarnation.
    pub edges: Arc<InProduction>,
    /// The newest incarnation; its edges count too.
    pub latest: Incarnation,
    /// Edges with which no earlier push of the asset was checked.
    pub brought: Vec<Edge>,
    /// The present ids of providers that the asset names by old ones, and of the asset itself if it was renamed.
    pub renamed: BTreeMap<AssetId, AssetId>,
}

/// The parameters of one call of push.
#[derive(Debug, Clone)]
pub struct PushCall {
    /// The asset that is pushed.
    pub target: Target,
    /// The cause of the push.
    pub cause: Cause,
    /// Digest of the change that was checked.
    pub change: Digest,
    /// `true`: the call follows up a push in progress.
    pub continuation: bool,
    /// `true`: turn the asset down instead.
    pub turndown: bool,
    /// The call must not begin later: its evidence is too old then, or its deadline has passed (R10, R13).
    pub begin_by: Mono,
}
