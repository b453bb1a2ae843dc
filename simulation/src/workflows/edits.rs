//! The port of one owner to the editable source, and what holds when it is used.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use annealing_workflow::{operation::EDIT, record::StepRecord};
use async_trait::async_trait;
use futures::{
    FutureExt,
    channel::oneshot,
    future::{AbortHandle, abortable},
};
use plugin_sdk::{
    BoxError, Edits, Holder, plugin,
    port::{HeldEdit, Made, SettleReply, SettleRequest, Settlement, WaitNo},
    workflow::{MachineName, StateName},
};

use super::{
    source::{execution, fields_of},
    stored::Stored,
};
use crate::{
    executor::NodeId,
    faults::Fault,
    flows::{
        definitions::{GROW, PUT_BACK},
        source::Change,
        watches::Watch,
    },
    halt::survive,
    world::{State, World},
};

/// Time after which an edit that production has is seen to have settled, when all faults are healed.
const SETTLED: Duration = Duration::from_secs(25);
/// Time after the end of the faults in which each partition has an owner again.
const RECOVERY: Duration = Duration::from_secs(45);

/// Time between two looks at a change that has not settled.
const LOOK: Duration = Duration::from_secs(1);

/// The source, as one owner reaches it.
pub(super) struct Port {
    world: World,
    node: NodeId,
    token: u64,
    waits: Arc<Mutex<Waits>>,
}

/// The tasks of waits for production.
type Waits = BTreeMap<WaitNo, AbortHandle>;

impl Port {
    pub(super) fn new(world: &World, node: NodeId, token: u64) -> Self {
        Self {
            world: world.clone(),
            node,
            token,
            waits: Arc::default(),
        }
    }
}

#[async_trait]
impl Edits for Port {
    async fn edit(&self, edit: &HeldEdit) -> Result<Made, plugin::Error> {
        let (travel, lost) = {
            let mut state = self.world.state();
            state.edit_begins(self.node, self.token, edit);
            if state.flow_strikes(Fault::FunctionFails) {
                return Err(plugin::Error::transient("the source does not answer"));
            }
            let most = Duration::from_secs(8);
            let travel = state.flows.random.between(Duration::ZERO, most);
            (travel, state.flow_strikes(Fault::AnswerLost))
        };
        self.world.note("edits", None, [self.token, 0]);
        self.world.verdict();
        survive(&self.world, self.node).await;
        let (reply, answer) = oneshot::channel();
        let (world, token, edit) = (self.world.clone(), self.token, edit.clone());
        // A change that is under way is made although its caller is gone.
        self.world.spawn(async move {
            world.sleep(travel).await;
            let made = world.state().make_change(token, &edit);
            world.note("edited", None, [token, u64::from(made.is_ok())]);
            drop(reply.send(made));
        });
        let made = answer.await;
        survive(&self.world, self.node).await;
        match made {
            Ok(made) if !lost => made,
            _ => Err(plugin::Error::unknown("the connection was lost")),
        }
    }

    fn settle(&self, request: SettleRequest, reply: SettleReply) {
        let (world, node) = (self.world.clone(), self.node);
        let (wait, waits) = (reply.wait(), self.waits.clone());
        let (settled, handle) = abortable(async move { settled(&world, node, &request).await });
        locked(&self.waits).insert(wait, handle);
        // A task for each is good enough for the few waits of a simulation.
        self.world.executor.spawn(
            node,
            async move {
                if let Ok(end) = settled.await {
                    locked(&waits).remove(&wait);
                    reply.settled(end);
                }
            }
            .boxed(),
        );
    }

    fn forget(&self, wait: WaitNo) {
        if let Some(handle) = locked(&self.waits).remove(&wait) {
            handle.abort();
        }
    }

    async fn release(&self, holder: &Holder) -> Result<(), BoxError> {
        let mut state = self.world.state();
        // As for a change: what an earlier owner asks for late is refused.
        if self.token < state.flows.owner {
            return Err("another process owns the partition".into());
        }
        if state.is_live(holder) {
            let what = format!("the fields of {holder} are given up, and it is live");
            state.violated("R34", what);
        }
        state.flows.source.holders.retain(|_, it| it != holder);
        Ok(())
    }

    async fn holders(&self) -> Result<BTreeSet<Holder>, BoxError> {
        let state = self.world.state();
        Ok(state.flows.source.holders.values().cloned().collect())
    }
}

