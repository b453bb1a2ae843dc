//! The branches of the kernel, counted. A simulation that never takes a branch proves nothing about it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Kernel;

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
    /// An asset under a new id waited for its old id.
    WaitsForOldId,
    /// An asset under a new id took over from its old id.
    TookOver,
    /// Drift was found, and is repaired, while a change of intent is delayed.
    CuresUnderEdit,
}

impl Kernel {
    /// Number of times that each branch of the kernel was taken.
    pub fn branches(&self) -> &BTreeMap<Branch, u64> {
        self.ledger.branches()
    }

    pub(super) fn count(&mut self, branch: Branch) {
        self.ledger.count(branch);
    }
}
