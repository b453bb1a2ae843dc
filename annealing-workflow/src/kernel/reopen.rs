//! Restarts of executions that have ended: they are live again.

use plugin_sdk::{By, Now, operation::StartCause, workflow::MachineName};

use super::{
    Lane,
    event::{Call, Effects, Record, Reply, digest},
    recover::RecoveredExecution,
    refused::Refused,
    say::Say,
    state::{ExecutionNo, StepId},
    text::cut,
};
use crate::record::{Changed, Entry, KeyRecord, What};

impl Lane {
    /// Restarts machines of an ended execution, as the store has it. `known`: the record of its key. All its records are
    /// written again, because retention may be about to remove them.
    pub(super) fn reopen(
        &mut self,
        now: Now,
        mut ended: RecoveredExecution,
        machines: Vec<MachineName>,
        by: &By,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<Reply, Refused> {
        let id = ended.id.clone();
        if self.is_live(&id) {
            return self.said(now, &id, &Say::Restart(machines), by, out);
        }
        self.may_reopen(&ended, &machines)?;
        self.open_key(&mut ended, known, out)?;
        ended.live.given_up = false;
        ended.live.terminated = None;
        self.written_again(&ended, out);
        let no = ExecutionNo(id.n);
        let holder = super::holder(&id);
        // Its fields, which were to be given up after its end.
        self.held
            .retain(|(.., call)| !matches!(call, Call::Release(of) if *of == holder));
        if let Some(key) = &ended.live.key {
            let changed = ended.changed.as_ref();
            self.revived(&ended.live.origin.cause, key, changed);
        }
        self.reopened.insert(no, ended.live.ends);
        self.add(now, ended, &mut Vec::new());
        let begun = self.live.get(&no).into_iter();
        let begun: Vec<_> = begun.flat_map(|it| it.steps.machines()).collect();
        for machine in begun {
            self.changed(StepId {
                execution: no,
                machine,
            });
        }
        let word = cut(Say::Restart(machines.clone()).to_string());
        let by = by.clone();
        self.log.entry(no).or_default().push(Entry {
            at: now.wall,
            machine: None,
            what: What::Said { word, by },
        });
        self.live_changed.insert(no);
        self.restart(now, no, &machines, out)?;
        if self.live.get(&no).is_some_and(|it| self.is_gated(it)) {
            self.gate_again(now, no, out);
        }
        out.urgent = true;
        Ok(Reply::Taken)
    }

    /// Whether an execution can be live again as it was read.
    fn may_reopen(
        &self,
        ended: &RecoveredExecution,
        machines: &[MachineName],
    ) -> Result<(), Refused> {
        let id = &ended.id;
        let before = self.reopened.get(&ExecutionNo(id.n));
        if before.is_some_and(|before| ended.live.ends <= *before) {
            return Err(Refused::EndedAgain(id.clone()));
        }
        if self.live.len() >= self.settings.config.live {
            return Err(Refused::TooMany(self.live.len()));
        }
        let named = |name: &&MachineName| ended.workflow.machine_no(name).is_none();
        if let Some(machine) = machines.iter().find(named) {
            let names = ended.workflow.numbers();
            let names: Vec<_> = names
                .map(|no| ended.workflow.machine(no).name.to_string())
                .collect();
            return Err(Refused::NoMachine {
                execution: id.clone(),
                machine: machine.clone(),
                machines: names.join(", "),
            });
        }
        Ok(())
    }

    /// Tells the schedule or the watch of a run that it is live.
    pub(super) fn revived(&mut self, cause: &StartCause, key: &str, changed: Option<&Changed>) {
        match cause {
            StartCause::Slot { schedule, at } => self.schedules.revived(schedule, *at),
            StartCause::Watch { watch, .. } => {
                let changed = changed.iter().flat_map(|it| &it.assets);
                let assets: Vec<_> = changed.map(|it| it.asset.clone()).collect();
                self.watches.revived(watch, key, &assets);
            }
            _ => {}
        }
    }

    /// Makes the key of the execution that of a live one, unless another execution has got it meanwhile. The key of an
    /// asset is that of its last run: at most one is live.
    fn open_key(
        &mut self,
        ended: &mut RecoveredExecution,
        known: Option<Box<KeyRecord>>,
        out: &mut Effects,
    ) -> Result<(), Refused> {
        let Some(key) = ended.live.key.clone() else {
            return Ok(());
        };
        let name = (ended.id.workflow.clone(), key);
        let live = self.live_under(&name);
        let recent = self.recent.get(&name);
        let record = recent.or(known.as_deref());
        let of_asset = live.is_some_and(|live| !live.about.runs.is_empty())
            || record.is_some_and(|record| !record.runs.is_empty());
        let newest = live.map(|live| &live.id);
        let newest = newest.or(record.map(|record| &record.execution));
        let other = newest.filter(|newest| **newest != ended.id);
        if other.is_some() && !of_asset {
            ended.live.key = None;
            return Ok(());
        }
        if let Some(other) = other {
            let runs = record.map_or(&[][..], |record| &record.runs);
            let replaced = !runs.iter().any(|run| run.execution == ended.id);
            let why = match live.is_some() {
                true => format!("{other} is live for the same asset; wait until it has ended"),
                false => {
                    format!("a later run for the same content replaces it; the last is {other}")
                }
            };
            if live.is_some() || replaced {
                return Err(Refused::DoesNotFit {
                    execution: ended.id.clone(),
                    word: "restart".to_owned(),
                    why,
                });
            }
        }
        let recent = self.recent.remove(&name);
        let record = recent.or(known.map(|known| *known));
        ended.runs = record.map(|it| it.runs).unwrap_or_default();
        super::runs::live_again(&mut ended.runs, &ended.id);
        out.records.push(Record::Key(Box::new(KeyRecord {
            workflow: name.0,
            key: name.1,
            execution: ended.id.clone(),
            input: digest(&ended.input, ended.live.origin.operation),
            outcome: None,
            until: None,
            runs: ended.runs.clone(),
        })));
        Ok(())
    }

    fn written_again(&mut self, ended: &RecoveredExecution, out: &mut Effects) {
        self.stored.insert(ended.workflow.digest());
        out.records.push(Record::Definition(ended.workflow.clone()));
        out.records.push(Record::Reopened(ended.id.clone()));
        if !ended.input.is_null() {
            let input = ended.input.clone();
            out.records.push(Record::Input(ended.id.clone(), input));
        }
        if let Some(changed) = &ended.changed {
            let changed = changed.clone();
            out.records.push(Record::Changed(ended.id.clone(), changed));
        }
        for (machine, output) in &ended.outputs {
            let output = Some(Box::new(output.clone()));
            out.records
                .push(Record::Output(ended.id.clone(), machine.clone(), output));
        }
    }
}