/// Looks at a change until it has settled.
async fn settled(
    world: &World,
    node: NodeId,
    request: &SettleRequest,
) -> Result<Settlement, plugin::Error> {
    loop {
        world.sleep(LOOK).await;
        let settlement = {
            let mut state = world.state();
            if state.flow_strikes(Fault::EffectLate) {
                return Err(plugin::Error::transient("production does not answer"));
            }
            state.settlement(&request.change)
        };
        if let Some(settlement) = settlement {
            survive(world, node).await;
            return Ok(settlement);
        }
    }
}

fn locked(waits: &Mutex<Waits>) -> MutexGuard<'_, Waits> {
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Whether an execution that holds fields is live by its durable row.
    fn is_live(&self, holder: &Holder) -> bool {
        let stored = execution(holder).and_then(|id| self.stored(&id));
        stored.is_some_and(|stored| stored.live.is_some())
    }

    /// Judges an edit that begins.
    fn edit_begins(&mut self, node: NodeId, token: u64, edit: &HeldEdit) {
        let holder = edit.holder.to_string();
        if let Some(old) = self.without_lease(node) {
            let what =
                format!("{holder} edits without a lease: the last heartbeat was {old:?} ago");
            self.violated("R24", what);
        }
        if token < self.flows.token.max(self.judge.token) {
            return;
        }
        self.judge.look("R34");
        if let Err((rule, what)) = self.judge_edit(edit) {
            self.violated(rule, format!("edit of {holder}: {what}"));
        }
    }

    fn judge_edit(&mut self, edit: &HeldEdit) -> Result<(), (&'static str, String)> {
        let Some(id) = execution(&edit.holder) else {
            return Err(("R34", "its holder is no execution".to_owned()));
        };
        let Some(stored) = self.stored(&id) else {
            return Err(("R24", "its execution is not durable".to_owned()));
        };
        if let Some(ended) = &stored.ended {
            return Err(("R29", format!("it had ended: {}", ended.outcome)));
        }
        let mut steps = stored.steps.values().map(|(step, _)| step);
        let has = |step: &StepRecord| step.edit.as_ref().is_some_and(|it| it.id == edit.id);
        if !steps.any(has) {
            return Err(("R24", "it is not durable".to_owned()));
        }
        let watch = Watch::of_run(&id);
        let machine = match (watch, edit.lenient) {
            (Some(_), _) => EDIT,
            (None, true) => PUT_BACK,
            (None, false) => GROW,
        };
        let wanted = fields_of(id.n).count();
        if machine == GROW && edit.edits.len() != wanted {
            let what = format!("{} edits, of {wanted}", edit.edits.len());
            return Err(("R34", what));
        }
        let most = self.flows.most_edits(&id);
        let asked = (edit.holder.clone(), edit.lenient);
        let asked = self.flows.source.asked.entry(asked).or_default();
        asked.insert(edit.id.clone());
        match asked.len() as u32 > most {
            true => Err((
                "R34",
                format!(
                    "{} ids of {machine}, but {} restarts",
                    asked.len(),
                    most - 1
                ),
            )),
            false => Ok(()),
        }
    }

    /// R36: a step that settles says what has become of its change, when it is so.
    pub(super) fn judge_settled(&mut self, stored: &Stored) -> Result<(), (&'static str, String)> {
        let Some((step, _)) = stored.steps.get(&MachineName::from(GROW)) else {
            return Ok(());
        };
        let change = step.edit.as_ref();
        let change = change.and_then(|it| self.flows.source.changes.get(&it.id));
        let late = |it: &Change| {
            let healed = self.healed && it.at > self.judge.healed + RECOVERY;
            healed && it.has_it.is_some_and(|at| at + SETTLED < self.now) && !it.overwritten
        };
        let fits = match step.state.as_str() {
            // It was overwritten, or it took too long.
            StateName::EXPIRED => !change.is_some_and(late),
            StateName::DONE => change.is_some_and(|it| it.was_reached(self.now)),
            StateName::OVERWRITTEN => change.is_some_and(|it| it.overwritten),
            StateName::ROLLED_BACK => change.is_some_and(|it| it.goes_back()),
            _ => return Ok(()),
        };
        self.judge.look("R36");
        match fits {
            true => Ok(()),
            false => Err((
                "R36",
                format!("{GROW} is {}, against production", step.state),
            )),
        }
    }
}
