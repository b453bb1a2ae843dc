//! R109 in random order: edits, pins back, pushes that land late or never, lost answers, hands, and a takeover. No push that lands
//! takes the capacity in production below the floor, and once all works again every asset settles.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{
    Cause, Change, Claim, Delay, Diff, Effects, Key, Observed, Pin, Pushed, Recheck, Served,
    Serving, Verdict, plugin,
};
use prodspec_model::Asset;
use proptest::prelude::*;

use super::{
    dice::{Dice, name},
    rig::{Rig, Thing, id, kind, thing},
};
use crate::{
    config::Config,
    kernel::{Call, Event, Target},
};

const ASSETS: u32 = 5;
/// The floor. Every edit leaves as much.
const FLOOR: u64 = 200;

/// A call of push that the provider may still carry out.
struct Flight {
    /// The owner and number of the call.
    fence: (u8, u32),
    to: u64,
}

struct World {
    rig: Rig,
    /// The number of the owner.
    owner: u8,
    production: BTreeMap<String, u64>,
    flights: BTreeMap<String, Vec<Flight>>,
    /// The greatest call that the provider has seen.
    seen: BTreeMap<String, (u8, u32)>,
    durable: u64,
    /// The smallest number of units beyond the floor that a push has left.
    closest: u64,
}

/// The size of an asset by its content.
fn size(asset: &Asset) -> u64 {
    asset.payload::<Thing>().unwrap().size.into()
}

fn key() -> Key {
    "capacity/all".into()
}

fn resizes(asset: &Asset, has: u64) -> Diff {
    let (to, observed) = (size(asset), Observed::default().capacity("qps", has));
    let diff = match to == has {
        true => Diff::in_sync(),
        false => {
            let effects = Effects::default().capacity("qps", has, to);
            Diff::differs(Change::new(asset, "resize it", vec![], effects))
        }
    };
    diff.observed(observed)
}

impl World {
    fn new() -> Self {
        let assets: Vec<Asset> = (0..ASSETS).map(|at| thing(&name(at), 50)).collect();
        let production = assets.iter().map(|it| (it.id_str().to_owned(), 50));
        Self {
            production: production.collect(),
            rig: Rig::with(Config::default().breaker_failures(1_000), kind(), assets),
            owner: 1,
            flights: BTreeMap::new(),
            seen: BTreeMap::new(),
            durable: 0,
            closest: u64::MAX,
        }
    }

    fn step(&mut self, event: Event) {
        self.rig.step(event);
        self.rig.kernel.check_invariants(self.rig.now);
        assert_eq!(self.rig.kernel.claims.floors.recounted(), Ok(()));
    }

    fn turn(&mut self, dice: &mut Dice) {
        match dice.roll(16) {
            0..=6 => self.answer(dice),
            7 | 8 => self.persist(),
            9 | 10 => {
                let time = dice.time();
                self.pass(time);
            }
            11 => self.edit(dice),
            12 => self.pin(dice),
            13 => self.land(dice),
            14 if dice.roll(2) == 0 => {
                let more = u64::from(dice.roll(50));
                *self.production.entry(name(dice.roll(ASSETS))).or_default() += more;
            }
            15 if self.owner == 1 && dice.roll(8) == 0 => self.take_over(),
            _ => {}
        }
    }

    fn pass(&mut self, time: Duration) {
        self.rig.now.mono = self.rig.now.mono + time;
        self.rig.now.wall += time;
        self.step(Event::Tick);
    }

    fn persist(&mut self) {
        self.durable = self.rig.recorded;
        self.step(Event::Durable(self.durable));
    }

    /// Resizes two assets, so that all together still have the floor.
    fn edit(&mut self, dice: &mut Dice) {
        let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
        for at in 0..ASSETS {
            let asset = self.rig.latest.asset(&id(&name(at))).unwrap();
            sizes.insert(name(at), size(&asset));
        }
        for _ in 0..2 {
            sizes.insert(name(dice.roll(ASSETS)), dice.roll(120).into());
        }
        if sizes.values().sum::<u64>() >= FLOOR {
            let sized = sizes.iter().map(|(name, size)| thing(name, *size as u32));
            self.rig.publish(sized.collect(), &[]);
        }
    }

    fn pin(&mut self, dice: &mut Dice) {
        let asset = id(&name(dice.roll(ASSETS)));
        let sealed: Vec<_> = self.rig.sealed.values().cloned().collect();
        let sealed = sealed[dice.roll(sealed.len() as u32) as usize].clone();
        let pin = match dice.roll(2) {
            0 => Pin::At(sealed, Cause::Rollback),
            _ => Pin::Default,
        };
        self.step(Event::Pin { asset, pin });
    }

    fn take_over(&mut self) {
        self.persist();
        self.rig = self.rig.taken_over();
        self.owner += 1;
        self.durable = 0;
    }

    fn answer(&mut self, dice: &mut Dice) {
        let calls = self.rig.calls.len() as u32;
        if calls > 0 {
            let call = self.rig.calls.remove(dice.roll(calls) as usize);
            self.carry_out(call, dice);
        }
    }

    /// Whether the provider takes a call. It then refuses older ones.
    fn takes(&mut self, target: &Target) -> bool {
        let asset = target.asset.id_str();
        let fence = (self.owner, target.fence);
        let seen = self.seen.entry(asset.to_owned()).or_default();
        let newest = fence >= *seen;
        *seen = fence.max(*seen);
        let flights = self.flights.entry(asset.to_owned()).or_default();
        flights.retain(|it| it.fence >= *seen);
        newest
    }

