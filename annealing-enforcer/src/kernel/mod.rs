//! The enforcer's kernel: pin, diff, check and push for every asset of a partition, for ever. It is pure.
//!
//! Start reading at `step`. `iterate` and `waiting` hold the steps that an asset goes through. `admission` is the one
//! place where a push is admitted, `outcome` handles its result, and `memory` decides what is recorded.

mod admission;
mod attempts;
mod branch;
mod command;
mod cure;
mod event;
mod explain;
mod follow;
mod forget;
mod guard;
mod memory;
mod notice;
mod observe;
mod outcome;
mod owned;
mod permit;
mod pin_status;
mod pins;
mod probe;
mod prospect;
mod publish;
mod recover;
mod refusal;
mod reopen;
mod state;
mod status;
mod survey;
#[cfg(test)]
mod tests;
mod usage;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use plugin_sdk::{FencingToken, Mono, Now, Pin};
use prodspec_model::{Incarnation, IncarnationNo};

pub use branch::{Branch, Bug};
pub use event::{Call, CheckCall, Effects, Event, PushCall, Record, Target};
pub use explain::{AssetStatus, Explanation, OTHERS, Waiting};
pub use notice::Notice;
pub use prospect::{Outcome, Prospect};
pub use recover::Recovered;
pub use state::attempt::{Behind, Wait};
pub use state::edges::InProduction;
pub use state::people::{Command, Interventions};
pub use state::registered::TypeNo;
pub use state::slot::SlotNo;
pub use status::{Named, Reason, Status, UnknownPush};

use crate::config::{Config, TypeConfig};
use cure::LastSettled;
use observe::Observations;
use owned::OwnedClock;
use state::attempt::{AttemptNo, Attempts};
use state::claims::Claims;
use state::edges::Edges;
use state::people::People;
use state::registered::RegisteredType;
use state::schedule::{Drift, Timers};
use state::slot::{Class, State, Trigger};
use state::table::Table;

/// Decides for one partition what is diffed, checked and pushed, and when.
#[derive(Debug)]
pub struct Kernel {
    config: Config,
    token: FencingToken,
    lease_until: Mono,
    /// `true` once a shutdown has begun: no new diff, check or push starts.
    draining: bool,
    owned: OwnedClock,
    kinds: Vec<RegisteredType>,
    table: Table,
    attempts: Attempts,
    timers: Timers,
    drift: Drift,
    observations: Observations,
    claims: Claims,
    /// Number of pushes in flight that rely on an asset, by slot of that asset.
    holds: BTreeMap<SlotNo, u32>,
    /// Assets that wait until no push of an asset, and none that relies on it, is in flight; by slot of that asset.
    hold_waiters: BTreeMap<SlotNo, BTreeSet<SlotNo>>,
    /// Assets that wait until an asset settles, by slot of that asset.
    settle_waiters: BTreeMap<SlotNo, BTreeSet<SlotNo>>,
    /// Assets found in sync while checks were under way, each with `settles` at that time: an older check may name one.
    settle_log: BTreeMap<SlotNo, u64>,
    /// Number of times that an asset was found in sync while checks were under way.
    settles: u64,
    /// Number of entries kept for checks under way at which entries older than all of these checks are dropped.
    many_seen: usize,
    checking: u32,
    edges: Edges,
    last_settled: LastSettled,
    people: People,
    /// Pins of assets that have no slot: not known yet, or no longer known.
    early_pins: BTreeMap<prodspec_model::AssetId, Pin<Incarnation>>,
    /// Sync states of the assets with a pin of their own, by slot. The strategist follows them.
    pin_statuses: BTreeMap<SlotNo, pin_status::Stand>,
    /// Governed assets whose content differs from that in the newest incarnation.
    behind: BTreeSet<SlotNo>,
    /// Assets that are settled with their turndown addon: their resources are gone from production.
    turned_down: BTreeSet<SlotNo>,
    /// Assets that have no intent and whose resource may exist in production.
    orphaned: BTreeSet<SlotNo>,
    /// Assets whose slots were given up in this step.
    gone: Vec<prodspec_model::AssetId>,
    /// Time at which the last step ran.
    stepped: Now,
    /// Number of assets that have an intent and a plugin and are not settled.
    unsettled: u32,
    /// Assets that settled without a push and are not recorded yet.
    unrecorded: VecDeque<SlotNo>,
    remember_at: Mono,
    floor: Option<IncarnationNo>,
    recorded: u64,
    journaling: VecDeque<(u64, AttemptNo)>,
    random: u64,
    branches: BTreeMap<Branch, u64>,
}

