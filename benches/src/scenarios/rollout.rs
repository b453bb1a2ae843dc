//! `rollout`: the kernel of one policy group rolls out a change of all its assets, in virtual time, with the standard
//! policy layers.
//!
//! Phases: `begin` takes over a group whose assets all differ and makes the first selection; `forward` moves half of the
//! targets, 1,000 at once; `look` checks health with nothing changed; `takeover` restores the rollout from its records;
//! `back` takes back all that moved. `edits` is `begin` as the rollout of a change by edit, and
//! `edit` moves 300 of its targets, 10 at once. `secs` and `cpu_s` are those of a whole phase, `p50_us` and `p99_us` the wall
//! times of its steps of the kernel.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use annealing_strategist::{
    Config,
    kernel::{Call, Command, Effects, Event, Kernel, Record, Recovered, Step},
    policy,
    record::{By, Rollout, TargetRecord},
};
use control_plane_runtime::Kernel as _;
use futures::FutureExt;
use plugin_sdk::{
    AssetType, AssetTypes, GroupHead, Health, Mono, Now, Pin, SelectRequest, Selection, Standing,
    SyncState, TargetSelection,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Incarnation, IncarnationNo, Snapshot,
    addons::{PhysicalCluster, RolloutPolicyRef},
    rollout::{Canary, RolloutPolicy},
};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error, assets,
    measure::{Meter, Sample, now},
    ours::incarnation,
};

/// The scenario `rollout` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "rollout",
    about: "begin, forward, look at health, takeover and rollback of the kernel of one group",
    target: "begin and takeover 0.5 s of processor time, look 5 ms, no step above 50 ms",
    sizes: Sizes {
        named: 100_000,
        all: 100_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours)],
};

/// The policy asset of the group.
const POLICY: &str = "policy/jobs";
/// Number of measured looks at health.
const LOOKS: usize = 50;
/// Number of targets that one step of a change by edit moves.
const EDITS: u32 = 10;
/// Number of measured steps of a change by edit.
const STEPS: usize = 30;
/// Wall-clock time of the begin; any time would do.
const START: jiff::Timestamp = jiff::Timestamp::constant(1_772_625_600, 0);

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let group = Group::new(n, 1_000)?;
    let mut samples = Vec::new();
    let mut rollout = group.measure("begin", &mut samples, n, |group| {
        Rolling::begin(group, group.recovered())
    })?;
    rollout.phase("forward", &mut samples, |it| it.forward(n / 2))?;
    rollout.phase("look", &mut samples, Rolling::look)?;
    let stored = rollout.recovered(&group);
    let mut rollout = group.measure("takeover", &mut samples, n, |group| {
        Rolling::begin(group, stored)
    })?;
    rollout.phase("back", &mut samples, Rolling::back)?;
    let group = Group::new(n, EDITS)?;
    let change = group.change()?;
    let mut rollout = group.measure("edits", &mut samples, n, |group| {
        Rolling::begin(group, change)
    })?;
    rollout.phase("edit", &mut samples, |it| {
        it.until(|it| it.rows.len() >= n.min(STEPS * EDITS as usize))
    })?;
    Ok(samples)
}

/// A group at rest, and the incarnation that changes all its assets.
struct Group {
    policy: AssetId,
    types: Arc<AssetTypes>,
    old: Incarnation,
    new: Incarnation,
    members: Vec<AssetId>,
}

impl Group {
    /// A group of `n` assets, of which at most `in_flight` are under way at the same time.
    fn new(n: usize, in_flight: u32) -> Result<Self, Error> {
        let policy = AssetId::new(POLICY)?;
        let caution = RolloutPolicy {
            canary: Some(Canary {
                count: 10,
                bake_secs: 60,
            }),
            max_in_flight: Some(in_flight),
            bake_secs: 60,
            ..RolloutPolicy::default()
        };
        let caution = Asset::builder(policy.clone()).payload(&caution)?.build()?;
        let at = |version| -> Result<Vec<Asset>, Error> {
            (0..n).map(|no| governed(&policy, no, version)).collect()
        };
        let first = [at(1)?, vec![caution]].concat();
        let first = Snapshot::empty().edit(IncarnationNo(1), first, &[]);
        let old = incarnation(None, first)?;
        let second = old.snapshot().edit(IncarnationNo(2), at(2)?, &[]);
        let new = incarnation(Some(&old), second)?;
        let mut members: Vec<AssetId> = at(1)?.iter().map(Asset::id).collect();
        members.sort();
        let mut types = AssetTypes::default();
        types.add(AssetType::<assets::JobType>::new());
        types.add(AssetType::<RolloutPolicy>::new().modelled_only());
        Ok(Self {
            policy,
            types: Arc::new(types),
            old,
            new,
            members,
        })
    }

