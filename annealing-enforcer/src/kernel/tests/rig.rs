//! A rig that drives a kernel by hand: a test gives events and time, and takes calls and records.

use std::{collections::BTreeMap, time::Duration};

use control_plane_runtime::Kernel as _;
use control_plane_store::records::{AssetRecord, Orphaned, Scope};
use jiff::Timestamp;
use plugin_sdk::{
    By, Change, Claim, Delay, Diff, Effects as ChangeEffects, FencingToken, Guard, Mono, Now,
    Observation, Pin, Pushed, Recheck, Served, Standing, Usage, Verdict, observe, plugin,
};
use prodspec_model::{Asset, AssetId, Digest, Incarnation, IncarnationNo, Message, TypeName};
use serde::{Deserialize, Serialize};

pub(in crate::kernel) use plugin_sdk::testing::seal;

use crate::{
    config::{Config, TypeConfig},
    kernel::{
        AtFloor, Call, CheckCall, Command, Effects, Event, Interventions, Kernel, News, Notice,
        PushCall, Record, Recovered, Target,
    },
};

#[derive(Serialize, Deserialize)]
pub(super) struct Thing {
    pub(super) size: u32,
}

impl Message for Thing {
    const TYPE: &'static str = "test.v1.Thing";
}

pub(in crate::kernel) fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

pub(super) fn thing(name: &str, size: u32) -> Asset {
    Asset::builder(id(name))
        .payload(&Thing { size })
        .unwrap()
        .build()
        .unwrap()
}

pub(super) fn differs(asset: &Asset) -> Diff {
    let change = Change::new(asset, "make it so", Vec::new(), ChangeEffects::default());
    Diff::differs(change)
}

pub(super) fn destroys(asset: &Asset) -> Diff {
    let effects = ChangeEffects {
        destructive: true,
        ..ChangeEffects::default()
    };
    Diff::differs(Change::new(asset, "lose it", Vec::new(), effects))
}

pub(super) fn delay(recheck: Recheck) -> Delay {
    Delay::new("not now", recheck).check("test")
}

thread_local! {
    /// The guard of the kernel that every rig of this thread leaves out.
    pub(super) static PLANTED: std::cell::Cell<Option<crate::kernel::Bug>> = const { std::cell::Cell::new(None) };
}

pub(super) struct Rig {
    pub(super) kernel: Kernel,
    pub(super) now: Now,
    pub(super) latest: Incarnation,
    /// Every incarnation published, by number.
    pub(super) sealed: BTreeMap<IncarnationNo, Incarnation>,
    pub(super) calls: Vec<Call>,
    pub(super) records: Vec<Record>,
    pub(super) replies: BTreeMap<u64, Result<Observation, observe::Error>>,
    pub(super) usages: BTreeMap<u64, Usage>,
    pub(super) served: BTreeMap<u64, Served>,
    pub(super) recorded: u64,
    /// News about pins, and incarnations taken in.
    pub(super) feed: Vec<News>,
    /// News about followed assets.
    pub(super) standings: Vec<(AssetId, Standing)>,
    pub(super) notices: Vec<Notice>,
    pub(super) config: Config,
    pub(super) kinds: Vec<TypeConfig>,
    tickets: u64,
}

pub(super) fn kind() -> TypeConfig {
    TypeConfig::new(TypeName::new(Thing::TYPE).unwrap()).guard(Guard::Guarded)
}

impl Rig {
    pub(super) fn new(assets: Vec<Asset>) -> Self {
        Self::with(Config::default(), kind(), assets)
    }

    pub(super) fn with(config: Config, kind: TypeConfig, assets: Vec<Asset>) -> Self {
        let now = Now {
            mono: Mono(1_000_000_000),
            wall: "2026-01-01T00:00:00Z".parse().unwrap(),
        };
        let latest = seal(None, assets, &[]);
        let recovered = Recovered::nothing(latest.clone());
        Self::recover(config, vec![kind], FencingToken(1), recovered, now)
    }