impl control_plane_runtime::Kernel for Kernel {
    type Event = Event;
    type Effects = Effects;

    fn step(&mut self, now: Now, event: Event, out: &mut Effects) {
        self.stepped = now;
        match event {
            Event::DiffDone { run, answer } => self.diff_done(now, run, answer, out),
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
            } => self.ask_usage(now, (ticket, shared, but), out),
            Event::Durable(upto) => self.durable(now, upto, out),
            Event::Publish(incarnation) => self.publish(now, incarnation, out),
            Event::Pin { asset, pin } => self.move_pin(now, &asset, pin, out),
            Event::Actuate { heads, moves } => self.actuate(now, heads, moves, out),
            Event::Renewed(until) => self.lease_until = until,
            Event::Person(command) => self.person(now, command, out),
            Event::Drain => self.draining = !self.planted(Bug::StartWhileDraining),
            Event::Tick => {}
            #[cfg(test)]
            Event::Break => panic!("on purpose"),
        }
        self.time_passed(now, out);
        self.dispatch(now, out);
    }
}

impl Kernel {
    /// Creates a kernel for the partition of `latest` that knows no assets yet. See [`Kernel::recover`].
    fn new(
        now: Now,
        config: Config,
        kinds: Vec<TypeConfig>,
        token: FencingToken,
        owned: Duration,
        latest: Incarnation,
    ) -> Self {
        Self {
            token,
            lease_until: Mono(0),
            draining: false,
            owned: OwnedClock::new(owned, now.mono),
            table: Table::new(kinds.iter().map(|kind| kind.name.clone()).collect(), latest),
            kinds: kinds.into_iter().map(RegisteredType::new).collect(),
            attempts: Attempts::default(),
            timers: Timers::default(),
            drift: Drift::new(config.drift_period, now.mono, owned),
            observations: Observations::default(),
            claims: Claims::default(),
            holds: BTreeMap::new(),
            hold_waiters: BTreeMap::new(),
            settle_waiters: BTreeMap::new(),
            settle_log: BTreeMap::new(),
            settles: 0,
            many_seen: 0,
            checking: 0,
            edges: Edges::default(),
            last_settled: LastSettled::default(),
            people: People::default(),
            early_pins: BTreeMap::new(),
            pin_statuses: BTreeMap::new(),
            behind: BTreeSet::new(),
            turned_down: BTreeSet::new(),
            orphaned: BTreeSet::new(),
            gone: Vec::new(),
            stepped: now,
            unsettled: 0,
            unrecorded: VecDeque::new(),
            remember_at: now.mono + memory::REMEMBER_EVERY,
            floor: None,
            recorded: 0,
            journaling: VecDeque::new(),
            random: config.seed ^ token.0.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            branches: BTreeMap::new(),
            config,
        }
    }

    /// Time at which the kernel needs an [`Event::Tick`] if no other event comes before. `None`: no time.
    pub fn next_wake(&self, now: Now) -> Option<Mono> {
        if !self.may_start(now) {
            return self.timers.next();
        }
        let probes = self
            .kinds
            .iter()
            .filter(|kind| kind.queued > 0 || !kind.asked.is_empty())
            .filter(|kind| kind.diffs < kind.config.diffs)
            .filter_map(|kind| kind.breaker.probe_at());
        let pushes = self.kinds.iter().filter_map(RegisteredType::push_probe_at);
        let drift = self.drift.next(self.table.len());
        let remember = (!self.unrecorded.is_empty()).then_some(self.remember_at);
        let observation = self.observations.next_deadline();
        self.timers
            .next()
            .into_iter()
            .chain(observation)
            .chain(drift)
            .chain(probes)
            .chain(pushes)
            .chain(remember)
            .chain([self.owned.note_at()])
            .min()
    }

