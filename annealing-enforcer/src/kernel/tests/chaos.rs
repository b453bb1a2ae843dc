//! Random events in random order: answers, edits, pins, commands, leases, takeovers and leaps of time. After every step
//! the kernel's invariants hold, and once plugins and checks work again, all assets settle.

use std::{collections::BTreeMap, time::Duration};

use control_plane_store::records::{Orphaned, Scope};
use plugin_sdk::{
    Cause, Change, Claim, Diff, Effects as ChangeEffects, FencingToken, Guard, Mono, Pin, Pushed,
    Quota, Recheck, Stamp, SyncState, Verdict, plugin,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Digest, Incarnation, IncarnationNo, Message, TypeName,
    addons::{DependsOn, Edge, Need, RolloutPolicyRef, Turndown},
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::rig::{Rig, Thing, by, delay, destroys, differs, id};
use crate::{
    config::{Config, TypeConfig},
    kernel::{
        Call, Command, Event, Record, Recovered, Target, pin::policy_in, state::numbers::SlotNo,
    },
};

#[derive(Serialize, Deserialize)]
struct Other {
    size: u32,
}

impl Message for Other {
    const TYPE: &'static str = "test.v1.Other";
}

#[derive(Serialize, Deserialize)]
struct Idea {
    size: u32,
}

impl Message for Idea {
    const TYPE: &'static str = "test.v1.Idea";
}

const ASSETS: u32 = 6;

/// A source of choices: the numbers that proptest drew, then zeros.
struct Dice {
    drawn: std::vec::IntoIter<u32>,
}

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.drawn.next().unwrap_or(0) % sides
    }

    fn is_over(&self) -> bool {
        self.drawn.len() == 0
    }

    fn time(&mut self) -> Duration {
        let times = [
            0, 1, 150, 1_100, 4_000, 12_000, 31_000, 61_000, 310_000, 700_000,
        ];
        Duration::from_millis(times[self.roll(times.len() as u32) as usize])
    }
}

fn name(at: u32) -> String {
    format!("a{at}")
}

fn asset(dice: &mut Dice, at: u32) -> Asset {
    let size = dice.roll(3);
    let builder = Asset::builder(id(&name(at)));
    let builder = match dice.roll(8) {
        0 => builder.payload(&Idea { size }),
        1 | 2 => builder.payload(&Other { size }),
        _ => builder.payload(&Thing { size }),
    };
    let mut builder = builder.unwrap();
    if dice.roll(3) == 0 {
        let provider = AssetRef {
            id: id(&name((at + 1) % ASSETS)),
        };
        let edges = vec![Edge {
            provider,
            need: Need::Order,
        }];
        builder = builder.addon(&DependsOn { edges }).unwrap();
    }
    if dice.roll(6) == 0 {
        let (reason, approved_by) = ("moved".into(), "me".into());
        builder = builder
            .addon(&Turndown {
                reason,
                approved_by,
            })
            .unwrap();
    }
    if dice.roll(2) == 0 {
        let id = id(["p0", "p1"][dice.roll(2) as usize]);
        let policy = AssetRef { id };
        builder = builder.addon(&RolloutPolicyRef { policy }).unwrap();
    }
    builder.build().unwrap()
}

/// The asset whose content the pin may change.
fn own(asset: &AssetId, pin: &Pin<Incarnation>) -> Vec<AssetId> {
    let own = !matches!(pin, Pin::Default);
    own.then(|| asset.clone()).into_iter().collect()
}

fn kinds() -> Vec<TypeConfig> {
    vec![
        TypeConfig {
            guard: Guard::Guarded,
            diffs: 3,
            pushes: 2,
            turndown: true,
            ..TypeConfig::new(TypeName::new(Thing::TYPE).unwrap())
        },
        TypeConfig {
            diffs: 2,
            pushes: 1,
            push_total: Duration::from_secs(900),
            ..TypeConfig::new(TypeName::new(Other::TYPE).unwrap())
        },
    ]
}

