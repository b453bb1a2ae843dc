//! Callers that wait for a group to come to rest. They are checked after every event.

use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::{
    handle::Reply,
    kernels::{Kernels, unknown},
    steps::Work,
};
use crate::kernel::{GroupOutcome, Refused};

/// The state of the group at rest, or an error if there is no such group.
pub(crate) type Rests = Result<GroupOutcome, Refused>;

/// The callers that wait.
#[derive(Default)]
pub(super) struct Waiting(Vec<Waiter>);

struct Waiter {
    policy: AssetId,
    at: IncarnationNo,
    reply: Reply<Rests>,
}

impl Waiting {
    /// Adds a caller that waits until the group of `policy` has come to rest at `at` or later.
    pub(super) fn add(&mut self, policy: AssetId, at: IncarnationNo, reply: Reply<Rests>) {
        self.0.push(Waiter { policy, at, reply });
    }

    /// Answers the callers whose wait is over, once all earlier steps are durable, and forgets those that have gone.
    pub(super) fn look(&mut self, latest: &Incarnation, kernels: &Kernels, work: &mut Vec<Work>) {
        self.0.retain(|waiter| !waiter.reply.is_canceled());
        let over = |waiter: &mut Waiter| {
            let Waiter { policy, at, .. } = waiter;
            *at <= latest.no() && rests(kernels, policy, *at)
        };
        for Waiter { policy, reply, .. } in self.0.extract_if(.., over) {
            let answer = match kernels.get(&policy) {
                Some(kernel) => Ok(kernel.rested()),
                None => Err(unknown(&policy, kernels)),
            };
            work.push(Work::tell(reply, answer));
        }
    }
}

/// Whether the group of `policy` rests at `at`, and no other group holds assets for it. One that does not exist rests.
pub(super) fn rests(kernels: &Kernels, policy: &AssetId, at: IncarnationNo) -> bool {
    let rests = kernels.get(policy).is_none_or(|kernel| kernel.rests(at));
    // Assets that another group's rollout still holds are rolled out by this group later.
    let mut others = kernels.iter().filter(|(other, _)| *other != policy);
    rests && !others.any(|(_, other)| other.keeps_from(policy))
}
