//! Random events in random order: answers, edits, pins, commands, leases, takeovers and leaps of time. After every step
//! the kernel's invariants hold, and once plugins and checks work again, all assets settle.

use std::{collections::BTreeMap, time::Duration};

use control_plane_store::records::Scope;
use plugin_sdk::{
    Cause, Change, Claim, Diff, FencingToken, GroupHead, Mono, Pin, Pushed, Quota, Recheck, Stamp,
    Standing, Verdict,
};
use prodspec_model::{Asset, AssetId, Incarnation};
use proptest::prelude::*;

use super::{
    dice::{ASSETS, Dice, a_diff, a_push, asset, kinds, name},
    rig::{Rig, by, delay, id},
};
use crate::{
    config::Config,
    kernel::{Call, Command, Event, News, Recovered, Target},
};

/// The asset whose content the pin may change.
fn own(asset: &AssetId, pin: &Pin<Incarnation>) -> Vec<AssetId> {
    let own = !matches!(pin, Pin::Default);
    own.then(|| asset.clone()).into_iter().collect()
}

/// Follows all assets by id, and all with a pin of their own. Returns the latter.
pub(super) fn follow_all(rig: &mut Rig) -> BTreeMap<AssetId, Standing> {
    for at in 0..ASSETS {
        rig.kernel.follow(&id(&name(at)));
    }
    rig.kernel.follow_pinned().into_iter().collect()
}

/// A kernel, and the state that its store would hold.
pub(super) struct Chaos {
    pub(super) rig: Rig,
    pub(super) sealed: Vec<Incarnation>,
    pub(super) stamps: Vec<Stamp>,
    pub(super) token: u64,
    ticket: u64,
    pub(super) durable: u64,
    /// Number of the rig's records that this owner recovered from.
    pub(super) found: usize,
    /// The last reports of the assets with a pin of their own.
    pub(super) reported: BTreeMap<AssetId, Standing>,
}

impl Chaos {
    fn new(dice: &mut Dice) -> Self {
        let assets = (0..ASSETS - 1).map(|at| asset(dice, at)).collect();
        let latest = super::rig::seal(None, assets, &[]);
        let now = Rig::new(Vec::new()).now;
        let config = Config::default().breaker_failures(3);
        let recovered = Recovered::nothing(latest.clone());
        let mut rig = Rig::recover(config, kinds(), FencingToken(1), recovered, now);
        let reported = follow_all(&mut rig);
        rig.kernel.check_invariants(rig.now);
        Self {
            rig,
            sealed: vec![latest],
            stamps: Vec::new(),
            token: 1,
            ticket: 0,
            durable: 0,
            found: 0,
            reported,
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
        self.pins_are_reported(&what);
        self.governed_stay(before, &moved, &what);
        self.rig.kernel.check_invariants(self.rig.now);
        let replies = std::mem::take(&mut self.rig.replies);
        self.stamps
            .extend(replies.into_values().flatten().map(|found| found.stamp));
    }

    /// R20: the last reports of the assets with a pin of their own are true.
    fn pins_are_reported(&mut self, what: &str) {
        for news in self.rig.feed.drain(..) {
            if let News::Pinned(all) = news {
                self.reported.extend(all);
            }
        }
        self.reported.retain(|_, it| it.pin != Pin::Default);
        let known = |it: &Standing| (it.pin, it.content, it.state.clone());
        let pinned = self.rig.kernel.pinned();
        let are: BTreeMap<_, _> = pinned.iter().map(|(id, it)| (id, known(it))).collect();
        let told: BTreeMap<_, _> = self
            .reported
            .iter()
            .map(|(id, it)| (id, known(it)))
            .collect();
        assert_eq!(told, are, "after {what}");
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
        self.pins_are_reported("publish");
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
        let head = match dice.roll(4) {
            0 => GroupHead::Latest,
            _ => GroupHead::At(newer[dice.roll(newer.len() as u32) as usize].clone()),
        };
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
        // R49: renamed assets wait while their old ids are enforced at other pins.
        let waits_for_old = |asset: &AssetId| {
            let slot = kernel.table.find(asset.as_str());
            slot.is_some_and(|slot| kernel.old_id_of(slot).is_some())
        };
        let waiting = kernel.assets().filter(waits_for_old).count();
        assert_eq!(kernel.unsettled(), waiting as u32, "{waits:#?}");
        for (asset, standing) in kernel.pinned() {
            if waits_for_old(&asset) {
                continue;
            }
            let stands = standing.state.is_in_sync();
            assert!(stands, "{asset}: {standing:?} {waits:#?}");
        }
        assert!(kernel.claims.held().is_empty() && kernel.holds.pushes().is_empty());
        assert_eq!(kernel.attempts.iter().count(), waiting, "{waits:#?}");
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

proptest! {
    // Half of the usual number: each case has up to 1,500 events.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 2,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

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
