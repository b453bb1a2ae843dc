//! R104: the groups that are stages of trains of heads. Such a group takes in the incarnations that the train lets in, in place of
//! each one that is sealed.

use std::collections::BTreeMap;

use control_plane_runtime::Runtime;
use plugin_sdk::GroupHead;
use prodspec_model::{AssetId, Incarnation};

use super::{
    groups::{Groups, Pending},
    handle::Reply,
    kernels::unknown,
    steps::Work,
    waiting::rests,
};
use crate::{
    group::policy_of,
    kernel::{Event, GroupOutcome, Kernel, Refused},
};

/// The state of the group if it rests at the incarnation, or the reason why it was not let in.
pub(crate) type LetIn = Result<Option<GroupOutcome>, Refused>;

impl<R: Runtime> Groups<R> {
    /// Lets an incarnation into the group of a stage. The answer is the state of the group, if it rests at the incarnation.
    pub(super) fn let_in(
        &mut self,
        policy: &AssetId,
        incarnation: &Incarnation,
        reply: Reply<LetIn>,
    ) {
        let answer = match self.kernels.contains_key(policy) {
            false => Err(unknown(policy, &self.kernels)),
            // An incarnation that is newer than the newest one that this strategist knows.
            true if !self.carried.has(policy) || incarnation.no() > self.latest.no() => {
                let why = format!("`{policy}` is no stage of a train of heads");
                Err(Refused(why))
            }
            true => {
                if self.may_take(policy, incarnation) {
                    self.catch_up(policy, incarnation);
                }
                let rests = rests(&self.kernels, policy, incarnation.no());
                let kernel = self.kernels.get(policy).filter(|_| rests);
                // A group whose head this program does not know has rolled nothing out.
                let known = kernel.filter(|it| !matches!(it.head(), Some(GroupHead::Unknown)));
                Ok(known.map(Kernel::rested))
            }
        };
        self.work.push(Work::tell(reply, answer));
    }

    /// Whether a group takes in an incarnation that the train lets in. One that is older than the last one, which has failed, is
    /// taken in when the group has come to rest.
    fn may_take(&self, policy: &AssetId, incarnation: &Incarnation) -> bool {
        let Some(kernel) = self.kernels.get(policy) else {
            return false;
        };
        let (latest, no) = (kernel.latest().no(), incarnation.no());
        let head = kernel.head().and_then(GroupHead::incarnation);
        let is_newer = head.is_none_or(|head| head.no() < no);
        no > latest || (no < latest && is_newer && kernel.rolls_out().is_none())
    }

    /// Tells each group that the newest incarnation has followed `older`, but for the stages of trains of heads.
    pub(super) fn tell_took(
        &mut self,
        older: &Incarnation,
        mut changed: BTreeMap<AssetId, Vec<AssetId>>,
        mut come: Pending,
    ) {
        let newer = self.latest.clone();
        for policy in self.kernels.keys().cloned().collect::<Vec<_>>() {
            if self.carried.has(&policy) {
                continue;
            }
            if self.is_behind(&policy, older) {
                self.catch_up(&policy, &newer);
                continue;
            }
            let took = Event::Took {
                latest: newer.clone(),
                changed: changed.remove(&policy).unwrap_or_default(),
                come: come.remove(&policy).unwrap_or_default(),
            };
            self.tell(&policy, took);
        }
    }

    /// Whether the group has not taken in `older`, because it was a stage of a train.
    fn is_behind(&self, policy: &AssetId, older: &Incarnation) -> bool {
        let kernel = self.kernels.get(policy);
        kernel.is_some_and(|kernel| kernel.latest().no() < older.no())
    }

    /// Takes an incarnation in to a group that has not taken in all those before it, or that has taken in a newer one.
    fn catch_up(&mut self, policy: &AssetId, to: &Incarnation) {
        let kernel = self.kernels.get(policy);
        let Some(from) = kernel.map(|kernel| kernel.latest().clone()) else {
            return;
        };
        let (mut changed, mut come) = (Vec::new(), Pending::new());
        for change in from.snapshot().diff(to.snapshot()) {
            let id = change.id();
            let was = change.before.as_ref().and_then(policy_of);
            let is = change.after.as_ref().and_then(policy_of);
            let ours = self.group_of(&id).as_ref() == Some(policy);
            let left = was.as_ref() == Some(policy) && is != was;
            if ours && was.as_ref() != Some(policy) {
                self.hand_over(policy, &id, &mut come);
            }
            if ours || left {
                changed.push(id);
            }
        }
        let took = Event::Took {
            latest: to.clone(),
            changed,
            come: come.remove(policy).unwrap_or_default(),
        };
        self.tell(policy, took);
        self.pass_all_on();
    }
}
