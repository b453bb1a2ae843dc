//! Workflows of which nothing new begins: what is live goes on, and what is started meanwhile waits.

use plugin_sdk::{By, Now, workflow::WorkflowName};

use super::{
    Lane,
    event::{Effects, Record, Reply},
    refused::Refused,
    say::WorkflowWord,
    state::{Execution, Phase, StepId},
};
use crate::{
    record::{DrainRecord, Entry, Said, Subject, What},
    view::Drained,
};

impl Lane {
    /// Takes a word for a workflow: a registered one, or one of a live execution, as operations are.
    pub(super) fn said_of_workflow(
        &mut self,
        now: Now,
        workflow: &WorkflowName,
        word: WorkflowWord,
        by: &By,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let refused = |why: &'static str| Refused::Workflow {
            workflow: workflow.clone(),
            word,
            why: why.into(),
        };
        match (word, self.drained.contains_key(workflow)) {
            (WorkflowWord::Drain, true) => return Err(refused("it is drained already")),
            (WorkflowWord::Resume, false) => {
                return Err(refused(
                    "no word drains it; if its starts wait, each says for what",
                ));
            }
            (WorkflowWord::Drain, false) => {
                let live = self.live.values().any(|it| it.id.workflow == *workflow);
                if !live && !self.settings.workflows.contains_key(workflow) {
                    return Err(self.no_workflow(workflow));
                }
                let (by, at) = (by.clone(), now.wall);
                let record = DrainRecord(Said { by, at });
                self.drained.insert(workflow.clone(), record.0.clone());
                let record = Some(Box::new(record));
                out.records.push(Record::Drained(workflow.clone(), record));
            }
            (WorkflowWord::Resume, true) => {
                self.drained.remove(workflow);
                out.records.push(Record::Drained(workflow.clone(), None));
                self.begin_drained(now, workflow, out);
            }
        }
        let entry = Entry {
            at: now.wall,
            machine: None,
            what: What::Said {
                word: word.to_string(),
                by: by.clone(),
            },
        };
        let about = Subject::Workflow(workflow.clone());
        out.records.push(Record::Told(about, entry));
        out.urgent = true;
        Ok(Reply::Taken)
    }

    /// Looks at the starts again that have waited for the end of a drain.
    fn begin_drained(&mut self, now: Now, workflow: &WorkflowName, out: &mut Effects) {
        let waits = |execution: &Execution| {
            let start = execution.start.as_deref();
            execution.id.workflow == *workflow && start.is_some_and(|it| it.phase == Phase::Due)
        };
        let all = self.live.iter().filter(|(_, execution)| waits(execution));
        let all: Vec<_> = all.map(|(no, _)| StepId::start(*no)).collect();
        for start in all {
            self.due_start(now, start, out);
        }
    }

    /// The word by which an execution does not begin. `None`: it may begin.
    pub(super) fn drains(&self, execution: &Execution) -> Option<&Said> {
        self.drained.get(&execution.id.workflow)
    }

    /// The workflows that are drained, by name.
    pub(super) fn show_drained(&self) -> Vec<Drained> {
        let all = self.drained.iter();
        let all = all.map(|(workflow, said)| Drained {
            workflow: workflow.clone(),
            said: said.clone(),
        });
        all.collect()
    }
}
