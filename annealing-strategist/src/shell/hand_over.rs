//! Gives a live change other values of its fields (R18).

use std::collections::BTreeSet;

use control_plane_runtime::{Kernel as _, Runtime};
use plugin_sdk::{Now, RolloutId, with_causes};
use prodspec_model::{AssetId, rollout::RollOut};

use super::{changes::Change, groups::Groups, handle::Reply, steps::Work};
use crate::{
    change::{HandOver, RollOutTarget},
    kernel::{Effects, Event, Kernel, Refused, Step},
    record::By,
};

impl<R: Runtime> Groups<R> {
    /// Hands a live change over to other values, which a new rollout of it sets. The records of its targets change in the same
    /// commit.
    pub(super) fn hand_change_over(
        &mut self,
        to: &HandOver,
        by: By,
        reply: Reply<Result<(), Refused>>,
    ) {
        let (now, key) = (self.strategist.runtime.now(), &to.key);
        let change = self.changes.all.get_mut(key);
        let change = change.filter(|it| !it.has_ended && it.holder == to.holder);
        let handed = match change.zip(self.changes.kernels.get_mut(key)) {
            Some((change, kernel)) => change.hand_over(kernel, now, to, by),
            None => Err(Refused(format!("the change `{key}` is over"))),
        };
        let answer = handed.map(|Handed { first, rest, write }| {
            self.log_step(&first);
            self.work.push(write(first));
            self.collect_change(key, rest);
        });
        // The caller may have gone.
        self.work.push(Work::tell(reply, answer));
    }
}

/// The effects of a handover.
struct Handed {
    /// The step by which the new rollout takes over.
    first: Step,
    /// The effects that follow from it.
    rest: Effects,
    /// Makes the first step durable together with the records of the change.
    write: Box<dyn FnOnce(Step) -> Work>,
}

impl Change {
    /// # Errors
    /// When the change is not as it was when the values were tried, or cannot be handed over.
    fn hand_over(
        &mut self,
        kernel: &mut Kernel,
        now: Now,
        to: &HandOver,
        by: By,
    ) -> Result<Handed, Refused> {
        let key = &to.key;
        let stay: BTreeSet<&AssetId> = self.fields.staying().collect();
        let ours = |(asset, _): &&(AssetId, RollOutTarget)| stay.contains(asset);
        let mut targets: Vec<_> = to.targets.iter().filter(ours).cloned().collect();
        let mut intent = self.intent.clone();
        let all_known = targets.len() == stay.len();
        if !all_known || intent.version() + 1 != to.version {
            let why = "is not as it was a moment ago; give the command again";
            return Err(Refused(format!("the change `{key}` {why}")));
        }
        let next = kernel.newest().map_or(1, |newest| newest.id.0 + 1);
        let handed = intent.hand_over(RolloutId(next), &mut targets);
        handed.map_err(|error| Refused(with_causes(&*error)))?;
        let mut rest = Effects::default();
        let event = Event::HandedOver {
            latest: intent.to().clone(),
            to: values(&to.change),
            by,
            reply: 0,
        };
        kernel.step(now, event, &mut rest);
        if let Some((_, Err(refused))) = rest.replies.pop() {
            return Err(refused);
        }
        self.fields.hand_over(intent.version() - 1, &targets);
        self.foreseen = None;
        self.record.change = to.change.clone();
        self.record.earlier = intent.earlier().to_vec();
        self.intent = intent;
        let (key, record) = (key.clone(), Box::new(self.record.clone()));
        Ok(Handed {
            first: rest.steps.remove(0),
            rest,
            write: Box::new(move |step| Work::HandOver(key, step, record, targets)),
        })
    }
}

/// The values that a change sets, in one line.
fn values(change: &RollOut) -> String {
    let set = change.set.iter();
    let set = set.map(|(field, value)| format!("`{field}` = {value}"));
    set.collect::<Vec<_>>().join(", ")
}