    fn carry_out(&mut self, call: Call, dice: &mut Dice) {
        let event = match call {
            Call::Diff(target) => Event::DiffDone {
                run: target.run,
                answer: match self.takes(&target) {
                    _ if dice.roll(10) == 1 => Err(plugin::Error::transient("down")),
                    true => Ok(resizes(
                        &target.asset,
                        self.production[target.asset.id_str()],
                    )),
                    false => Err(plugin::Error::transient("an old call")),
                },
            },
            Call::Check(check) => {
                let verdict = self.verdict(&check.change, &check.target.asset, dice);
                Event::CheckDone {
                    run: check.target.run,
                    answer: Ok(verdict),
                }
            }
            Call::Push(push) => {
                let (run, target) = (push.target.run, push.target);
                if !self.takes(&target) {
                    let answer = Err(plugin::Error::transient("an old call"));
                    return self.step(Event::PushDone { run, answer });
                }
                let flight = Flight {
                    fence: (self.owner, target.fence),
                    to: size(&target.asset),
                };
                let asset = target.asset.id_str().to_owned();
                self.flights.entry(asset.clone()).or_default().push(flight);
                let answer = match dice.roll(8) {
                    // The answer is lost, and the deadline passes.
                    1 => return,
                    2 | 3 => Err(plugin::Error::unknown("the connection broke")),
                    4 => {
                        self.flights.remove(&asset);
                        Err(plugin::Error::transient("down"))
                    }
                    _ => {
                        self.lands(&asset, 0);
                        Ok(Pushed::Done)
                    }
                };
                Event::PushDone { run, answer }
            }
            Call::Abandon(_) => return,
        };
        self.step(event);
    }

    /// The verdict of a check like `Capacity`. Sometimes it only claims.
    fn verdict(&mut self, change: &Change, asset: &Asset, dice: &mut Dice) -> Verdict {
        let verdict = Verdict::proceed(self.rig.now.wall);
        let to = match change.effects.capacity.get("qps") {
            Some(it) if it.to < it.from => it.to,
            _ => return verdict,
        };
        let served = self.served(asset.id_str());
        let verdict = verdict.claim(Claim::Keep {
            key: key(),
            keeps: to,
            at_least: FLOOR,
        });
        if served.units + to >= FLOOR || dice.roll(3) == 1 {
            return verdict;
        }
        let delay = Delay::new("too little", Recheck::WhenFree(key())).check("test");
        let mut waits = verdict;
        waits.delays = vec![delay];
        waits
    }

    fn served(&mut self, but: &str) -> Served {
        let assets: BTreeSet<_> = (0..ASSETS).map(|at| id(&name(at))).collect();
        let serving = Serving {
            key: key(),
            unit: "qps".into(),
            assets: Arc::new(assets),
        };
        let (ticket, but) = (1, id(but));
        self.step(Event::Served {
            ticket,
            serving,
            but,
        });
        self.rig.served.remove(&ticket).unwrap()
    }

    /// A push under way takes effect, late.
    fn land(&mut self, dice: &mut Dice) {
        let open = self.flights.iter().filter(|(_, all)| !all.is_empty());
        let open: Vec<_> = open
            .map(|(asset, all)| (asset.clone(), all.len()))
            .collect();
        if open.is_empty() {
            return;
        }
        let (asset, count) = &open[dice.roll(open.len() as u32) as usize];
        self.lands(asset, dice.roll(*count as u32) as usize);
    }

    fn lands(&mut self, asset: &str, at: usize) {
        let all = self.flights.get_mut(asset).unwrap();
        let Flight { to, .. } = all.remove(at.min(all.len() - 1));
        let had = self.production.insert(asset.to_owned(), to).unwrap();
        let all: u64 = self.production.values().sum();
        if to < had {
            assert!(
                all >= FLOOR,
                "{asset} went from {had} to {to}, and {all} are left of {FLOOR}"
            );
            self.closest = self.closest.min(all - FLOOR);
        }
    }

    /// All calls succeed from now on, and nothing is pinned: all assets must settle.
    fn heal(&mut self) {
        for at in 0..ASSETS {
            let asset = id(&name(at));
            let pin = Pin::Default;
            self.step(Event::Pin { asset, pin });
        }
        let end = self.rig.now.mono + Duration::from_secs(3_600);
        let mut well = Dice {
            drawn: Vec::new().into_iter(),
        };
        while self.rig.now.mono < end {
            while let Some(call) = self.rig.calls.pop() {
                self.carry_out(call, &mut well);
            }
            if self.durable < self.rig.recorded {
                self.persist();
                continue;
            }
            let wake = self.rig.kernel.next_wake(self.rig.now).unwrap_or(end);
            self.pass(wake.since(self.rig.now.mono));
        }
        for (asset, has) in &self.production {
            let wanted = size(&self.rig.latest.asset(&id(asset)).unwrap());
            let explained = self.rig.kernel.explain(self.rig.now, &id(asset));
            assert_eq!(*has, wanted, "{asset}: {explained:#?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn r109_no_push_that_lands_takes_capacity_below_its_floor(
        drawn in proptest::collection::vec(any::<u32>(), 0..1_500)
    ) {
        let mut dice = Dice { drawn: drawn.into_iter() };
        let mut world = World::new();
        while !dice.is_over() {
            world.turn(&mut dice);
        }
        world.heal();
    }
}