/// The intended content of all assets.
struct Contents {
    /// Of assets that the kernel knows; `None` without an intent, or if the type is modelled only.
    known: BTreeMap<AssetId, Option<Digest>>,
    /// Of assets that are not known yet, at their pins.
    early: BTreeMap<AssetId, Digest>,
}

/// A kernel, and the state that its store would hold.
struct Chaos {
    rig: Rig,
    sealed: Vec<Incarnation>,
    stamps: Vec<Stamp>,
    token: u64,
    ticket: u64,
    durable: u64,
    /// Number of the rig's records that this owner recovered from.
    found: usize,
}

impl Chaos {
    fn new(dice: &mut Dice) -> Self {
        let assets = (0..ASSETS - 1).map(|at| asset(dice, at)).collect();
        let latest = super::rig::seal(None, assets, &[]);
        let now = Rig::new(Vec::new()).now;
        let config = Config {
            breaker_failures: 3,
            ..Config::default()
        };
        let recovered = Recovered::nothing(latest.clone());
        let rig = Rig::recover(config, kinds(), FencingToken(1), recovered, now);
        rig.kernel.check_invariants(rig.now);
        Self {
            rig,
            sealed: vec![latest],
            stamps: Vec::new(),
            token: 1,
            ticket: 0,
            durable: 0,
            found: 0,
        }
    }

    fn step(&mut self, event: Event) {
        let moved: Vec<AssetId> = match &event {
            Event::Pin { asset, pin } => own(asset, pin),
            Event::Actuate { moves, .. } => {
                moves.iter().flat_map(|(id, pin)| own(id, pin)).collect()
            }
            _ => Vec::new(),
        };
        let before = self.contents();
        let what = format!("{event:?}");
        self.rig.step(event);
        self.governed_stay(before, &moved, &what);
        self.rig.kernel.check_invariants(self.rig.now);
        let replies = std::mem::take(&mut self.rig.replies);
        self.stamps
            .extend(replies.into_values().flatten().map(|found| found.stamp));
    }

    /// The content of every enforced asset, and the content that unknown assets are pinned to.
    fn contents(&self) -> Contents {
        let table = &self.rig.kernel.table;
        // Modelled-only assets are not enforced.
        let enforced = |asset: Asset| {
            let kind = self.rig.kernel.kind_of(asset.type_str());
            kind.map(|_| asset.digest())
        };
        let content = |at| {
            let intent = table.intent(at).and_then(|(asset, _)| enforced(asset));
            Some((table.id(at)?, intent))
        };
        let early = self.rig.kernel.pins.early().iter();
        let early = early.filter_map(|(asset, pin)| match pin {
            Pin::At(at, _) => Some((asset.clone(), enforced(at.asset(asset)?)?)),
            _ => None,
        });
        Contents {
            known: SlotNo::all(table.len()).filter_map(content).collect(),
            early: early.collect(),
        }
    }

    /// R17: the content of a governed asset changes only when its pin is moved.
    fn governed_stay(&self, before: Contents, moved: &[AssetId], what: &str) {
        let after = self.contents();
        for at in 0..ASSETS {
            let asset = id(&name(at));
            let newest = self.rig.latest.asset(&asset);
            let governed = newest.as_ref().and_then(policy_in).is_some()
                || self.rig.kernel.table.heads().any(|(policy, head)| {
                    let there = head.asset(&asset);
                    there.as_ref().and_then(policy_in).as_ref() == Some(policy)
                });
            if !governed || moved.contains(&asset) {
                continue;
            }
            let was = match (before.known.get(&asset), after.known.get(&asset)) {
                (None, None) => continue,
                (Some(known), _) => *known,
                (None, Some(_)) => before.early.get(&asset).copied(),
            };
            let is = after.known.get(&asset).copied().flatten();
            assert_eq!(was, is, "{asset} moved by {what}; newest: {newest:?}");
        }
    }

