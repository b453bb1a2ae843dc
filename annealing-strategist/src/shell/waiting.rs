//! Whoever waits for a group to come to rest: asked again after every event, for nobody announces an end twice.

use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::{groups::Kernels, handle::Reply, steps::Work};
use crate::kernel::{Refused, Rested};

/// How the group is, if there is one.
pub(crate) type Rests = Result<Rested, Refused>;

/// Those who wait.
#[derive(Default)]
pub(super) struct Waiting(Vec<Waiter>);

struct Waiter {
    policy: AssetId,
    at: IncarnationNo,
    reply: Reply<Rests>,
}

impl Waiting {
    /// One more, for the group of `policy` to have come to rest at `at` or later.
    pub(super) fn add(&mut self, policy: AssetId, at: IncarnationNo, reply: Reply<Rests>) {
        self.0.push(Waiter { policy, at, reply });
    }

    /// Answers those whose wait is over, once everything before is durable, and forgets those who have gone.
    pub(super) fn look(&mut self, latest: &Incarnation, kernels: &Kernels, work: &mut Vec<Work>) {
        self.0.retain(|waiter| !waiter.reply.is_canceled());
        let over = |waiter: &mut Waiter| {
            let Waiter { policy, at, .. } = waiter;
            let rests = kernels.get(policy).is_none_or(|kernel| kernel.rests(*at));
            // What another group's rollout still holds has its turn after that.
            let mut others = kernels.iter().filter(|(other, _)| *other != policy);
            *at <= latest.no() && rests && !others.any(|(_, other)| other.keeps_from(policy))
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

/// There is no such group.
pub(super) fn unknown(policy: &AssetId, kernels: &Kernels) -> Refused {
    let known: Vec<&str> = kernels.keys().map(AssetId::as_str).collect();
    let known = known.join(", ");
    Refused(format!("no policy group `{policy}`; there are: {known}"))
}
