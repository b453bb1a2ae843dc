//! R104: the groups that are stages of trains of heads. Such a group takes in the incarnations that the train lets in, in place of
//! each one that is sealed.

use std::collections::BTreeMap;

use control_plane_runtime::Runtime;
use plugin_sdk::GroupHead;
use prodspec_model::{AssetId, Incarnation};

use super::{
    groups::{Groups, Pending},
    waiting::rests,
};
use crate::{
    group::{members, policy_of},
    kernel::{Event, GroupOutcome, Kernel, Refused},
};

/// The effect of letting an incarnation into the group of a stage.
#[derive(Debug, Clone, PartialEq)]
pub enum LetIn {
    /// It is rolled out, or waits until it can be.
    Moves,
    /// The group rests at it, in this state.
    Rests(Box<GroupOutcome>),
    /// The group has completed a newer one, so it is not let in.
    Overtaken,
}

impl<R: Runtime> Groups<R> {
    /// Lets an incarnation into the group of a stage.
    ///
    /// # Errors
    /// When the group is no stage, or the incarnation is not known yet.
    pub(super) fn let_in(
        &mut self,
        policy: &AssetId,
        incarnation: &Incarnation,
    ) -> Result<LetIn, Refused> {
        if !self.carried.has(policy) || incarnation.no() > self.latest.no() {
            let why = "is no stage of a train of heads in the newest incarnation";
            return Err(Refused(format!("`{policy}` {why}")));
        }
        let Some(kernel) = self.kernels.get(policy) else {
            // It has no assets yet.
            return Ok(LetIn::Rests(Box::new(GroupOutcome {
                released: true,
                rollout: None,
                left_out: Vec::new(),
            })));
        };
        match kernel.head() {
            // A newer program has set it.
            Some(GroupHead::Unknown) => return Ok(LetIn::Moves),
            Some(GroupHead::At(head)) if head.no() > incarnation.no() => {
                return Ok(LetIn::Overtaken);
            }
            _ => {}
        }
        if may_take(kernel, incarnation) {
            self.catch_up(policy, incarnation);
        }
        let rests = rests(&self.kernels, policy, incarnation.no());
        let kernel = self.kernels.get(policy).filter(|_| rests);
        Ok(kernel.map_or(LetIn::Moves, |it| LetIn::Rests(Box::new(it.rested()))))
    }

    /// Tells each group that the newest incarnation has followed `older`. The stages of trains of heads take it in only if it
    /// changes none of their assets, and they have taken in `older`.
    pub(super) fn tell_took(
        &mut self,
        older: &Incarnation,
        mut changed: BTreeMap<AssetId, Vec<AssetId>>,
        mut come: Pending,
    ) {
        let newer = self.latest.clone();
        for policy in self.kernels.keys().cloned().collect::<Vec<_>>() {
            let is_behind = self.is_behind(&policy, older);
            let changed = changed.remove(&policy).unwrap_or_default();
            if self.is_carried(&policy) && (is_behind || !changed.is_empty()) {
                let newest = newer.clone();
                self.tell(&policy, Event::Sealed { newest, changed });
                continue;
            }
            if is_behind {
                self.catch_up(&policy, &newer);
                continue;
            }
            let took = Event::Took {
                latest: newer.clone(),
                changed,
                come: come.remove(&policy).unwrap_or_default(),
            };
            self.tell(&policy, took);
        }
    }

    /// Whether a train lets incarnations into the group. One that is still updated by edits goes on with the newest.
    fn is_carried(&self, policy: &AssetId) -> bool {
        let kernel = self.kernels.get(policy);
        self.carried.has(policy) && kernel.is_none_or(|kernel| !kernel.is_by_edits())
    }

    /// Whether the group has not taken in `older`, because it was a stage of a train.
    fn is_behind(&self, policy: &AssetId, older: &Incarnation) -> bool {
        let kernel = self.kernels.get(policy);
        kernel.is_some_and(|kernel| kernel.latest().no() < older.no())
    }

    /// Takes an incarnation in to a group that has not taken in all those before it, or that has taken in a newer one.
    fn catch_up(&mut self, policy: &AssetId, to: &Incarnation) {
        let Some(kernel) = self.kernels.get(policy) else {
            return;
        };
        let (from, is_new) = (kernel.latest().clone(), kernel.head().is_none());
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
        if is_new {
            let all = members(policy, to).into_iter();
            changed = all
                .filter(|id| self.group_of(id).as_ref() == Some(policy))
                .collect();
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

/// Whether a group takes in an incarnation that the train lets in. One that is older than the last one, which has failed, is taken
/// in when the group has come to rest. A group without a head has rolled out nothing yet.
fn may_take(kernel: &Kernel, incarnation: &Incarnation) -> bool {
    let (latest, no) = (kernel.latest().no(), incarnation.no());
    let rests = kernel.rolls_out().is_none();
    no > latest
        || match kernel.head() {
            None => rests,
            Some(GroupHead::At(_)) => rests && no < latest && !kernel.rested().released,
            Some(GroupHead::Latest | GroupHead::Unknown) => false,
        }
}