    fn turn(&mut self, dice: &mut Dice) {
        match dice.roll(16) {
            0..=6 => self.answer(dice),
            7 | 8 => self.persist(dice),
            9 | 10 => {
                let time = dice.time();
                self.pass(time);
            }
            11 => self.edit(dice),
            12 => self.pin(dice),
            13 => self.person(dice),
            14 => self.ask(dice),
            _ => match dice.roll(4) {
                0 => self.take_over(),
                1 => self.step(Event::Renewed(self.rig.now.mono)),
                2 => {
                    let days = Duration::from_secs(30 * 86_400);
                    let (back, wall) = (dice.roll(2) == 0, self.rig.now.wall);
                    self.rig.now.wall = if back { wall - days } else { wall + days };
                }
                _ => self.step(Event::Renewed(Mono(u64::MAX))),
            },
        }
    }

    fn pass(&mut self, time: Duration) {
        self.rig.now.mono = self.rig.now.mono + time;
        self.rig.now.wall += time;
        self.step(Event::Tick);
    }

    fn persist(&mut self, dice: &mut Dice) {
        let open = self.rig.recorded - self.durable;
        self.durable += open - u64::from(dice.roll(3)).min(open);
        self.step(Event::Durable(self.durable));
    }

    /// Answers a random call; sometimes the call stays, and is answered again later.
    fn answer(&mut self, dice: &mut Dice) {
        let calls = self.rig.calls.len() as u32;
        if calls == 0 {
            return;
        }
        let at = dice.roll(calls) as usize;
        let call = match dice.roll(12) {
            0 => self.rig.calls[at].clone(),
            _ => self.rig.calls.remove(at),
        };
        let event = match call {
            Call::Diff(target) => match dice.roll(3) {
                0 => self.together(dice, target),
                _ => Event::DiffDone {
                    run: target.run,
                    answer: a_diff(dice, &target.asset),
                },
            },
            Call::Check(check) => {
                let answer = self.verdict(dice, &check.change);
                Event::CheckDone {
                    run: check.target.run,
                    answer,
                }
            }
            Call::Push(push) => Event::PushDone {
                run: push.target.run,
                answer: a_push(dice),
            },
            Call::Abandon(_) => return,
        };
        self.step(event);
    }

    /// Answers all diffs under way together, `first` among them.
    fn together(&mut self, dice: &mut Dice, first: Target) -> Event {
        let mut all = vec![first];
        self.rig.calls.retain(|call| match call {
            Call::Diff(target) => {
                all.push(target.clone());
                false
            }
            _ => true,
        });
        let answers = all.into_iter();
        let answers = answers.map(|target| (target.run, a_diff(dice, &target.asset)));
        Event::DiffsDone(answers.collect())
    }

    fn verdict(&mut self, dice: &mut Dice, change: &Change) -> Result<Verdict, String> {
        let wall = self.rig.now.wall;
        let mut verdict = Verdict::proceed(wall);
        match dice.roll(8) {
            0 => return Err("on fire".into()),
            1 => verdict.as_of = wall - Duration::from_secs(120),
            2 => {
                verdict.delays.push(delay(match dice.roll(4) {
                    0 => Recheck::At(wall + dice.time()),
                    1 => Recheck::At(wall - Duration::from_secs(9)),
                    2 => Recheck::After(dice.time()),
                    _ => Recheck::WhenSettled(id(&name(dice.roll(ASSETS)))),
                }));
            }
            3 => {
                self.step(Event::Person(Command::Approve {
                    asset: id(&name(dice.roll(ASSETS))),
                    change: change.digest,
                    until: None,
                    by: by(),
                }));
            }
            _ => {}
        }
        for _ in 0..dice.roll(3) {
            verdict = verdict.claim(match dice.roll(6) {
                0 | 1 => Claim::Exclusive("one".into()),
                2 => Claim::AtMost("domain".into(), 1 + dice.roll(2)),
                3 => Claim::Exclusive("two".into()),
                4 => Claim::Amount {
                    key: "room".into(),
                    units: dice.roll(60).into(),
                    limit: 100,
                },
                _ => Claim::Rate("rate".into(), Quota::new(dice.roll(3), dice.time())),
            });
        }
        for _ in 0..dice.roll(3) {
            let (seen, lie) = (self.stamps.len() as u32, dice.roll(10) == 0);
            let slot = dice.roll(ASSETS);
            verdict.relies_on.push(match seen {
                _ if lie => Stamp {
                    slot: slot * 1_000_000,
                    seq: slot,
                },
                0 => Stamp { slot, seq: 0 },
                _ => self.stamps[dice.roll(seen) as usize],
            });
        }
        Ok(verdict)
    }

