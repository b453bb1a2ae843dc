//! A kernel with a toy enforcer, in virtual time: steps become durable on request, and another kernel can take over.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::Kernel as _;
use jiff::Timestamp;
use plugin_sdk::{
    AssetType, AssetTypes, Finding, Health, Judgement, Mono, Now, Pin, Standing, TargetSelection,
};
use prodspec_model::{
    Asset, AssetBuilder, AssetId, AssetRef, Incarnation, IncarnationNo, Message,
    addons::{PhysicalCluster, RolloutPolicyRef},
    rollout::RolloutPolicy,
};
use serde::{Deserialize, Serialize};

pub(in crate::kernel) use plugin_sdk::testing::seal;

use super::{
    plane::{Fed, Part, Plane},
    taken_over::take_over,
};
use crate::{
    config::Config,
    kernel::{Call, Command, Counts, Effects, Event, Kernel, Refused, Step, View},
    policy,
    record::{By, State},
};

#[derive(Serialize, Deserialize)]
pub(super) struct Thing {
    pub(super) size: u64,
}

impl Message for Thing {
    const TYPE: &'static str = "test.v1.Thing";
}

/// The payload of a type that is only modelled.
#[derive(Serialize, Deserialize)]
pub(super) struct Idea {
    pub(super) size: u64,
}

impl Message for Idea {
    const TYPE: &'static str = "test.v1.Idea";
}

pub(in crate::kernel) fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

/// The policy asset of the group under test.
pub(in crate::kernel) const P: &str = "policy/p";

/// Returns an asset governed by `policy`, in the cluster named before the `/` of its name, if there is one.
pub(in crate::kernel) fn of_group(policy: Option<&str>, name: &str, size: u64) -> AssetBuilder {
    let mut asset = Asset::builder(id(name)).payload(&Thing { size }).unwrap();
    if let Some(policy) = policy {
        let policy = AssetRef::to(id(policy));
        asset = asset.addon(&RolloutPolicyRef { policy }).unwrap();
    }
    match name.split_once('/') {
        Some((cluster, _)) => {
            let cluster = cluster.to_owned();
            asset.addon(&PhysicalCluster { cluster }).unwrap()
        }
        None => asset,
    }
}

pub(in crate::kernel) fn thing(name: &str, size: u64) -> Asset {
    of_group(Some(P), name, size).build().unwrap()
}

pub(in crate::kernel) fn policy_asset(policy: &RolloutPolicy) -> Asset {
    let asset = Asset::builder(id(P)).payload(policy).unwrap();
    asset.build().unwrap()
}

pub(super) fn by() -> By {
    By {
        who: "me".into(),
        why: "seen".into(),
    }
}

fn types() -> Arc<AssetTypes> {
    let mut types = AssetTypes::default();
    types.add(AssetType::<Thing>::new().capacity(|thing| [("qps".to_owned(), thing.size)].into()));
    types.add(AssetType::<Idea>::new().modelled_only());
    types.add(AssetType::<RolloutPolicy>::new().modelled_only());
    Arc::new(types)
}

pub(super) struct Rig {
    pub(super) kernel: Kernel,
    pub(super) now: Now,
    pub(super) config: Config,
    pub(super) plane: Plane,
    /// Steps that are not durable yet.
    pub(super) steps: VecDeque<Step>,
    pub(super) calls: VecDeque<Call>,
    pub(super) replies: BTreeMap<u64, Result<(), Refused>>,
    /// The judgement of every health check. An error: the check fails.
    pub(super) health: Result<Judgement, String>,
    /// The selection stack.
    pub(super) stack: Arc<dyn TargetSelection>,
    /// The error of every selection. `None`: selections follow the policy.
    pub(super) fails: Option<String>,
    /// Age of the evidence at each health check.
    pub(super) evidence: Duration,
    /// Time after which pushes happen by themselves. `None`: they do not.
    pub(super) lag: Option<Duration>,
    pushes: BTreeSet<(Mono, AssetId)>,
    /// Standings that are there at one time are seen in one step.
    pub(super) together: bool,
    /// Standings of pinned assets, as last reported.
    heard: BTreeMap<AssetId, Standing>,
    /// The number of steps made, and the step at which the process dies.
    pub(super) made: usize,
    pub(super) crash_at: Option<(usize, Part)>,
    pub(super) judged: u32,
    pub(super) selected: u32,
    words: u64,
    /// The number of crashes so far.
    pub(super) crashes: u32,
    /// The time until which the line is stopped for the group.
    pub(super) stopped_until: Option<Mono>,
}

pub(super) fn config() -> Config {
    Config::default()
}

impl Rig {
    /// A group that was never rolled out.
    pub(super) fn new(policy: RolloutPolicy, assets: Vec<Asset>) -> Self {
        Self::with(config(), policy, assets)
    }

