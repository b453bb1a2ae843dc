//! Guards that tests leave out on purpose, to show that a test notices each.

use serde::Serialize;

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
    /// Leave the record of a repeated approval or override in force beside the newer one (R12).
    KeepRepeated,
    /// Drop the edges of an old id when the asset under the new id takes over (R49).
    ForgetMovedDemand,
    /// Leave the record of an old id behind when the asset under the new id takes over (R49).
    LeaveMovedRecord,
    /// Give ownership up without waiting for pushes under way.
    NoDrain,
    /// Start pushes while shutting down.
    StartWhileDraining,
}