    fn edit(&mut self, dice: &mut Dice) {
        let mut put = Vec::new();
        let mut removed = Vec::new();
        for _ in 0..1 + dice.roll(2) {
            let at = dice.roll(ASSETS);
            match dice.roll(3) {
                0 => removed.push(name(at)),
                _ => put.push(asset(dice, at)),
            }
        }
        removed.retain(|name| put.iter().all(|asset| asset.id_str() != name));
        let removed: Vec<_> = removed.iter().map(String::as_str).collect();
        self.publish(put, &removed);
    }

    fn publish(&mut self, put: Vec<Asset>, removed: &[&str]) {
        let before = self.contents();
        self.rig.publish(put, removed);
        self.governed_stay(before, &[], "publish");
        self.rig.kernel.check_invariants(self.rig.now);
        self.sealed.push(self.rig.latest.clone());
    }

    fn pin(&mut self, dice: &mut Dice) {
        let sealed = self.sealed[dice.roll(self.sealed.len() as u32) as usize].clone();
        let pin = match dice.roll(4) {
            0 => Pin::NotYet,
            1 => Pin::At(sealed, Cause::Intent),
            2 => Pin::At(sealed, Cause::Rollback),
            _ => Pin::Default,
        };
        let asset = name(dice.roll(ASSETS));
        let asset = id(&asset);
        if dice.roll(2) == 0 {
            return self.step(Event::Pin { asset, pin });
        }
        let policy = id(["p0", "p1"][dice.roll(2) as usize]);
        // The head of a group moves only to newer incarnations.
        let before = self.rig.kernel.table.head(&policy).map(|head| head.no());
        let newer = |it: &&Incarnation| before.is_none_or(|before| it.no() >= before);
        let newer: Vec<_> = self.sealed.iter().filter(newer).collect();
        let head = newer[dice.roll(newer.len() as u32) as usize].clone();
        let heads = vec![(policy, head)];
        let other = (id(&name(dice.roll(ASSETS))), Pin::Default);
        let moves = vec![(asset, pin), other];
        self.step(Event::Actuate { heads, moves });
    }

    fn person(&mut self, dice: &mut Dice) {
        let asset = id(&name(dice.roll(ASSETS)));
        let scope = match dice.roll(2) {
            0 => Scope::Asset(asset.clone()),
            _ => Scope::Partition,
        };
        let by = by();
        self.step(Event::Person(match dice.roll(6) {
            0 => {
                let until = None;
                Command::Pause { scope, until, by }
            }
            1 | 2 => Command::Resume { scope, by },
            3 => Command::Acknowledge { asset, by },
            4 => Command::PushIsOver { asset, by },
            _ => Command::LookNow { asset, by },
        }));
    }

    fn ask(&mut self, dice: &mut Dice) {
        let checking = |call: &Call| matches!(call, Call::Check(_));
        if !self.rig.calls.iter().any(checking) {
            return;
        }
        self.ticket += 1;
        let asset = id(&name(dice.roll(ASSETS)));
        self.step(Event::Observe {
            ticket: self.ticket,
            asset,
        });
    }