    /// The data from which a kernel begins the rollout.
    fn recovered(&self) -> Recovered {
        let head = GroupHead::At(self.old.clone());
        let nothing =
            Recovered::nothing(self.policy.clone(), self.new.clone(), self.members.clone());
        Recovered {
            head: Some(head.clone()),
            heads: Arc::new([(self.policy.clone(), head)].into()),
            ..nothing
        }
    }

    /// The data from which a kernel begins the rollout of a change: with a record of which nothing has moved.
    fn change(&self) -> Result<Recovered, Error> {
        let begun = Rolling::begin(self, self.recovered())?;
        Ok(Recovered {
            newest: begun.rollout,
            to: Some(self.new.clone()),
            rolling: self.members.clone(),
            pending: Vec::new(),
            is_change: true,
            ..self.recovered()
        })
    }

    /// Measures the work that ends with the first step of a rollout.
    fn measure(
        &self,
        phase: &str,
        samples: &mut Vec<Sample>,
        n: usize,
        begin: impl FnOnce(&Self) -> Result<Rolling, Error>,
    ) -> Result<Rolling, Error> {
        let meter = Meter::start()?;
        let mut rolling = begin(self)?;
        let sample = meter.stop(phase, n)?;
        samples.push(sample.latencies(std::mem::take(&mut rolling.steps)));
        Ok(rolling)
    }
}

fn governed(policy: &AssetId, no: usize, version: u64) -> Result<Asset, Error> {
    let cluster = format!("cluster-{:02}", no % 50);
    let policy = AssetRef::to(policy.clone());
    let job = assets::job(no, version)?.edit();
    let job = job.addon(&RolloutPolicyRef { policy })?;
    Ok(job.addon(&PhysicalCluster { cluster })?.build()?)
}

/// A live rollout, with the records that it has stored.
struct Rolling {
    kernel: Kernel,
    old: Incarnation,
    new: Incarnation,
    now: Now,
    calls: VecDeque<Call>,
    rollout: Option<Rollout>,
    rows: BTreeMap<AssetId, TargetRecord>,
    pins: BTreeMap<AssetId, Pin>,
    /// Assets whose pins have moved, and that have not settled since.
    moved: Vec<(AssetId, Pin)>,
    /// The wall times of the kernel's steps.
    steps: Vec<Duration>,
}

impl Rolling {
    /// Restores a kernel, and goes on until time has to pass.
    fn begin(group: &Group, recovered: Recovered) -> Result<Self, Error> {
        let wall = START + Duration::from_secs(3600);
        let now = Now {
            mono: Mono(3_600_000_000_000),
            wall,
        };
        let rows = recovered.rows.iter().cloned().collect();
        let pins = recovered.pins.iter();
        let pins = pins.map(|(asset, standing)| (asset.clone(), standing.pin));
        let pins = pins.collect();
        let rollout = recovered.newest.clone();
        let mut effects = Effects::default();
        let config = Config::default();
        let kernel = Kernel::recover(now, config, group.types.clone(), recovered, &mut effects);
        let mut rolling = Self {
            kernel,
            old: group.old.clone(),
            new: group.new.clone(),
            now,
            calls: VecDeque::new(),
            rollout,
            rows,
            pins,
            moved: Vec::new(),
            steps: Vec::new(),
        };
        rolling.take(effects);
        rolling.answer()?;
        Ok(rolling)
    }

    /// Measures one phase of a live rollout. `n` of the sample is the number of the kernel's steps.
    fn phase(
        &mut self,
        phase: &str,
        samples: &mut Vec<Sample>,
        work: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.steps.clear();
        let meter = Meter::start()?;
        work(self)?;
        let steps = std::mem::take(&mut self.steps);
        let sample = meter.stop(phase, steps.len())?;
        samples.push(sample.latencies(steps));
        Ok(())
    }

    fn step(&mut self, event: Event) {
        let mut effects = Effects::default();
        let start = now();
        self.kernel.step(self.now, event, &mut effects);
        self.steps.push(start.elapsed());
        self.take(effects);
    }