    pub(super) fn recover(
        config: Config,
        kinds: Vec<TypeConfig>,
        token: FencingToken,
        recovered: Recovered,
        now: Now,
    ) -> Self {
        let mut out = Effects::default();
        let latest = recovered.latest.clone();
        let mut config = config;
        if config.checks.is_empty() {
            config.checks.push("test".into());
        }
        #[cfg(feature = "planted-bugs")]
        let config = config.planted(PLANTED.get());
        let kernel = Kernel::recover(
            now,
            config.clone(),
            kinds.clone(),
            token,
            recovered,
            &mut out,
        );
        let mut rig = Self {
            kernel,
            now,
            sealed: [(latest.no(), latest.clone())].into(),
            latest,
            calls: Vec::new(),
            records: Vec::new(),
            replies: BTreeMap::new(),
            usages: BTreeMap::new(),
            served: BTreeMap::new(),
            recorded: 0,
            feed: Vec::new(),
            standings: Vec::new(),
            notices: Vec::new(),
            config,
            kinds,
            tickets: 0,
        };
        rig.absorb(&mut out);
        rig.step(Event::Renewed(Mono(u64::MAX)));
        rig
    }

    pub(super) fn step(&mut self, event: Event) {
        let mut out = Effects::default();
        self.kernel.step(self.now, event, &mut out);
        self.absorb(&mut out);
    }

    fn absorb(&mut self, out: &mut Effects) {
        if let Some(violation) = out.violation.take() {
            panic!("{violation}");
        }
        self.recorded += out.records.len() as u64;
        self.records.append(&mut out.records);
        self.calls.append(&mut out.calls);
        for news in out.feed.drain(..) {
            match news {
                News::Followed(mut all) => self.standings.append(&mut all),
                other => self.feed.push(other),
            }
        }
        self.notices.append(&mut out.notices);
        self.replies.extend(out.replies.drain(..));
        self.usages.extend(out.usages.drain(..));
        self.served.extend(out.served.drain(..));
    }

    /// Makes everything recorded so far durable.
    pub(super) fn durable(&mut self) {
        self.step(Event::Durable(self.recorded));
    }

