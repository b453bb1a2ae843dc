//! Thousands of assets come and go: the kernel's memory depends only on the assets that exist.

use std::{collections::BTreeMap, time::Duration};

use plugin_sdk::{Cause, Claim, Diff, Pin, Pushed, Quota, Recheck};
use prodspec_model::{
    Asset, AssetRef, Incarnation,
    addons::{DependsOn, Edge, Need, RolloutPolicyRef, Turndown},
};

use super::rig::{Rig, delay, differs, exclusive, id, thing};
use crate::kernel::{Event, Kernel, Record};

/// Number of assets that come and go together.
const LOT: usize = 100;
/// Number of lots, one after another.
const LOTS: usize = 100;

impl Kernel {
    /// The sizes of the kernel's collections.
    fn sizes(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            ("slots", self.table.len() as usize),
            ("pins", self.table.pins()),
            ("referenced", self.referenced().len()),
            ("attempts", self.attempts.iter().count()),
            ("keys parked on", self.claims.awaited_keys()),
            ("claims", self.claims.held().len()),
            ("rates", self.claims.rates.size()),
            ("holds", self.holds.len()),
            ("settle waiters", self.settle_waits.sizes().0),
            ("settle log", self.settle_waits.sizes().1),
            ("edges", self.edges.len()),
            ("touched", self.edges.touched()),
            ("early pins", self.pins.early().len()),
            (
                "last settled",
                self.table.last_settled().referenced().count(),
            ),
            ("pinned", self.pins.len() + self.census.behind().len()),
            ("unrecorded", self.ledger.quiet()),
            (
                "asked",
                self.kinds.iter().map(|kind| kind.asked.len()).sum(),
            ),
        ])
    }

    /// Asserts that the collections are as small as for a few lots of assets.
    fn is_small(&self, latest: usize) {
        for (what, size) in self.sizes() {
            assert!(size <= 3 * LOT + latest, "{what}: {size}");
        }
    }
}

fn name(lot: usize, n: usize) -> String {
    format!("lot{lot}/a{n}")
}

fn turned(asset: &Asset) -> Asset {
    let (reason, approved_by) = ("moved".into(), "me".into());
    let addon = Turndown {
        reason,
        approved_by,
    };
    asset.edit().addon(&addon).unwrap().build().unwrap()
}

/// An asset that depends on the next one of its lot.
fn asset(lot: usize, n: usize) -> Asset {
    let provider = AssetRef::to(id(&name(lot, (n + 1) % LOT)));
    let edges = vec![Edge {
        provider,
        need: Need::Order,
    }];
    let asset = thing(&name(lot, n), 1).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

/// Pushes an asset that claims keys of its own and one key of its lot.
fn push(rig: &mut Rig, lot: usize, n: usize) {
    let name = name(lot, n);
    rig.diffed(&name, differs);
    let quota = Quota::new(1, Duration::from_secs(1));
    rig.checked(&name, |verdict| {
        verdict
            .claim(Claim::Rate(name.as_str().into(), quota))
            .claim(Claim::AtMost(format!("lot{lot}").as_str().into(), 1_000))
            .claim(exclusive(&name))
    });
    rig.durable();
    rig.pushed(&name, Ok(Pushed::Done));
    rig.in_sync(&name);
}

fn churn(leave: impl Fn(&mut Rig, usize, &[String])) {
    let mut rig = Rig::new(vec![thing("stays", 1)]);
    // One check is under way all the time, as in a busy partition.
    rig.diffed("stays", differs);
    for lot in 0..LOTS {
        let names: Vec<String> = (0..LOT).map(|n| name(lot, n)).collect();
        rig.publish((0..LOT).map(|n| asset(lot, n)).collect(), &[]);
        for n in 0..LOT {
            push(&mut rig, lot, n);
        }
        leave(&mut rig, lot, &names);
        rig.pass(Duration::from_secs(20));
        if rig.is_diffing("stays") {
            rig.diffed("stays", differs);
        }
        rig.records.clear();
        rig.kernel.check_invariants(rig.now);
    }
    rig.kernel.is_small(4);
}

fn removed(rig: &mut Rig, names: &[String]) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    rig.publish(Vec::new(), &names);
}

