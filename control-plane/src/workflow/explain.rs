//! What an execution waits for, followed to its causes through other executions, claims, assets and rollouts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use annealing_workflow::{
    Heard,
    outlook::{Due, Outlook},
    query::{ExecutionQuery, Only},
    record::FeedPosition,
    view::{Execution, Wait, WaitFor},
};
use control_plane_runtime::Runtime;
use futures::Stream;
use jiff::Timestamp;
use plugin_sdk::{
    Problems, Severity,
    operation::ExecutionId,
    workflow::{MachineName, WorkflowName},
};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use super::Ended;
use crate::{
    Explained,
    handle::{Error, Handle},
};

/// Maximum number of executions, and of assets, that an explanation follows.
const FOLLOWED: usize = 50;

/// Why an execution has not ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ExplainedExecution {
    /// The execution, and after it those that it waits for: its children, and holders of claims. Each once, at most 50.
    pub executions: Vec<Execution>,
    /// The assets that they wait for, with what enforcement and rollouts say of them. At most 50.
    pub assets: BTreeMap<AssetId, Explained>,
    /// What is waited for in the end, beside the assets: a time, a person, an answer.
    pub causes: Vec<CauseOfWait>,
    /// The errors for which generation is refused, if assets are waited for: what is edited is not in force before they are
    /// mended. Empty: it is not refused.
    #[serde(default, skip_serializing_if = "Problems::is_empty")]
    pub problems: Problems,
}

/// Something that is waited for, and that waits for nothing else in the control plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CauseOfWait {
    /// The execution that waits, by its id.
    pub execution: ExecutionId,
    /// The machine that waits. `None`: the execution waits to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineName>,
    /// What it waits for, and since when.
    pub wait: Wait,
}

/// A step that goes on when a person gives a word about it: after three deaths, or when it is not known what a call did.
pub type ParkedStep = CauseOfWait;

/// All waits of an execution, that of its start first.
fn waits(execution: &Execution) -> impl Iterator<Item = CauseOfWait> + '_ {
    let start = execution.wait.iter().map(|wait| (None, wait));
    let machines = execution.waits();
    let machines = machines.map(|(machine, wait)| (Some(machine.name.clone()), wait));
    start.chain(machines).map(|(machine, wait)| CauseOfWait {
        execution: execution.id.clone(),
        machine,
        wait: wait.clone(),
    })
}

/// Explanations of executions. Needs the feature `workflows`.
impl<R: Runtime> Handle<R> {
    /// Explains a live execution: what each of its machines waits for, followed through children, holders of claims and
    /// assets to the causes. The machines that are not enabled name the clauses of their guards that do not hold.
    ///
    /// `None`: it is not live.
    ///
    /// # Errors
    /// If this process does not own the partition.
    pub async fn explain_execution(
        &self,
        execution: &ExecutionId,
    ) -> Result<Option<ExplainedExecution>, Error> {
        let mut queue = VecDeque::from([execution.clone()]);
        let mut seen = BTreeSet::from([execution.clone()]);
        let (mut executions, mut assets, mut causes) = (Vec::new(), BTreeSet::new(), Vec::new());
        while let Some(id) = queue.pop_front().filter(|_| executions.len() < FOLLOWED) {
            let Some(found) = self.execution(&id).await? else {
                continue;
            };
            for cause in waits(&found) {
                let follow: Vec<ExecutionId> = match &cause.wait.what {
                    WaitFor::Child(child) => vec![child.clone()],
                    WaitFor::Claim { held_by, .. } => {
                        held_by.iter().map(|it| it.execution.clone()).collect()
                    }
                    WaitFor::Settled(of) | WaitFor::Rule(of) if !of.is_empty() => {
                        assets.extend(of.iter().cloned());
                        continue;
                    }
                    _ => Vec::new(),
                };
                if follow.is_empty() {
                    causes.push(cause);
                }
                queue.extend(follow.into_iter().filter(|id| seen.insert(id.clone())));
            }
            executions.push(found);
        }
        if executions.is_empty() {
            return Ok(None);
        }
        let status = self.generation().await?.status();
        let errors = status.problems.into_iter();
        let errors = errors.filter(|it| it.severity == Severity::Error && !assets.is_empty());
        let problems = errors.collect();
        let mut explained = BTreeMap::new();
        for asset in assets.into_iter().take(FOLLOWED) {
            match self.explain(&asset).await {
                Ok(found) => drop(explained.insert(asset, found)),
                // It has left intent meanwhile.
                Err(Error::UnknownAsset { .. } | Error::Renamed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(ExplainedExecution {
            executions,
            assets: explained,
            causes,
            problems,
        }))
    }

    /// All steps that wait for the word of a person about a call, sorted by the number of the execution: settle them, or
    /// replay them.
    ///
    /// Executions that are paused are not among them, also not those that the control plane has paused because they reached
    /// [`Config::transitions`](super::Config::transitions). [`executions`](Self::executions) shows them if asked for
    /// [`Only::Paused`]; [`Say::Resume`](super::Say::Resume) lets them go on.
    ///
    /// # Errors
    /// If this process does not own the partition.
    pub async fn parked_steps(&self) -> Result<Vec<ParkedStep>, Error> {
        let query = ExecutionQuery::all().only(Only::Parked);
        let mut parked = Vec::new();
        let add = |execution: Execution| {
            let waits = waits(&execution);
            parked.extend(waits.filter(|it| it.wait.what == WaitFor::Word));
        };
        self.lane().await?.each_live(&query, add).await?;
        Ok(parked)
    }

    /// The work of workflows, schedules and watches that is due until a time, the earliest first. At most 1,000 entries, and of
    /// each watch on status at most 100.
    ///
    /// What enforcement does at known times is not among it, such as the next run of a
    /// [`FreshPlugin`](super::FreshPlugin) while none is live.
    ///
    /// # Errors
    /// If this process does not own the partition.
    pub async fn outlook(&self, until: Timestamp) -> Result<Vec<Due>, Error> {
        let lane = self.lane().await?;
        let mut outlook = Outlook::new(self.shared.runtime.now().wall, until);
        let add = |execution: Execution| outlook.execution(&execution);
        lane.each_live(&ExecutionQuery::all(), add).await?;
        let (schedules, watches) = (lane.schedules().await?, lane.watches().await?);
        schedules.iter().for_each(|it| outlook.schedule(it));
        watches.iter().for_each(|it| outlook.watch(it));
        Ok(outlook.due())
    }

    /// Follows what executions do: every transition, failure, word, parked step, start and end, once each and in order, over
    /// crashes and changes of owner. `after`: goes on after this place, which the caller has stored; `None` begins with the
    /// oldest that is kept, seven days old. Works in every process that has the store. An error of the store ends nothing.
    pub fn follow_executions(
        &self,
        after: Option<FeedPosition>,
    ) -> impl Stream<Item = Result<Heard, control_plane_store::Error>> + Send + 'static {
        self.shared.lanes.workflows.follow(after)
    }

    /// Executions that have ended and are kept, sorted by workflow and number: at most `limit`, not more than 1,000, of
    /// those after `after`. `workflow`: only of this one.
    ///
    /// # Errors
    /// If the store cannot be read, or this process does not own the partition.
    pub async fn ended_executions(
        &self,
        workflow: Option<&WorkflowName>,
        after: Option<&ExecutionId>,
        limit: usize,
    ) -> Result<Vec<Ended>, Error> {
        let lane = self.lane().await?;
        Ok(lane.ended_after(workflow, after, limit).await?)
    }
}
