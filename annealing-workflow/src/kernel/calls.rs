//! Calls: their numbers, and when they are made or dropped.

use plugin_sdk::Now;

use super::{
    Bug, Lane,
    event::{Call, CallNo, CommitNo, Effects},
    state::StepId,
};

impl Lane {
    /// The number of the next call.
    pub(super) fn call_no(&mut self) -> CallNo {
        self.next_call += 1;
        CallNo(self.next_call)
    }

    /// Keeps a call until the record of its step, which is written now, is durable.
    pub(super) fn hold(&mut self, id: StepId, call: CallNo, made: Call, out: &mut Effects) {
        self.changed(id);
        out.urgent = true;
        self.held
            .push_back((CommitNo(self.commit.0 + 1), call, made));
    }

    /// Makes the calls whose attempts are durable, while the lease is fresh. An attempt that became durable too late is made
    /// again.
    pub(super) fn release(&mut self, now: Now, out: &mut Effects) {
        let mut late = Vec::new();
        while now.mono < self.leased_until()
            && let Some((_, call, made)) = self.held.pop_front_if(|(at, ..)| *at <= self.durable)
        {
            match (&made, self.calls.get(&call).copied()) {
                (Call::Run(_, run), Some(id)) if now.mono >= run.begins_by => late.push((call, id)),
                _ => out.calls.push(made),
            }
        }
        for (call, id) in late {
            self.calls.remove(&call);
            self.running -= 1;
            self.due(now, id, out);
        }
    }

    /// Drops a call that is neither of a function nor of a probe.
    pub(super) fn drop_call(&mut self, call: CallNo, out: &mut Effects) {
        self.calls.remove(&call);
        let before = self.held.len();
        self.held.retain(|(_, held, _)| *held != call);
        if self.held.len() == before {
            out.calls.push(Call::Abandon(call));
        }
    }

    /// Tells the shell that the answer of a call does not count any more.
    pub(super) fn abandon(&mut self, call: CallNo, out: &mut Effects) {
        if self.planted(Bug::TrustLateAnswer) {
            return;
        }
        if self.calls.contains_key(&call) {
            self.running -= 1;
        }
        self.drop_call(call, out);
    }
}