#[test]
fn turned_down_and_removed_assets_are_forgotten() {
    churn(|rig, lot, names| {
        rig.publish((0..LOT).map(|n| turned(&asset(lot, n))).collect(), &[]);
        names.iter().for_each(|name| rig.in_sync(name));
        removed(rig, names);
    });
}

#[test]
fn acknowledged_orphans_are_forgotten() {
    churn(|rig, _, names| {
        removed(rig, names);
        assert_eq!(rig.kernel.status(rig.now).orphans.len(), LOT);
        for name in names {
            rig.acknowledge(name);
        }
    });
}

#[test]
fn decisions_of_a_forgotten_asset_are_removed() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![thing("b", 1)], &[]);
    rig.diffed("b", differs);
    rig.checked("b", |mut verdict| {
        let wait = delay(Recheck::After(Duration::from_secs(60)));
        verdict.delays.push(wait);
        verdict
    });
    rig.publish(Vec::new(), &["b"]);
    rig.acknowledge("b");
    let gone = |record: &Record| matches!(record, Record::Gone(asset) if *asset == id("b"));
    assert!(rig.records.iter().any(gone));
}

#[test]
fn forgotten_asset_that_waited_for_itself_is_not_queued() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| {
        let itself = delay(Recheck::WhenSettled(id("a")));
        plugin_sdk::Verdict::delay(verdict.as_of, itself)
    });
    rig.publish(Vec::new(), &["a"]);
    rig.step(Event::Renewed(rig.now.mono));
    rig.acknowledge("a");
    assert_eq!(rig.kernel.kinds[0].queued, 0);
    rig.kernel.check_invariants(rig.now);
}

#[test]
fn pins_of_unknown_assets_are_forgotten_when_they_are_removed() {
    churn(|rig, lot, names| {
        let at = rig.latest.clone();
        let pin = |rig: &mut Rig, name: &str, pin: Pin<Incarnation>| {
            let asset = id(name);
            rig.step(Event::Pin { asset, pin });
        };
        for name in names {
            let unknown = format!("{name}/unknown");
            pin(rig, &unknown, Pin::NotYet);
            pin(rig, name, Pin::At(at.clone(), Cause::Intent));
            rig.in_sync(name);
        }
        rig.publish((0..LOT).map(|n| turned(&asset(lot, n))).collect(), &[]);
        for name in names {
            pin(rig, &format!("{name}/unknown"), Pin::Default);
            pin(rig, name, Pin::Default);
            rig.in_sync(name);
        }
        removed(rig, names);
    });
}

#[test]
fn policies_that_govern_no_asset_are_forgotten() {
    let mut rig = Rig::new(vec![thing("stays", 1)]);
    for n in 0..1_000 {
        let policy = AssetRef::to(id(&format!("policy/{n}")));
        let governed = thing("a", 1).edit().addon(&RolloutPolicyRef { policy });
        rig.publish(vec![governed.unwrap().build().unwrap()], &[]);
        rig.kernel.check_invariants(rig.now);
    }
    rig.kernel.is_small(4);
}

