//! Guards that tests leave out on purpose, to show that a test notices each.

/// A guard that can be left out, to show that tests notice. Only with the feature `planted-bugs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// R20: an asset that is in sync at any pin counts as updated.
    UpdatedAtAnyPin,
    /// R22: only settled targets are rolled back.
    RollBackSettledOnly,
    /// R21: unknown health passes a gate.
    UnknownIsHealthy,
    /// R21: a verdict of any age passes a gate.
    OldVerdict,
    /// R22: a rollback uses the cause `Intent`, which checks hold up.
    RollBackAsIntent,
    /// R18: targets that were selected before are selected again.
    SelectTwice,
    /// R22: failed content is not quarantined.
    NoQuarantine,
    /// R22: each rollout that completes releases all failed content, fixed or not.
    AnyEditReleases,
    /// R22: the first target that moved goes back first.
    BackFirstFirst,
    /// R17: any newer incarnation supersedes a failed rollout.
    AnyEditMends,
    /// R18: a selection counts although its input has changed since.
    VoidSelection,
    /// R19: a selection does not include the assets that its targets wait for.
    NotClosed,
    /// After a crash, targets with a record count as moved, whatever their pins are.
    TrustRows,
    /// R21: an unhealthy verdict counts as healthy.
    IgnoreUnhealthy,
    /// R21: a rollout completes as soon as all targets were selected.
    CompletesEarly,
    /// A rollback ends as soon as all targets were sent back.
    BackTooSoon,
    /// A rollback never comes to its end.
    NeverBack,
    /// A rollout that an operator paused or aborted goes on.
    IgnorePause,
    /// Selects targets although the line is stopped.
    IgnoreLine,
    /// R21: after a takeover, a bake also ends when the time since the rollout began on the former owner's wall clock is
    /// long enough.
    WallClockBase,
    /// R101: an edit counts as soon as it is made, before production has it.
    CountsAtOnce,
    /// R101: a target that is in sync counts as updated while its edit is on its way.
    TrustsOldSync,
    /// R18: assets that come while a change is live are passed over.
    PassesOver,
    /// R18: targets keep their values when a change is handed over.
    HandOverKeepsValues,
    /// R18: the way back of a change that was handed over leads to the values before that.
    HandOverMovesWay,
    /// R18: a field that may have several values of a change is expected to have the last one.
    ExpectsLast,
    /// R18: the records of the targets are not written when a change is handed over.
    HandOverUnrecorded,
    /// R104: a version enters a stage before it is ripe in the stage before.
    EntersUnripe,
    /// R104: a version that was taken back counts as ripe.
    RipeWhenBack,
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Leaves out a guard in everything that this thread runs from now on. `None`: all guards are in place.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a guard is left out on purpose.
pub(crate) fn planted(bug: Bug) -> bool {
    #[cfg(feature = "planted-bugs")]
    return PLANTED.get() == Some(bug);
    #[cfg(not(feature = "planted-bugs"))]
    {
        let _ = bug;
        false
    }
}