    /// Number of times that each branch of the kernel was taken.
    pub fn branches(&self) -> &BTreeMap<Branch, u64> {
        &self.branches
    }

    /// Number of assets that have an intent and are not settled.
    pub fn unsettled(&self) -> u32 {
        self.unsettled
    }

    /// Returns whether `run` is the newest call for its asset.
    pub fn is_newest(&self, run: plugin_sdk::Run) -> bool {
        let slot = SlotNo::of_run(run);
        slot.is_below(self.table.len()) && self.table.slot(slot).n == run.n
    }

    /// Number of pushes that are admitted or under way, follow-ups included.
    pub fn pushing(&self) -> usize {
        if self.planted(Bug::NoDrain) {
            return 0;
        }
        let pushing = |it: &&state::attempt::Attempt| {
            matches!(
                it.phase,
                state::attempt::Phase::Journaling(_)
                    | state::attempt::Phase::Pushing
                    | state::attempt::Phase::Continuing
            )
        };
        self.attempts.iter().filter(pushing).count()
    }

    /// The newest incarnation that enforcement has taken in.
    pub fn latest(&self) -> &Incarnation {
        self.table.latest()
    }

    fn count(&mut self, branch: Branch) {
        *self.branches.entry(branch).or_default() += 1;
    }

    /// Whether a test leaves this guard out on purpose.
    #[cfg_attr(not(feature = "planted-bugs"), allow(clippy::unused_self))]
    fn planted(&self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.config.planted == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }

    /// Whether this process still holds the lease. After two thirds of a term without renewal it counts as not held.
    fn has_lease(&self, now: Now) -> bool {
        now.mono < self.lease_until || self.planted(Bug::DropFence)
    }

    /// Whether a new call may start: the lease is held and no shutdown has begun.
    fn may_start(&self, now: Now) -> bool {
        self.has_lease(now) && !self.draining
    }

    fn may_diff(&self, now: Now, kind: TypeNo) -> bool {
        let kind = &self.kinds[kind.index()];
        kind.diffs < kind.config.diffs && kind.breaker.allows(now.mono) && self.may_start(now)
    }

    /// A uniformly random number below `below`, from the seed.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    /// Requests a diff of an asset. It is queued, runs after the current one, or is dropped if the asset has to wait.
    fn trigger(&mut self, now: Now, slot: SlotNo, trigger: Trigger, class: Class) {
        // The slot was given up while the asset waited.
        if self.table.is_free(slot) {
            return;
        }
        let entry = self.table.slot_mut(slot);
        match entry.state {
            State::Idle => {}
            State::Queued if class >= entry.class => return,
            State::Queued => {}
            State::Running => {
                if trigger != Trigger::DriftScan {
                    // A trigger that ends a wait is not replaced by one that does not.
                    if !entry.has(state::slot::flag::RERUN)
                        || state::slot::cuts(trigger)
                        || !state::slot::cuts(entry.trigger)
                    {
                        entry.trigger = trigger;
                    }
                    entry.set(state::slot::flag::RERUN, true);
                    entry.class = entry.class.min(class);
                }
                return;
            }
            State::Waiting => {
                let at = entry.attempt;
                if self.must_wait(slot) {
                    return;
                }
                let patient = self.attempts.at(at).is_some_and(
                    |it| matches!(&it.phase, state::attempt::Phase::Waiting(wait) if wait.is_patient()),
                );
                if (patient && !state::slot::cuts(trigger)) || trigger == Trigger::DriftScan {
                    return;
                }
            }
        }
        self.enqueue(now, slot, trigger, class);
    }