    fn take(&mut self, effects: Effects) {
        self.calls.extend(effects.calls);
        for Step { records, moves, .. } in effects.steps {
            for record in records {
                match record {
                    Record::Rollout(rollout) => self.rollout = Some(*rollout),
                    Record::Target(asset, Some(row)) => drop(self.rows.insert(asset, row)),
                    Record::Target(asset, None) => drop(self.rows.remove(&asset)),
                    _ => {}
                }
            }
            for (asset, pin) in moves {
                self.pins.insert(asset.clone(), pin);
                self.moved.push((asset, pin));
            }
        }
    }

    /// Answers all calls: everything is healthy.
    fn answer(&mut self) -> Result<(), Error> {
        let stack = policy::standard();
        while let Some(call) = self.calls.pop_front() {
            let event = match call {
                Call::Select(call, request) => {
                    let answer = Ok(select(&stack, *request)?);
                    Event::Selected { call, answer }
                }
                Call::Judge(call, request) => {
                    let answer = Ok(Health::healthy(request.now));
                    Event::Judged { call, answer }
                }
            };
            self.step(event);
        }
        Ok(())
    }

    /// An asset that is in sync at its pin.
    fn settled(&self, asset: &AssetId, pin: Pin, since: jiff::Timestamp) -> (AssetId, Standing) {
        let at = match pin.incarnation() {
            Some(no) if no == self.new.no() => &self.new,
            _ => &self.old,
        };
        let content = at.asset(asset).map(|asset| asset.digest());
        let standing = Standing::at(pin, content, SyncState::InSync { since });
        (asset.clone(), standing)
    }

    /// Settles all that has moved, and lets time pass until the next tick.
    fn turn(&mut self) -> Result<(), Error> {
        let since = self.now.wall;
        let moved = std::mem::take(&mut self.moved).into_iter();
        let settled = moved.map(|(asset, pin)| self.settled(&asset, pin, since));
        let standings: Vec<_> = settled.collect();
        if !standings.is_empty() {
            self.step(Event::Standings(standings));
            self.answer()?;
        }
        let second = self.now.mono + Duration::from_secs(1);
        let wake = self.kernel.next_wake().unwrap_or(second).max(second);
        self.now.wall += wake.since(self.now.mono);
        self.now.mono = wake;
        self.step(Event::Tick);
        self.answer()
    }

    /// Lets time pass until it is so.
    fn until(&mut self, is_so: impl Fn(&Self) -> bool) -> Result<(), Error> {
        for _ in 0..10_000 {
            if is_so(self) {
                return Ok(());
            }
            self.turn()?;
        }
        let (rows, moved) = (self.rows.len(), self.moved.len());
        Err(format!("{rows} targets have moved, {moved} of them are on their way").into())
    }

    /// Moves so many targets, until all of them have settled.
    fn forward(&mut self, targets: usize) -> Result<(), Error> {
        self.until(|it| it.rows.len() >= targets && it.moved.is_empty())
    }

    /// Looks at health while the rollout is paused, so that no target moves.
    fn look(&mut self) -> Result<(), Error> {
        self.command(Command::Pause);
        for _ in 0..LOOKS {
            self.turn()?;
        }
        Ok(())
    }

    fn back(&mut self) -> Result<(), Error> {
        self.command(Command::RollBack);
        self.answer()?;
        self.until(|it| {
            let rollout = it.rollout.as_ref();
            rollout.is_some_and(|rollout| rollout.ended_at.is_some())
        })
    }

    fn command(&mut self, command: Command) {
        let by = By::new("benches", "measure");
        let reply = 1;
        self.step(Event::Command { command, by, reply });
    }

    /// The stored data, as a new owner reads it.
    fn recovered(&self, group: &Group) -> Recovered {
        let (since, old) = (self.now.wall, group.recovered());
        let standing = |(asset, pin): (&AssetId, &Pin)| self.settled(asset, *pin, since);
        let rows = self.rows.iter();
        Recovered {
            newest: self.rollout.clone(),
            to: Some(self.new.clone()),
            rolling: group.members.clone(),
            pending: Vec::new(),
            rows: rows
                .map(|(asset, row)| (asset.clone(), row.clone()))
                .collect(),
            pins: self.pins.iter().map(standing).collect(),
            ..old
        }
    }
}

fn select(stack: &impl TargetSelection, request: SelectRequest) -> Result<Selection, Error> {
    let answer = stack.select(request).now_or_never();
    answer.ok_or("a layer did not answer at once")?
}