    /// A new owner recovers from the durable records.
    fn take_over(&mut self) {
        let before = (self.durable == self.rig.recorded).then(|| self.contents());
        let lost = (self.rig.recorded - self.durable) as usize;
        let kept = self.rig.records.len() - lost;
        self.rig.records.truncate(kept);
        let recovered = self.recovered();
        self.token += 1;
        let records = std::mem::take(&mut self.rig.records);
        let (config, now) = (self.rig.config.clone(), self.rig.now);
        let latest = self.rig.latest.clone();
        self.rig = Rig::recover(config, kinds(), FencingToken(self.token), recovered, now);
        self.rig.latest = latest;
        if let Some(before) = before {
            self.governed_stay(before, &[], "a takeover");
        }
        (self.found, self.durable) = (records.len(), 0);
        self.rig.records.splice(0..0, records);
        self.stamps.clear();
        self.rig.kernel.check_invariants(self.rig.now);
    }

    /// What a store holds after the records written so far.
    fn recovered(&self) -> Recovered {
        let (mut assets, mut orphans) = (BTreeMap::new(), BTreeMap::new());
        let (mut pins, mut heads) = (BTreeMap::new(), BTreeMap::new());
        let newest = self.rig.latest.clone();
        let mut recovered = Recovered::nothing(newest.clone());
        for record in &self.rig.records {
            match record.clone() {
                Record::Asset(asset, state) => drop(assets.insert(asset, state)),
                Record::Orphan(asset, state) => drop(orphans.insert(asset, state)),
                Record::Floor(no) => recovered.floor = self.sealed_as(no),
                Record::Pause(_) | Record::Approval(_) | Record::Override(_) => {}
                Record::Pin(asset, pin) => drop(pins.insert(asset, pin)),
                Record::Head(policy, no) => drop(heads.insert(policy, no)),
                Record::Taken(no) => recovered.latest = self.sealed_as(no).unwrap(),
                Record::Owned(owned) => recovered.owned = owned,
                Record::Decision(..) | Record::Gone(_) => {}
            }
        }
        recovered.newer = (recovered.latest.no() < newest.no()).then_some(newest);
        let some = |(asset, state): (_, Option<_>)| Some((asset, state?));
        recovered.assets = assets.into_iter().filter_map(some).collect();
        recovered.interventions = self.rig.words();
        let kept = self.sealed.iter().map(|it| (it.no(), it.clone()));
        recovered.named = kept.collect();
        let with_last = |orphan: Orphaned| {
            let last = self.sealed_as(orphan.last);
            (orphan, last)
        };
        let orphans = orphans.into_values().flatten();
        recovered.orphans = orphans.map(with_last).collect();
        let head = |(policy, no)| Some((policy, self.sealed_as(no)?));
        recovered.heads = heads.into_iter().filter_map(head).collect();
        let pins = pins.into_iter();
        recovered.pins = pins
            .filter_map(|(asset, pin)| Some((asset, self.pin_of(pin)?)))
            .collect();
        recovered
    }

    /// The sealed incarnation of this number.
    fn sealed_as(&self, no: IncarnationNo) -> Option<Incarnation> {
        self.sealed.iter().find(|sealed| sealed.no() == no).cloned()
    }

    /// A durable pin with its incarnation, None for one that a store drops.
    fn pin_of(&self, pin: Pin) -> Option<Pin<Incarnation>> {
        match pin {
            Pin::At(no, cause) => Some(Pin::At(self.sealed_as(no)?, cause)),
            Pin::NotYet => Some(Pin::NotYet),
            Pin::Default => None,
        }
    }

