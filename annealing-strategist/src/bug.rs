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
}
