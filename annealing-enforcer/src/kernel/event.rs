//! What can happen to the kernel, and what it asks for in return.

use std::sync::Arc;

use plane_store::records::{
    Approval, AssetRecord, Decision, Orphaned, Override, Owned, Pause, PinRecord, Standing,
};
use plugin_sdk::{
    Cause, Change, Diff, Mono, Observation, Observed, Pushed, Run, Shared, Usage, Verdict, plugin,
};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, IncarnationNo, addons::Edge};

use super::{edges::InProduction, notice::Notice, people::Command};

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// A newer incarnation was sealed.
    Publish(Incarnation),
    /// An asset's pin moved.
    Pin {
        /// Which asset.
        asset: AssetId,
        /// Where to.
        pin: Pin,
    },
    /// Groups completed rollouts, and pins moved: heads first.
    Actuate {
        /// Policies with the new heads of their groups.
        heads: Vec<(AssetId, Incarnation)>,
        /// Assets with their new pins.
        moves: Vec<(AssetId, Pin)>,
    },
    /// A diff ended: an iteration's own, or an observation.
    DiffDone {
        /// Which call.
        run: Run,
        /// What it said.
        answer: Result<Diff, plugin::Error>,
    },
    /// The check stack ended.
    CheckDone {
        /// Which call.
        run: Run,
        /// What it found; an error is a delay.
        answer: Result<Verdict, String>,
    },
    /// A push, a follow-up of one, or a turndown ended.
    PushDone {
        /// Which call.
        run: Run,
        /// What it said.
        answer: Result<Pushed, plugin::Error>,
    },
    /// A call of push was not made: at the moment when it was to begin, its evidence, the lease or its own time was over.
    PushNotStarted {
        /// Which call.
        run: Run,
        /// Whether it would have followed up a push in progress.
        continuation: bool,
    },
    /// A check wants to know how another asset compares with production.
    Observe {
        /// Whom to answer.
        ticket: u64,
        /// The asset it asks about.
        asset: AssetId,
    },
    /// A check asks what the consumers of a shared capacity use of it.
    Usage {
        /// The number that the answer carries.
        ticket: u64,
        /// The capacity it asks about.
        shared: Shared,
        /// The asset whose own use is left out.
        but: AssetId,
    },
    /// The journal is durable up to this record, counted from the first.
    Durable(u64),
    /// The lease is good until then.
    Renewed(Mono),
    /// A person said something.
    Person(Command),
    /// Nothing new may start from now on; pushes under way go on to their ends.
    Drain,
    /// Time went on.
    Tick,
    /// Panics, to see what the shell makes of that.
    #[cfg(test)]
    Break,
}

/// Which incarnation is an asset's intent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Pin {
    /// That of its policy group's head, if a policy governs it; else the newest one sealed.
    Default,
    /// This one, and why it was pinned.
    At(Incarnation, Cause),
    /// None yet: the asset is left alone.
    NotYet,
}

/// What the kernel asks its shell to do. Reused from step to step.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be made durable, in order.
    pub records: Vec<Record>,
    /// To be called; each answer comes back as an event.
    pub calls: Vec<Call>,
    /// Answers to [`Event::Observe`].
    pub replies: Vec<(u64, Result<Observation, String>)>,
    /// Answers to [`Event::Usage`].
    pub usages: Vec<(u64, Usage)>,
    /// Whether any asset settled or stopped being settled.
    pub settled_changed: bool,
    /// What is to be told to whoever follows rollouts, in order.
    pub feed: Vec<FeedItem>,
    /// What operators are told.
    pub notices: Vec<Notice>,
    /// Why the person's word at hand is refused: nothing of it is remembered.
    pub refused: Option<String>,
    /// An invariant that would have been broken, and how: nothing more may be done.
    pub violation: Option<String>,
}

/// What whoever moves pins has to know, in the order in which it happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FeedItem {
    /// Enforcement goes by this newest incarnation from now on.
    Took(Incarnation),
    /// How assets with a pin of their own stand now; of one that lost it, how it stands without.
    Stands(Vec<(AssetId, Standing)>),
}

/// Something to remember.
#[derive(Debug, Clone)]
pub enum Record {
    /// What is known of one asset in production. `None`: nothing worth keeping.
    Asset(AssetId, Option<AssetRecord>),
    /// Every asset of this incarnation without a record of its own was in sync with it.
    Floor(IncarnationNo),
    /// The newest incarnation taken in: pins that its publication moved come before this.
    Taken(IncarnationNo),
    /// An asset's own pin moved; `None`: it has none any more.
    Pin(AssetId, Option<PinRecord>),
    /// For how long the partition has been owned.
    Owned(Owned),
    /// A policy group completed a rollout.
    Head(AssetId, IncarnationNo),
    /// An asset left intent (or came back to it: `None`).
    Orphan(AssetId, Option<Orphaned>),
    /// An iteration did something.
    Decision(AssetId, Decision),
    /// An asset is gone from intent and from production: what was decided about it is forgotten. Words about it stay.
    Gone(AssetId),
    /// A pause, or its end.
    Pause(Pause),
    /// An approval, used up or not.
    Approval(Approval),
    /// An override of a check, used up or not.
    Override(Override),
}

/// Something to call.
#[derive(Debug, Clone)]
pub enum Call {
    /// Compare.
    Diff(Target),
    /// Ask the checks.
    Check(CheckCall),
    /// Push, or follow a push up.
    Push(PushCall),
    /// Drop the call; its answer is no longer wanted.
    Abandon(Run),
}

/// One asset at one incarnation, for one call.
#[derive(Debug, Clone)]
pub struct Target {
    /// Which call.
    pub run: Run,
    /// Which plugin, by the order of registration.
    pub plugin: u16,
    /// The asset's intent.
    pub asset: Asset,
    /// The incarnation it is read from.
    pub incarnation: Incarnation,
}

/// A run of the check stack.
#[derive(Debug, Clone)]
pub struct CheckCall {
    /// For which asset.
    pub target: Target,
    /// What the push would change.
    pub change: Arc<Change>,
    /// What production has.
    pub observed: Observed,
    /// Why it is pushed.
    pub cause: Cause,
    /// The edges production may have beside those of the incarnation.
    pub edges: Arc<InProduction>,
    /// The newest incarnation, whose edges count too.
    pub latest: Incarnation,
    /// Edges that the push brings: a push of the asset has not been checked with them before.
    pub brought: Vec<Edge>,
}

/// A push.
#[derive(Debug, Clone)]
pub struct PushCall {
    /// For which asset.
    pub target: Target,
    /// Why.
    pub cause: Cause,
    /// The change that was checked.
    pub change: Digest,
    /// A follow-up of a push that is in progress.
    pub continuation: bool,
    /// Take it out of production instead.
    pub turndown: bool,
    /// It may not begin later: its evidence is too old then, or its time is over (R10, R13).
    pub begin_by: Mono,
}