#[test]
fn queued_observations_of_a_busy_plugin_are_bounded() {
    let mut rig = Rig::with(
        crate::Config::default(),
        super::rig::kind().diffs(2),
        vec![thing("a", 1), thing("b", 1), thing("c", 1), thing("d", 1)],
    );
    rig.diffed("a", differs);
    let mut tickets = 0;
    for _ in 0..100 {
        let Some(check) = rig.check("a") else {
            rig.until_diff("a");
            rig.diffed("a", differs);
            continue;
        };
        for _ in 0..10 {
            tickets += 1;
            rig.step(Event::Observe {
                ticket: tickets,
                asset: id("d"),
            });
        }
        let mut verdict = plugin_sdk::Verdict::proceed(rig.now.wall);
        verdict.delays = vec![delay(Recheck::After(Duration::from_secs(1)))];
        rig.step(Event::CheckDone {
            run: check.target.run,
            answer: Ok(verdict),
        });
        let asked = rig.kernel.sizes()["asked"];
        assert!(asked <= 1, "{asked} queued diffs for the same observation");
        rig.calls.clear();
        rig.pass(Duration::from_secs(2));
        if rig.is_diffing("a") {
            rig.diffed("a", differs);
        }
    }
}

#[test]
fn s5_asset_that_comes_back_gets_higher_run_numbers() {
    let mut rig = Rig::new(vec![thing("stays", 1), thing("a", 1), thing("b", 1)]);
    for name in ["a", "b"] {
        rig.in_sync(name);
    }
    for size in 2..9 {
        rig.publish(vec![thing("a", size)], &[]);
        rig.in_sync("a");
    }
    rig.publish(vec![thing("a", 9)], &[]);
    let before = rig.diff("a").unwrap().run;
    let answer = Ok(Diff::in_sync());
    rig.step(Event::DiffDone {
        run: before,
        answer,
    });
    for name in ["a", "b"] {
        rig.publish(Vec::new(), &[name]);
        rig.acknowledge(name);
    }
    // The asset gets another slot than before.
    rig.publish(vec![thing("a", 1)], &[]);
    let after = rig.diff("a").unwrap().run;
    assert!(after.n > before.n, "{before:?}, then {after:?}");
}

/// A provider's push relies on `c`, which is turned down meanwhile and removed from intent.
#[test]
fn asset_that_left_during_a_push_that_relies_on_it_is_forgotten_after_the_push() {
    let mut rig = Rig::new(vec![thing("c", 1), thing("p", 1)]);
    rig.in_sync("c");
    rig.diffed("p", differs);
    let stamp = rig.observe("c", Diff::in_sync()).stamp;
    rig.checked("p", |mut verdict| {
        verdict.relies_on.push(stamp);
        verdict
    });
    rig.durable();
    let push = rig.push("p").unwrap();
    rig.publish(vec![turned(&thing("c", 1))], &[]);
    rig.in_sync("c");
    rig.publish(Vec::new(), &["c"]);
    let gone = |rig: &Rig| {
        let of = |record: &&Record| matches!(record, Record::Gone(asset) if *asset == id("c"));
        rig.records.iter().filter(of).count()
    };
    assert_eq!(gone(&rig), 0, "the push relies on it");
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
    assert_eq!(gone(&rig), 1);
    assert!(rig.kernel.table.find("c").is_none());
}

/// A check of `p` still asks about `c`, for which its plugin has no capacity, when `c` leaves.
#[test]
fn asset_that_left_with_a_queued_observation_is_forgotten_after_it() {
    let config = super::rig::kind().diffs(1);
    let assets = vec![thing("c", 1), thing("p", 1), thing("q", 1)];
    let mut rig = Rig::with(crate::config::Config::default(), config, assets);
    for name in ["c", "p", "q"] {
        rig.until_diff(name);
        rig.in_sync(name);
    }
    rig.publish(vec![turned(&thing("c", 1))], &[]);
    rig.in_sync("c");
    rig.look_now("q");
    let (ticket, asset) = (77, id("c"));
    rig.step(Event::Observe { ticket, asset });
    rig.publish(Vec::new(), &["c"]);
    assert!(rig.kernel.table.find("c").is_some(), "it is asked about");
    rig.in_sync("q");
    if rig.is_diffing("c") {
        rig.in_sync("c");
    }
    assert!(rig.kernel.table.find("c").is_none());
}