    pub(super) fn with(config: Config, policy: RolloutPolicy, mut assets: Vec<Asset>) -> Self {
        assets.push(policy_asset(&policy));
        let now = Now {
            mono: Mono(1_000_000_000),
            wall: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        let mut plane = Plane::new(id(P), types(), seal(None, assets, &[]));
        plane.now = now.wall;
        let mut effects = Effects::default();
        let kernel = take_over(&plane, now, &config, &mut effects);
        let mut rig = Self {
            kernel,
            now,
            config,
            plane,
            steps: VecDeque::new(),
            calls: VecDeque::new(),
            replies: BTreeMap::new(),
            health: Ok(Judgement::Healthy),
            stack: Arc::new(policy::standard()),
            fails: None,
            evidence: Duration::ZERO,
            lag: Some(Duration::from_secs(1)),
            pushes: BTreeSet::new(),
            made: 0,
            crash_at: None,
            together: false,
            heard: BTreeMap::new(),
            judged: 0,
            selected: 0,
            words: 0,
            crashes: 0,
            stopped_until: None,
        };
        rig.absorb(effects);
        rig
    }

    /// A group whose first turnup has completed.
    pub(super) fn settled(policy: RolloutPolicy, assets: Vec<Asset>) -> Self {
        let mut rig = Self::new(policy, assets);
        rig.pass(Duration::from_secs(3600));
        assert_eq!(
            rig.plane.head().map(Incarnation::no),
            Some(IncarnationNo(1))
        );
        assert!(rig.plane.pins.is_empty(), "{:?}", rig.plane.pins);
        rig
    }

    /// The same group with the next rollout begun. Pushes do not happen by themselves.
    pub(super) fn begun(policy: RolloutPolicy, names: &[&str]) -> Self {
        let assets = |size| -> Vec<Asset> { names.iter().map(|name| thing(name, size)).collect() };
        let first = RolloutPolicy {
            hold: None,
            ..policy.clone()
        };
        let mut rig = Self::settled(first, assets(1));
        rig.lag = None;
        rig.put([assets(2), vec![policy_asset(&policy)]].concat());
        rig.run();
        rig
    }

    pub(super) fn step(&mut self, event: Event) {
        let mut out = Effects::default();
        self.kernel.step(self.now, event, &mut out);
        self.stands_still(&out);
        self.absorb(out);
    }

    fn absorb(&mut self, out: Effects) {
        self.steps
            .extend(out.steps.into_iter().filter(|step| !step.is_empty()));
        self.calls.extend(out.calls);
        self.replies.extend(out.replies);
        let latest = self.kernel.group.latest().clone();
        // Like the shell: an asset of another group is no longer reported to this one.
        for asset in out.released {
            if !self.kernel.has(&asset) {
                self.step(Event::Took {
                    latest: latest.clone(),
                    changed: vec![asset],
                    come: Vec::new(),
                });
            }
        }
    }

    /// Makes the first step durable. Returns false if there is none.
    pub(super) fn durable(&mut self) -> bool {
        if self.steps.is_empty() {
            return false;
        }
        self.made += 1;
        match self.crash_at {
            Some((at, part)) if at == self.made => self.crash_in_step(part),
            _ => {
                let step = self.steps.pop_front();
                let all = |step| self.plane.apply(step, Part::All);
                step.into_iter().for_each(all);
            }
        }
        self.work();
        true
    }

    /// Delivers the next report of enforcement. Returns false if there is none.
    pub(super) fn deliver(&mut self) -> bool {
        match self.plane.feed.pop_front() {
            None => return false,
            Some(Fed::Stands(asset, standing)) => {
                let standings = self.standings(asset, standing);
                if !standings.is_empty() {
                    self.step(Event::Standings(standings));
                }
            }
            Some(Fed::Took(latest, changed)) => {
                let come = changed
                    .iter()
                    .filter_map(|id| Some((id.clone(), self.heard.get(id)?.clone())));
                let come = come
                    .filter(|(id, _)| self.kernel.names(&latest, id))
                    .collect();
                self.step(Event::Took {
                    latest,
                    changed,
                    come,
                });
            }
        }
        true
    }

    /// Returns the standings that the kernel sees in one step, of assets that it has.
    fn standings(&mut self, asset: AssetId, standing: Standing) -> Vec<(AssetId, Standing)> {
        let mut all = vec![(asset, standing)];
        while self.together && matches!(self.plane.feed.front(), Some(Fed::Stands(..))) {
            if let Some(Fed::Stands(asset, standing)) = self.plane.feed.pop_front() {
                all.push((asset, standing));
            }
        }
        self.heard.extend(all.iter().cloned());
        all.retain(|(asset, _)| self.kernel.has(asset));
        all
    }

    /// Answers the next call. Returns false if there is none.
    pub(super) fn answer(&mut self) -> bool {
        let event = match self.calls.pop_front() {
            None => return false,
            Some(Call::Select(call, request)) => {
                self.selected += 1;
                let answer = match self.fails.clone() {
                    Some(why) => Err(why),
                    None => futures::executor::block_on(self.stack.select(*request))
                        .map_err(|error| error.to_string()),
                };
                Event::Selected { call, answer }
            }
            Some(Call::Judge(call, request)) => {
                self.judged += 1;
                let as_of = request.now - self.evidence;
                let answer = self
                    .health
                    .clone()
                    .map(|judgement| verdict(as_of, judgement));
                Event::Judged { call, answer }
            }
        };
        self.step(event);
        true
    }

    /// Does everything that can happen without time passing.
    pub(super) fn run(&mut self) {
        for _ in 0..3_000_000 {
            self.work();
            if !(self.durable() || self.deliver() || self.answer()) {
                return;
            }
        }
        panic!("the rig does not come to rest");
    }

    /// Makes the pushes that are due.
    fn work(&mut self) {
        let Some(lag) = self.lag else { return };
        for asset in std::mem::take(&mut self.plane.restless) {
            self.pushes.insert((self.now.mono + lag, asset));
        }
        while self
            .pushes
            .first()
            .is_some_and(|(at, _)| *at <= self.now.mono)
        {
            if let Some((_, asset)) = self.pushes.pop_first() {
                self.plane.settle(&asset);
            }
        }
    }

    /// Lets time pass; everything happens as soon as it can.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        for _ in 0..10_000 {
            self.run();
            let due = self.pushes.first().map(|(at, _)| *at);
            let next = self.kernel.next_wake().into_iter().chain(due).min();
            let next = next.unwrap_or(end).max(self.now.mono).min(end);
            self.to(next);
            self.step(Event::Tick);
            if next == end {
                return self.run();
            }
        }
        panic!("the rig does not reach the end of the time");
    }

    pub(super) fn to(&mut self, mono: Mono) {
        let passed = mono.since(self.now.mono);
        self.now = Now {
            mono,
            wall: self.now.wall + passed,
        };
        self.plane.now = self.now.wall;
    }

    /// Seals an incarnation with these assets, and publishes it.
    pub(super) fn put(&mut self, assets: Vec<Asset>) -> IncarnationNo {
        self.edit(assets, &[])
    }

    pub(super) fn edit(&mut self, assets: Vec<Asset>, removed: &[&str]) -> IncarnationNo {
        let newer = seal(Some(&self.plane.latest), assets, removed);
        self.plane.publish(newer);
        self.plane.latest.no()
    }

    pub(super) fn swap(&mut self, policy: RolloutPolicy) {
        self.put(vec![policy_asset(&policy)]);
        self.run();
    }

    pub(super) fn settle(&mut self, name: &str) {
        self.plane.settle(&id(name));
        self.run();
    }

    pub(super) fn tell(&mut self, command: Command) -> Result<(), Refused> {
        self.words += 1;
        let reply = self.words;
        self.step(Event::Command {
            command,
            by: by(),
            reply,
        });
        let answer = self.replies.remove(&reply).unwrap();
        self.run();
        answer
    }

    /// The process dies, and another one takes over the durable state.
    pub(super) fn crash(&mut self) {
        self.crashes += 1;
        self.plane.forget_unheard();
        self.steps.clear();
        self.calls.clear();
        self.plane.feed.clear();
        self.heard = self.plane.standings().into_iter().collect();
        let mut out = Effects::default();
        self.kernel = take_over(&self.plane, self.now, &self.config, &mut out);
        self.absorb(out);
    }

    /// The same while a step is only partly durable.
    pub(super) fn crash_in_step(&mut self, part: Part) {
        if let Some(step) = self.steps.pop_front() {
            self.plane.apply(step, part);
        }
        self.crash();
    }

    pub(super) fn pin(&self, name: &str) -> Pin {
        let pin = self.plane.pins.get(&id(name));
        pin.copied().unwrap_or(Pin::Default)
    }

    /// Returns the assets that are pinned to incarnation `no`.
    pub(super) fn at(&self, no: u32) -> Vec<&str> {
        let at = |pin: &Pin| pin.is_at(IncarnationNo(no));
        let pins = self.plane.pins.iter().filter(|(_, pin)| at(pin));
        pins.map(|(asset, _)| asset.as_str()).collect()
    }

    pub(super) fn head(&self) -> Option<u32> {
        self.plane.head().map(|head| head.no().0)
    }

    pub(super) fn state(&self) -> &State {
        &self.plane.newest().unwrap().state
    }

    pub(super) fn rollouts(&self) -> usize {
        self.plane.rollouts.len()
    }

    pub(super) fn view(&self) -> View {
        self.kernel.view(self.now)
    }

    pub(super) fn counts(&self) -> Counts {
        self.view().counts
    }
}

fn verdict(as_of: Timestamp, judgement: Judgement) -> Health {
    match judgement {
        Judgement::Healthy => Health::healthy(as_of),
        _ => Health::found(
            as_of,
            Finding::new(judgement, "it says so").validator("toy"),
        ),
    }
}