    /// Puts an asset into the queue of its plugin, from any state.
    fn enqueue(&mut self, now: Now, slot: SlotNo, trigger: Trigger, class: Class) {
        let entry = self.table.slot_mut(slot);
        if entry.state != State::Queued {
            self.kinds[entry.kind.index()].queued += 1;
        }
        (entry.state, entry.trigger, entry.class) = (State::Queued, trigger, class);
        self.kinds[entry.kind.index()]
            .ready
            .push(class, slot, now.mono);
        if let Some(attempt) = self.attempts.at_mut(entry.attempt) {
            attempt.phase = state::attempt::Phase::Queued;
            attempt.advance();
        }
    }

    /// Starts diffs and observations for which the plugins have capacity.
    fn dispatch(&mut self, now: Now, out: &mut Effects) {
        // Starting a diff for one type may wake an asset of another type.
        while TypeNo::all(self.kinds.len()).any(|kind| self.start_diffs(now, kind, out)) {}
        self.forget_seen();
        self.forget_gone(out);
        if !self.unrecorded.is_empty() {
            self.remember_quiet(now, out);
        }
    }

    /// Starts the diffs and observations for which one plugin has capacity. Returns whether it started any diff.
    fn start_diffs(&mut self, now: Now, kind: TypeNo, out: &mut Effects) -> bool {
        if self.kinds[kind.index()].breaker.is_open() && self.start_probe(now, kind, out) {
            return true;
        }
        let mut any = false;
        self.start_observations(now, kind, out);
        while self.kinds[kind.index()].queued > 0 && self.may_diff(now, kind) {
            let table = &self.table;
            let stale = |slot: SlotNo, class| {
                let slot = table.slot(slot);
                slot.state != State::Queued || slot.class != class || slot.kind != kind
            };
            let patience = self.config.drift_period / 4;
            let Some(slot) = self.kinds[kind.index()]
                .ready
                .pop(now.mono, patience, stale)
            else {
                break;
            };
            self.kinds[kind.index()].queued -= 1;
            self.start_diff(now, slot, out);
            any = true;
        }
        any
    }

    /// Handles everything that is due: timers, deadlines of observations, probes and the drift scan.
    fn time_passed(&mut self, now: Now, out: &mut Effects) {
        let attempts = &self.attempts;
        self.timers.tidy(|at, generation| {
            attempts
                .at(at)
                .is_some_and(|it| it.generation == generation)
        });
        while let Some((due, at, generation)) = self.timers.pop_due(now.mono) {
            self.timer_fired(now, due, (at, generation), out);
        }
        if self
            .observations
            .next_deadline()
            .is_some_and(|at| at <= now.mono)
        {
            self.expire_observations(now, out);
        }
        self.expire_asked(now, out);
        let amounts = &mut self.claims.amounts;
        amounts.forget(now.mono, self.config.evidence_age);
        if self.has_lease(now) {
            self.note_owned(now, out);
            for kind in TypeNo::all(self.kinds.len()) {
                let probe = self.kinds[kind.index()].push_probe_at();
                if probe.is_some_and(|at| at <= now.mono) {
                    self.grant_permits(now, kind, out);
                }
            }
            while let Some(slot) = self.drift.pop_due(now.mono, self.table.len()) {
                self.trigger(now, slot, Trigger::DriftScan, Class::Drift);
            }
        }
    }

    /// Ends the attempt of an asset. The asset is idle then, or queued again if a rerun was requested.
    fn finish(&mut self, now: Now, slot: SlotNo) {
        let entry = self.table.slot_mut(slot);
        let rerun = entry.has(state::slot::flag::RERUN);
        entry.set(state::slot::flag::RERUN, false);
        entry.state = State::Idle;
        let (trigger, class) = (entry.trigger, entry.class);
        self.give_back_all(now, slot);
        self.claims.rates.forget(slot);
        let attempt = std::mem::replace(&mut self.table.slot_mut(slot).attempt, AttemptNo::NONE);
        let woken_for = self
            .attempts
            .at_mut(attempt)
            .and_then(|it| it.woken_for.take());
        self.attempts.remove(attempt);
        self.pass_on(now, woken_for);
        if rerun {
            self.enqueue(now, slot, trigger, class);
        }
        self.give_up(now, slot);
    }
}