    /// Lets all calls succeed from now on and resumes all pauses; then all assets must settle.
    fn heal(&mut self) {
        self.step(Event::Renewed(Mono(u64::MAX)));
        let assets = (0..ASSETS).map(|at| Scope::Asset(id(&name(at))));
        for scope in assets.chain([Scope::Partition]) {
            self.step(Event::Person(Command::Resume { scope, by: by() }));
        }
        let end = self.rig.now.mono + Duration::from_secs(3_600);
        while self.rig.now.mono < end {
            while let Some(call) = self.rig.calls.pop() {
                self.well(call);
            }
            if self.durable < self.rig.recorded {
                self.durable = self.rig.recorded;
                self.step(Event::Durable(self.durable));
                continue;
            }
            let wake = self.rig.kernel.next_wake(self.rig.now).unwrap_or(end);
            self.pass(wake.since(self.rig.now.mono));
        }
        while let Some(call) = self.rig.calls.pop() {
            self.well(call);
        }
        let kernel = &self.rig.kernel;
        let waits: Vec<_> = kernel
            .assets()
            .filter_map(|asset| kernel.explain(self.rig.now, &asset))
            .collect();
        assert_eq!(kernel.latest().no(), self.rig.latest.no());
        assert_eq!(kernel.unsettled(), 0, "{waits:#?}");
        for (asset, pin_status) in kernel.pin_statuses() {
            let stands = matches!(pin_status.state, SyncState::InSync { .. });
            assert!(stands, "{asset}: {pin_status:?} {waits:#?}");
        }
        assert!(kernel.claims.held().is_empty() && kernel.holds.pushes().is_empty());
        assert_eq!(kernel.attempts.iter().count(), 0, "{waits:#?}");
    }

    fn well(&mut self, call: Call) {
        let event = match call {
            Call::Diff(target) => Event::DiffDone {
                run: target.run,
                answer: Ok(Diff::in_sync()),
            },
            Call::Check(check) => {
                let answer = Ok(Verdict::proceed(self.rig.now.wall));
                Event::CheckDone {
                    run: check.target.run,
                    answer,
                }
            }
            Call::Push(push) => Event::PushDone {
                run: push.target.run,
                answer: Ok(Pushed::Done),
            },
            Call::Abandon(_) => return,
        };
        self.step(event);
    }
}

fn an_error(dice: &mut Dice) -> plugin::Error {
    match dice.roll(5) {
        0 => plugin::Error::permanent("no"),
        1 => plugin::Error::unknown("lost"),
        2 => plugin::Error::Throttled {
            after: dice.time(),
            message: "slowly".into(),
        },
        3 => plugin::Error::Unhealthy {
            message: "ill".into(),
        },
        _ => plugin::Error::transient("down"),
    }
}

fn a_diff(dice: &mut Dice, asset: &Asset) -> Result<Diff, plugin::Error> {
    Ok(match dice.roll(12) {
        0..=2 => Diff::in_sync(),
        3..=6 => differs(asset),
        7 => destroys(asset),
        8 => Diff::InProgress {
            check_again_in: dice.time(),
        },
        9 => {
            let summary = format!("so {}", dice.roll(1_000));
            let fields = vec![plugin_sdk::FieldChange::new("at", 0, dice.roll(1_000))];
            let change = Change::new(asset, summary, fields, ChangeEffects::default());
            Diff::differs(change)
        }
        10 => Diff::Foreign {
            owner: "them".into(),
        },
        _ => return Err(an_error(dice)),
    })
}

fn a_push(dice: &mut Dice) -> Result<Pushed, plugin::Error> {
    Ok(match dice.roll(6) {
        0..=2 => Pushed::Done,
        3 | 4 => Pushed::InProgress {
            check_again_in: dice.time(),
        },
        _ => return Err(an_error(dice)),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn l1_every_asset_settles_after_any_sequence_of_events(drawn in proptest::collection::vec(any::<u32>(), 0..1_500)) {
        let mut dice = Dice { drawn: drawn.into_iter() };
        let mut chaos = Chaos::new(&mut dice);
        while !dice.is_over() {
            chaos.turn(&mut dice);
        }
        chaos.heal();
    }
}
