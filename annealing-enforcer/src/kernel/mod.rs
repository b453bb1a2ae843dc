//! The enforcer's kernel: pin, diff, check and push for every asset of a partition, for ever. It is pure.
//!
//! Start reading at `step`. `state` holds the data with its invariants; the other modules are the transitions, named after
//! the steps of an asset. `admission` is the one place where a push is admitted.

mod admission;
mod ahead;
mod approvals;
mod branch;
mod check;
mod clock;
mod command;
mod cure;
mod diff;
mod dispatch;
mod early;
mod event;
mod explain;
mod floors;
mod follow_up;
mod forget;
mod guard;
mod moved;
mod notice;
mod observe;
mod ownership;
mod permit;
mod pin;
mod pinned;
mod policies;
mod probe;
mod prospect;
mod publish;
mod push;
mod record;
mod recover;
mod recovered;
mod refusal;
mod reopen;
mod report;
mod retry;
mod settle;
mod standing;
mod state;
mod status;
mod survey;
#[cfg(test)]
mod tests;
mod usage;
mod without_plugin;

use std::collections::BTreeMap;

use control_plane_runtime::claims::Claims;
use control_plane_store::records::MovedRecord;
use plugin_sdk::{FencingToken, Now};
use prodspec_model::Incarnation;

pub(crate) use admission::failed_check;
pub use approvals::ApprovalSet;
pub(crate) use early::before_intent;
pub use event::{Call, CheckCall, Effects, Event, News, PushCall, Record, Target};
pub use explain::{AssetStatus, Explanation, OTHERS, Prospective, Waiting};
pub use prospect::{Outcome, Prospect};
#[cfg(test)]
pub(crate) use standing::STANDINGS;
pub use state::{
    attempt::{Behind, Wait},
    edges::InProduction,
    numbers::SlotNo,
    numbers::TypeNo,
    people::{Command, Interventions},
};
pub use status::{Named, Status, UnknownPush};
pub use {
    crate::bug::Bug, branch::Branch, notice::Notice, recovered::AtFloor, recovered::Recovered,
};

use crate::config::{Config, TypeConfig};
use state::{
    ahead::Ahead, attempt::Attempts, census::Census, edges::Edges, followed::Followed,
    holds::Holds, ledger::Ledger, observations::Observations, ownership::Ownership, people::People,
    pins::Pins, registered::RegisteredType, schedule::Schedule, settle_waits::SettleWaits,
    table::Table,
};

/// Decides for one partition what is diffed, checked and pushed, and when.
#[derive(Debug)]
pub struct Kernel {
    config: Config,
    ownership: Ownership,
    kinds: Vec<RegisteredType>,
    table: Table,
    pins: Pins,
    attempts: Attempts,
    schedule: Schedule,
    observations: Observations,
    edges: Edges,
    claims: Claims<SlotNo>,
    holds: Holds,
    settle_waits: SettleWaits,
    followed: Followed,
    people: People,
    ahead: Ahead,
    census: Census,
    /// Renamed assets that took over from their old ids and have not settled since.
    moved: BTreeMap<SlotNo, MovedRecord>,
    ledger: Ledger,
}

impl control_plane_runtime::Kernel for Kernel {
    type Event = Event;
    type Effects = Effects;

    fn step(&mut self, now: Now, event: Event, out: &mut Effects) {
        self.schedule.step(now);
        match event {
            Event::DiffDone { run, answer } => self.diff_done(now, run, answer, out),
            Event::DiffsDone(all) => self.diffs_done(now, all, out),
            Event::CheckDone { run, answer } => self.check_done(now, run, answer, out),
            Event::PushDone { run, answer } => self.push_done(now, run, answer, out),
            Event::PushNotStarted { run, continuation } => {
                self.push_not_started(now, run, continuation, out)
            }
            Event::Observe { ticket, asset } => self.observe(now, ticket, &asset, out),
            Event::Usage {
                ticket,
                shared,
                but,
            } => self.ask_usage(now, ticket, shared, but, out),
            Event::Served {
                ticket,
                serving,
                but,
            } => {
                let served = self.served(now, &serving, &but);
                out.served.push((ticket, served));
            }
            Event::Durable(upto) => self.durable(now, upto, out),
            Event::Publish(incarnation) => self.publish(now, incarnation, out),
            Event::Pin { asset, pin } => self.move_pin(now, &asset, pin, out),
            Event::Actuate { heads, moves } => self.actuate(now, heads, moves, out),
            Event::Renewed(until) => self.ownership.renewed(until),
            Event::Person(command) => self.person(now, command, out),
            Event::Drain => self.drain(),
            Event::Tick => {}
            #[cfg(test)]
            Event::Break => panic!("on purpose"),
        }
        self.time_passed(now, out);
        self.dispatch(now, out);
        self.tell_pinned(now, out);
        self.tell_followed(now, out);
    }
}

impl Kernel {
    /// Creates a kernel for the partition of `latest` that knows no assets yet. See [`Kernel::recover`].
    fn new(
        now: Now,
        config: Config,
        kinds: Vec<TypeConfig>,
        token: FencingToken,
        owned: std::time::Duration,
        latest: Incarnation,
    ) -> Self {
        let seed = config.seed ^ token.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            ownership: Ownership::new(token, owned, now.mono),
            table: Table::new(kinds.iter().map(|kind| kind.name.clone()).collect(), latest),
            kinds: kinds.into_iter().map(RegisteredType::new).collect(),
            pins: Pins::default(),
            attempts: Attempts::default(),
            schedule: Schedule::new(now, config.drift_period, owned, seed),
            observations: Observations::default(),
            edges: Edges::default(),
            claims: Claims::default(),
            holds: Holds::default(),
            settle_waits: SettleWaits::default(),
            followed: Followed::default(),
            people: People::default(),
            ahead: Ahead::default(),
            census: Census::default(),
            moved: BTreeMap::new(),
            ledger: Ledger::new(now.mono),
            config,
        }
    }
}
