//! Guards that tests leave out on purpose, to show that a test notices each.

/// A guard that can be left out, to show that tests notice. Only with the feature `planted-bugs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// R25: the key of an effect differs from attempt to attempt.
    KeyWithAttempt,
    /// R24: a call with an effect begins before its attempt is durable.
    CallBeforeDurable,
    /// R24: the answer of an abandoned call counts for the present one.
    TrustLateAnswer,
    /// R27: a timer is forgotten when another owner takes over.
    ForgetTimer,
    /// R29: an execution ends although a call is in flight.
    EndInFlight,
    /// R25: the fence does not rise from attempt to attempt.
    SkipFence,
    /// R24: attempts begin without a fresh lease.
    IgnoreLease,
    /// R25: a function that must not be repeated is called again after an unknown outcome.
    RepeatNever,
    /// R26: deaths of owners are not counted.
    DeathsUncounted,
    /// R30: what a machine left for others stays when it is restarted.
    RestartKeepsOutput,
    /// R30: the new run of a restarted machine does not wait for the call of the old one.
    RestartOverlaps,
    /// R30: an execution that is cancelled does not wait for the calls whose restarts wait for them.
    RestartForgets,
    /// R26: failures are counted over the whole run, although the function has answered in between.
    CountLifetime,
    /// R23: keys are forgotten when their executions end.
    CollectKeys,
    /// R34: each attempt of an edit has an id of its own.
    EditTwice,
    /// R36: a step that settles is done when its edit is made.
    SettledBeforeRead,
    /// R37: a schedule starts nothing more when a slot has closed unstarted.
    DeadlineStopsSchedule,
    /// R37: a schedule starts nothing more when a slot has closed beside a run.
    ForbidStopsSchedule,
    /// R37: the slots that have started are forgotten when the wall clock goes back.
    SlotFromWallOnly,
    /// R37: a slot starts before the end of the run that it replaces.
    ReplaceOverlaps,
    /// R32: steps that wait do not rise with their age.
    NoAging,
    /// R23: what follows from an answer is in the commit after it.
    TwoCommits,
    /// R31: machines that an answer adds are stored, but their execution does not refer to them.
    HalfTrack,
    /// R34: before an edit, the fields that other live executions hold are given up.
    EditForces,
    /// R34: only the first half of the edits of an answer is made.
    EditHalf,
    /// R36: a step settles only if no incarnation is newer than its edit.
    SettledNewestOnly,
    /// R32: each owner counts claims anew.
    CountInLayer,
    /// R38: a change beside a run is dropped where it should wait for the end of the run.
    WatchDropsForbidden,
    /// R38: a new owner finds out from its live executions, not from its record, what a watch has handled.
    WatchFromHistory,
    /// R39: what a run of a watch edits starts the watch.
    SelfTrigger,
    /// R42: a new definition begins other actions beside the calls of the old ones.
    RedefineInFlight,
}
