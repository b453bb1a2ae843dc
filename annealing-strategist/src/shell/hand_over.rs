//! Gives a live change other values of its fields (R18).

use std::collections::BTreeSet;

use control_plane_runtime::{Kernel as _, Runtime};
use plugin_sdk::{Now, RolloutId, with_causes};
use prodspec_model::{AssetId, rollout::RollOut};

use super::{
    changes::Change,
    groups::Groups,
    handle::Reply,
    steps::{HandedOver, Work},
};
use crate::{
    change::{HandOver, RollOutTarget},
    kernel::{Effects, Event, Kernel, Refused},
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
        let answer = match change.zip(self.changes.kernels.get_mut(key)) {
            Some((change, kernel)) => {
                let mut effects = Effects::default();
                let handed = change.hand_over(kernel, now, to, by, &mut effects);
                let (records, come) = match handed {
                    Ok((records, come)) => (Some(records), Ok(come)),
                    Err(refused) => (None, Err(refused)),
                };
                self.collect_with(key, effects, records);
                come.map(|come| self.came(key, come, Vec::new()))
            }
            None => Err(Refused(format!("the change `{key}` is over"))),
        };
        // The caller may have gone.
        self.work.push(Work::tell(reply, answer));
    }
}

impl Change {
    /// Takes in the other values. The effects have to be performed even if it is refused. Returns the records to write with
    /// the first step, and the assets that it has passed over so far: they may join now.
    ///
    /// # Errors
    /// When the change is not as it was when the values were tried, or cannot be handed over.
    fn hand_over(
        &mut self,
        kernel: &mut Kernel,
        now: Now,
        to: &HandOver,
        by: By,
        out: &mut Effects,
    ) -> Result<(HandedOver, Vec<AssetId>), Refused> {
        let key = &to.key;
        let stay: BTreeSet<&AssetId> = self.fields.staying().collect();
        let ours = |(asset, _): &&(AssetId, RollOutTarget)| stay.contains(asset);
        let mut targets: Vec<_> = to.targets.iter().filter(ours).cloned().collect();
        let mut intent = self.intent.clone();
        let all_known = targets.len() == stay.len();
        // A record may be read before an earlier handover is durable.
        let is_present = |(asset, target): &(AssetId, RollOutTarget)| {
            let last = target.earlier.last();
            last.is_some_and(|last| self.fields.sets(asset, &last.edits))
        };
        if !all_known || intent.version() + 1 != to.version || !targets.iter().all(is_present) {
            let why = "is not as it was a moment ago; give the command again";
            return Err(Refused(format!("the change `{key}` {why}")));
        }
        let next = kernel.newest().map_or(1, |newest| newest.id.0 + 1);
        let handed = intent.hand_over(RolloutId(next), &mut targets);
        handed.map_err(|error| Refused(with_causes(&*error)))?;
        let event = Event::HandedOver {
            latest: intent.to().clone(),
            to: values(&to.change),
            by,
            reply: 0,
        };
        kernel.step(now, event, out);
        // The number is none of the callers'.
        if let Some((_, Err(refused))) = out.replies.pop() {
            return Err(refused);
        }
        self.fields.hand_over(intent.version() - 1, &targets);
        self.foreseen = None;
        self.record.change = to.change.clone();
        self.record.earlier = intent.earlier().to_vec();
        self.intent = intent;
        let beside = std::mem::take(&mut self.record.beside);
        let record = Box::new(self.record.clone());
        Ok((HandedOver { record, targets }, beside.into_iter().collect()))
    }
}

/// The values that a change sets, in one line.
fn values(change: &RollOut) -> String {
    let set = change.set.iter();
    let set = set.map(|(field, value)| format!("`{field}` = {value}"));
    set.collect::<Vec<_>>().join(", ")
}