    /// Lets time pass, with a tick whenever the kernel asks for one.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while let Some(wake) = self.kernel.next_wake(self.now).filter(|wake| *wake < end) {
            self.to(wake.max(self.now.mono + Duration::from_nanos(1)).min(end));
            self.step(Event::Tick);
        }
        self.to(end);
        self.step(Event::Tick);
    }

    /// Lets time pass until a diff of `name` is called; answers the diffs of other assets with in sync. Returns the
    /// time that passed.
    pub(super) fn until_diff(&mut self, name: &str) -> Duration {
        let start = self.now.mono;
        loop {
            let asked = self.calls.iter().find_map(|call| match call {
                Call::Diff(target) => Some(target.asset.id_str().to_owned()),
                _ => None,
            });
            match asked {
                Some(asked) if asked == name => return self.now.mono.since(start),
                Some(other) => self.in_sync(&other),
                None => {
                    let wake = self
                        .kernel
                        .next_wake(self.now)
                        .expect("the kernel asks to be woken");
                    self.to(wake.max(self.now.mono + Duration::from_nanos(1)));
                    self.step(Event::Tick);
                }
            }
        }
    }

    fn to(&mut self, mono: Mono) {
        let passed = mono.since(self.now.mono);
        self.now = Now {
            mono,
            wall: self.now.wall + passed,
        };
    }

    pub(super) fn publish(&mut self, put: Vec<Asset>, removed: &[&str]) {
        self.latest = seal(Some(&self.latest), put, removed);
        self.sealed.insert(self.latest.no(), self.latest.clone());
        self.step(Event::Publish(self.latest.clone()));
    }

    fn take<T>(&mut self, name: &str, pick: impl Fn(&Call) -> Option<(&Target, T)>) -> Option<T> {
        let at = self
            .calls
            .iter()
            .position(|call| pick(call).is_some_and(|(target, _)| target.asset.id_str() == name))?;
        let call = self.calls.remove(at);
        pick(&call).map(|(_, found)| found)
    }

    /// Takes the called diff of an asset, if there is one.
    pub(super) fn diff(&mut self, name: &str) -> Option<Target> {
        self.take(name, |call| match call {
            Call::Diff(target) => Some((target, target.clone())),
            _ => None,
        })
    }

    pub(super) fn is_diffing(&self, name: &str) -> bool {
        let of = |call: &Call| matches!(call, Call::Diff(target) if target.asset.id_str() == name);
        self.calls.iter().any(of)
    }

    pub(super) fn check_is_asked(&self, name: &str) -> bool {
        let of =
            |call: &Call| matches!(call, Call::Check(check) if check.target.asset.id_str() == name);
        self.calls.iter().any(of)
    }

    pub(super) fn check(&mut self, name: &str) -> Option<CheckCall> {
        self.take(name, |call| match call {
            Call::Check(check) => Some((&check.target, check.clone())),
            _ => None,
        })
    }

    pub(super) fn push(&mut self, name: &str) -> Option<PushCall> {
        self.take(name, |call| match call {
            Call::Push(push) => Some((&push.target, push.clone())),
            _ => None,
        })
    }

    pub(super) fn diffed(&mut self, name: &str, answer: impl FnOnce(&Asset) -> Diff) {
        let target = self
            .diff(name)
            .unwrap_or_else(|| panic!("no diff of {name} is called"));
        let answer = Ok(answer(&target.asset));
        self.step(Event::DiffDone {
            run: target.run,
            answer,
        });
    }

    pub(super) fn in_sync(&mut self, name: &str) {
        self.diffed(name, |_| Diff::in_sync());
    }

    pub(super) fn checked(&mut self, name: &str, verdict: impl FnOnce(Verdict) -> Verdict) {
        let check = self
            .check(name)
            .unwrap_or_else(|| panic!("no check of {name} is called"));
        let answer = Ok(verdict(Verdict::proceed(self.now.wall)));
        self.step(Event::CheckDone {
            run: check.target.run,
            answer,
        });
    }

    pub(super) fn pushed(&mut self, name: &str, answer: Result<Pushed, plugin::Error>) {
        let push = self
            .push(name)
            .unwrap_or_else(|| panic!("no push of {name} is called"));
        self.step(Event::PushDone {
            run: push.target.run,
            answer,
        });
    }

    /// Answers the diff with a difference and the check with `verdict`; takes the push if it is admitted.
    pub(super) fn until_push(
        &mut self,
        name: &str,
        verdict: impl FnOnce(Verdict) -> Verdict,
    ) -> Option<PushCall> {
        self.diffed(name, differs);
        self.checked(name, verdict);
        self.durable();
        self.push(name)
    }

    /// Finds the same difference again after a successful push: the asset waits for the effect to show, and is diffed once
    /// more.
    pub(super) fn differs_again(&mut self, name: &str) {
        self.diffed(name, differs);
        self.until_diff(name);
        self.diffed(name, differs);
    }

    /// Lets a check observe `name`; the plugin gives `answer` if a diff is called.
    pub(super) fn observe(&mut self, name: &str, answer: Diff) -> Observation {
        self.tickets += 1;
        let ticket = self.tickets;
        self.step(Event::Observe {
            ticket,
            asset: id(name),
        });
        if !self.replies.contains_key(&ticket) {
            self.diffed(name, |_| answer);
        }
        self.replies.remove(&ticket).unwrap().unwrap()
    }

    /// Gives the command to diff an asset now.
    pub(super) fn look_now(&mut self, name: &str) {
        let asset = id(name);
        self.say(Command::LookNow { asset, by: by() });
    }

    pub(super) fn approve(&mut self, name: &str, change: Digest) {
        let asset = id(name);
        self.say(Command::Approve {
            asset,
            change,
            until: None,
            by: by(),
        });
    }

    /// Gives the command to override a check. `Err`: why it is refused.
    pub(super) fn lift(&mut self, name: &str, change: Digest, check: &str) -> Result<(), String> {
        self.try_say(Command::Override {
            asset: id(name),
            change,
            check: check.into(),
            until: None,
            by: by(),
        })
    }

    /// Gives a command that must be accepted.
    pub(super) fn say(&mut self, command: Command) {
        let what = format!("{command:?}");
        if let Err(why) = self.try_say(command) {
            panic!("{what} is refused: {why}");
        }
    }

    /// Gives a command. `Err`: why it is refused.
    pub(super) fn try_say(&mut self, command: Command) -> Result<(), String> {
        let mut out = Effects::default();
        self.kernel.step(self.now, Event::Person(command), &mut out);
        let refused = out.refused.take();
        assert!(refused.is_none() || out.records.is_empty());
        self.absorb(&mut out);
        refused.map_or(Ok(()), Err)
    }

    pub(super) fn pause(&mut self, scope: Scope, until: Option<Timestamp>) {
        self.say(Command::Pause {
            scope,
            until,
            by: by(),
        });
    }

    pub(super) fn resume(&mut self, scope: Scope) {
        self.say(Command::Resume { scope, by: by() });
    }

    pub(super) fn acknowledge(&mut self, name: &str) {
        let asset = id(name);
        self.say(Command::Acknowledge { asset, by: by() });
    }

    /// The recorded commands: pauses, approvals, overrides.
    pub(super) fn words(&self) -> Interventions {
        let mut pauses = BTreeMap::new();
        let mut approvals = BTreeMap::new();
        let mut overrides = BTreeMap::new();
        for record in &self.records {
            match record {
                Record::Pause(word) => drop(pauses.insert(word.scope.clone(), word.clone())),
                Record::Approval(word) => drop(approvals.insert(word.name(), word.clone())),
                Record::Override(word) => drop(overrides.insert(word.name(), word.clone())),
                _ => {}
            }
        }
        Interventions {
            pauses: pauses.into_values().collect(),
            approvals: approvals.into_values().collect(),
            overrides: overrides.into_values().collect(),
        }
    }

    /// The last record of an asset.
    pub(super) fn remembered(&self, name: &str) -> Option<AssetRecord> {
        self.records.iter().rev().find_map(|record| match record {
            Record::Asset(asset, state) if asset.as_str() == name => Some(state.clone()),
            _ => None,
        })?
    }

    /// A new owner that recovers from the records of this one.
    pub(super) fn taken_over(&self) -> Self {
        self.taken_over_with(self.kinds.clone())
    }

    /// A new owner with a program that has these types.
    pub(super) fn taken_over_with(&self, kinds: Vec<TypeConfig>) -> Self {
        let mut recovered = Recovered::nothing(self.latest.clone());
        let mut assets = BTreeMap::new();
        let mut pins = BTreeMap::new();
        let mut orphans = BTreeMap::new();
        for record in &self.records {
            match record {
                Record::Asset(asset, state) => {
                    assets.insert(asset.clone(), state.clone());
                }
                Record::Owned(owned) => recovered.owned = *owned,
                Record::Floor(floor) => {
                    let sealed = self.sealed.get(&floor.incarnation).cloned();
                    let types = floor.types.clone();
                    recovered.floor = sealed.map(|incarnation| AtFloor { incarnation, types });
                }
                Record::Orphan(asset, state) => {
                    orphans.insert(asset.clone(), state.clone());
                }
                Record::Pin(asset, pin) => drop(pins.insert(asset.clone(), *pin)),
                _ => {}
            }
        }
        recovered.assets = assets
            .into_iter()
            .filter_map(|(asset, state)| Some((asset, state?)))
            .collect();
        let last = |orphaned: Orphaned| {
            let last = self.sealed.get(&orphaned.last).cloned();
            (orphaned, last)
        };
        recovered.orphans = orphans.into_values().flatten().map(last).collect();
        let restored = |pin: Pin| match pin {
            Pin::Default => None,
            Pin::NotYet => Some(Pin::NotYet),
            Pin::At(no, cause) => Some(Pin::At(self.sealed[&no].clone(), cause)),
        };
        recovered.pins = pins
            .into_iter()
            .filter_map(|(asset, pin)| Some((asset, restored(pin)?)))
            .collect();
        recovered.interventions = self.words();
        recovered.named = self.sealed.clone();
        let config = self.config.clone();
        let mut next = Self::recover(config, kinds, FencingToken(2), recovered, self.now);
        next.records.splice(0..0, self.records.iter().cloned());
        next.sealed = self.sealed.clone();
        next
    }
}

/// The operator of all tests, and the reason given.
pub(super) fn by() -> By {
    By::new("me", "seen")
}

pub(super) fn exclusive(key: &str) -> Claim {
    Claim::Exclusive(key.into())
}
