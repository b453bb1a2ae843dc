//! The branches of the kernel, counted. A simulation that never takes a branch proves nothing about it.

use serde::Serialize;

macro_rules! branches {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A branch of the kernel that is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[non_exhaustive]
        pub enum Branch { $($(#[$doc])* $name,)* }

        impl Branch {
            /// All branches, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

branches! {
    /// A diff found the asset in sync.
    InSync,
    /// A diff found a change to push.
    Differs,
    /// A diff found production still working on the resource.
    DiffInProgress,
    /// A diff found that another system owns the resource.
    Foreign,
    /// A diff failed, or a push with a known outcome.
    Failed,
    /// A diff did not end by its deadline.
    DiffDeadline,
    /// The checks did not end by their deadline.
    CheckDeadline,
    /// A push did not end by its deadline.
    PushDeadline,
    /// An answer arrived for a call that is no longer awaited.
    Late,
    /// A check delayed a push.
    Delayed,
    /// An asset slept on because checks had named a time.
    Asleep,
    /// A push made the evidence of this asset or of a neighbour outdated.
    StaleEvidence,
    /// The evidence for a push was too old.
    Aged,
    /// A push of the asset, or one that relies on it, was in flight.
    HeldByOther,
    /// A claim of a push was not free.
    ClaimTaken,
    /// A newer incarnation voided the evidence.
    MovedIntent,
    /// Three voids in a row: the attempt finishes at its own incarnation.
    FinishesOwn,
    /// A push was held for an operator, such as a destructive one without approval.
    Unapproved,
    /// A pause of an operator held a push.
    Paused,
    /// A push was held because the asset is observe-only.
    ObserveOnly,
    /// A turndown was held because the type's plugin has none.
    NoTurndown,
    /// A turndown was pushed successfully.
    TurnedDown,
    /// A push was refused because the lease was not certain.
    NoLease,
    /// A push was admitted by the kernel.
    Admitted,
    /// An admitted push was given up before it started.
    Withdrawn,
    /// A push ended with success.
    Pushed,
    /// A push ended its call and is in progress in production.
    PushInProgress,
    /// A push in progress was followed up.
    Continued,
    /// A moved pin or intent ended a continuation.
    ContinuationEnded,
    /// A push ended with an unknown outcome.
    OutcomeUnknown,
    /// An unknown outcome was resolved by a diff.
    Resolved,
    /// An asset still differed after many successful pushes.
    NotConverging,
    /// An asset left intent without a turndown.
    Orphaned,
    /// An orphan came back into intent.
    Returned,
    /// A circuit breaker of a plugin opened.
    BreakerOpened,
    /// A neighbour was diffed for a check.
    Observed,
    /// A neighbour's diff served more than one check.
    ObservationShared,
    /// A neighbour had a push in flight.
    ObservedInFlight,
    /// An asset that settled woke one that waited for it.
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

/// A guard that tests can leave out, to show that a test notices it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[non_exhaustive]
pub enum Bug {
    /// Admit a push without taking its claims.
    SkipClaim,
    /// Admit although the asset or one that it relies on was pushed after the evidence.
    ReuseOldDiff,
    /// Push without holding the lease.
    DropFence,
    /// Forget a push that was open when the former owner died.
    LoseOpenPush,
    /// Forget the edges that an edit has dropped.
    ForgetVanishedEdge,
    /// Take a failed or timed-out check for one that lets the push through.
    PushOnTimedOutCheck,
    /// Remove an orphan's resource from production.
    RemoveOrphan,
    /// Start a push before its record is durable.
    PushBeforeDurable,
    /// Push although the pin moved since the diff.
    IgnoreMovedPin,
    /// Push although another push in flight relies on the asset.
    SkipHold,
    /// Let a governed asset follow a newly sealed incarnation until its pin is there.
    FollowLatest,
    /// Take a diff from before the pin moved for one after it (R20).
    SettledBeforePin,
    /// Leave drift alone while a change of intent is delayed (R6).
    NoCureUnderEdit,
    /// Compare a provider with production at its consumer's incarnation instead of its own pin (R16).
    JudgeAtConsumer,
    /// Give ownership up without waiting for pushes under way.
    NoDrain,
    /// Start pushes while shutting down.
    StartWhileDraining,
}
