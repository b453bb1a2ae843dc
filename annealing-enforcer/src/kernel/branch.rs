//! The kernel's branches, counted: a simulation in which one was never taken proves nothing about it.

use serde::Serialize;

macro_rules! branches {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A branch of the kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[non_exhaustive]
        pub enum Branch { $($(#[$doc])* $name,)* }

        impl Branch {
            /// Every branch.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

branches! {
    /// A diff said in sync.
    InSync,
    /// A diff found something to push.
    Differs,
    /// Production works on it.
    DiffInProgress,
    /// The resource is another system's.
    Foreign,
    /// A call failed.
    Failed,
    /// A diff passed its deadline.
    DiffDeadline,
    /// The checks passed their deadline.
    CheckDeadline,
    /// A push passed its deadline.
    PushDeadline,
    /// An answer came that nobody waits for.
    Late,
    /// A check delayed.
    Delayed,
    /// An asset slept on because a check had named a time.
    Asleep,
    /// Own or others' evidence was overtaken by a push.
    StaleEvidence,
    /// Evidence was too old.
    Aged,
    /// Another push in flight relies on the asset.
    HeldByOther,
    /// A claim was taken.
    ClaimTaken,
    /// A newer incarnation voided the evidence.
    MovedIntent,
    /// Three voids in a row: the iteration finishes at its own incarnation.
    FinishesOwn,
    /// A destructive change without approval.
    Unapproved,
    /// Paused by a person.
    Paused,
    /// Observe-only.
    ObserveOnly,
    /// A turndown where the type has none.
    NoTurndown,
    /// A turndown was pushed.
    TurnedDown,
    /// No ownership that is sure to last.
    NoLease,
    /// A push was admitted.
    Admitted,
    /// An admitted push was given up before it started.
    Withdrawn,
    /// A push succeeded.
    Pushed,
    /// A push is in progress.
    PushInProgress,
    /// A push was followed up.
    Continued,
    /// A moved pin or intent ended a continuation.
    ContinuationEnded,
    /// The outcome of a push is unknown.
    OutcomeUnknown,
    /// An unknown outcome was resolved by a diff.
    Resolved,
    /// The same change again after successful pushes.
    NotConverging,
    /// An asset left intent.
    Orphaned,
    /// An orphan came back.
    Returned,
    /// A circuit breaker opened.
    BreakerOpened,
    /// A neighbour was diffed for a check.
    Observed,
    /// A neighbour's diff served more than one check.
    ObservationShared,
    /// A neighbour had a push in flight.
    ObservedInFlight,
    /// A settled asset woke one that waited for it.
    WokenBySettling,
    /// A provider got a consumer while a check was under way.
    NewEdge,
    /// A governed asset was pinned where it was, so that its intent stays.
    KeptInPlace,
    /// An asset left its policy group, and its pin with it.
    LeftGroup,
    /// A pin moved to where the asset's content is the same.
    MovedQuietly,
    /// Drift was found, and is repaired, while a change of intent is delayed.
    CuresUnderEdit,
}

/// A guard that can be left out, to see that a test notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum Bug {
    /// Push without taking claims.
    SkipClaim,
    /// Admit although the asset or a relied-on one was pushed since the evidence.
    ReuseOldDiff,
    /// Push without ownership.
    DropFence,
    /// Forget a push that was open when the owner died.
    LoseOpenPush,
    /// Forget the edges that an edit dropped.
    ForgetVanishedEdge,
    /// Take a failed or timed-out check for a yes.
    PushOnTimedOutCheck,
    /// Take an orphan out of production.
    RemoveOrphan,
    /// Start a push before its record is durable.
    PushBeforeDurable,
    /// Push although the pin moved since the diff.
    IgnoreMovedPin,
    /// Ignore that a push in flight relies on the asset.
    SkipHold,
    /// Let a governed asset follow a newly sealed incarnation until its pin is there.
    FollowLatest,
    /// Take a diff from before the pin moved for one after it (R20).
    SettledBeforePin,
    /// Leave drift alone while a change of intent is delayed (R6).
    NoCureUnderEdit,
    /// Give ownership up without waiting for pushes under way.
    NoDrain,
    /// Start pushes while shutting down.
    StartWhileDraining,
}
