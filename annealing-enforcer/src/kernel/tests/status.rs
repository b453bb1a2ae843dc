//! Tests of `status`: R63, R64. Each asset that is not as intended is counted once, by its reason, and the first are
//! named.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use control_plane_store::records::Scope;
use plugin_sdk::{Diff, GroupHead, Now, Pin, Pushed, Recheck, plugin};
use prodspec_model::{
    Asset, AssetRef, Message as _,
    addons::{RolloutPolicyRef, Turndown},
};

use super::rig::*;
use crate::{
    Reason,
    config::Config,
    kernel::{Event, Kernel, Notice, OTHERS, Status, state::slot::flag},
};

impl Kernel {
    /// Asserts that `status`, which visits only some assets, equals a count over all of them.
    pub(super) fn check_status(&self, now: Now) {
        let found = self.status(now);
        let slots = || {
            self.table
                .slots()
                .map(|(at, slot)| (at, slot, self.table.intent(at)))
        };
        let assets =
            slots().filter(|(_, slot, intent)| slot.location.is_some() || intent.is_some());
        assert_eq!(found.assets, assets.count() as u32, "assets");
        let counted: u32 = found.reasons.values().sum();
        assert_eq!(counted, found.unsettled, "R64: each once: {found:?}");
        // R49: an asset that is about to continue under a new id is not listed.
        let renamed = |at| self.table.id(at).and_then(|id| self.new_id_of(&id));
        let orphans = slots()
            .filter(|(_, slot, _)| slot.has(flag::ORPHAN))
            .filter(|(at, slot, _)| slot.location.is_some() || renamed(*at).is_none())
            .count();
        let listed = found.orphans.len() + found.left_running.len();
        assert_eq!(listed, orphans, "orphans: {found:?}");
        let gone = slots().filter(|(at, slot, intent)| {
            let newest = slot.location.and_then(|at| self.latest().snapshot().at(at));
            let turned_down = |asset: &Asset| asset.has_addon(Turndown::TYPE);
            let intended = intent.as_ref().is_some_and(|(asset, _)| turned_down(asset));
            intended && self.table.is_settled(*at) && newest.is_some_and(|it| turned_down(&it))
        });
        let gone: BTreeSet<_> = gone.filter_map(|(at, ..)| self.table.id(at)).collect();
        let listed: BTreeSet<_> = found.turned_down.into_iter().collect();
        assert_eq!(listed, gone, "turned down and gone");
    }
}

fn status(rig: &Rig) -> Status {
    let status = rig.kernel.status(rig.now);
    let counted: u32 = status.reasons.values().sum();
    assert_eq!(counted, status.unsettled, "R64: each once: {status:?}");
    status
}

fn reasons(rig: &Rig) -> BTreeMap<Reason, u32> {
    status(rig).reasons
}

fn governed(name: &str, size: u32) -> Asset {
    let policy = AssetRef { id: id("policy") };
    let asset = thing(name, size).edit().addon(&RolloutPolicyRef { policy });
    asset.unwrap().build().unwrap()
}

pub(super) fn turned_down(name: &str) -> Asset {
    let asset = thing(name, 1).edit().addon(&Turndown {
        reason: "moved".into(),
        approved_by: "me".into(),
    });
    asset.unwrap().build().unwrap()
}

fn with_turndown(assets: Vec<Asset>) -> Rig {
    let kind = kind().turndown(true);
    Rig::with(Config::default(), kind, assets)
}

#[test]
fn r63_status_names_pauses_and_counts_what_they_hold() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    let until = rig.now.wall + Duration::from_secs(600);
    rig.pause(Scope::Partition, Some(until));
    assert_eq!(reasons(&rig), [(Reason::Paused, 2)].into());
    rig.in_sync("b");
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    let found = status(&rig);
    assert_eq!(found.reasons, [(Reason::Paused, 1)].into());
    assert_eq!(found.pauses.len(), 1);
    assert_eq!(
        (&found.pauses[0].by, found.pauses[0].until),
        (&by(), Some(until))
    );
    assert!(found.held.is_empty(), "a pause holds it, and is named");
    assert!(!found.is_as_intended());
    rig.pass(Duration::from_secs(600));
    let found = status(&rig);
    assert_eq!(found.pauses, []);
    assert!(!found.reasons.contains_key(&Reason::Paused));
}

#[test]
fn r63_status_names_approvals_and_overrides() {
    let mut rig = Rig::new(vec![thing("a", 0), thing("b", 1)]);
    rig.pause(Scope::Partition, None);
    rig.diffed("a", destroys);
    rig.diffed("b", differs);
    let change = |rig: &Rig, name| {
        let explained = rig.kernel.explain(rig.now, &id(name)).unwrap();
        explained.change.unwrap().digest
    };
    let (destroyed, delayed) = (change(&rig, "a"), change(&rig, "b"));
    rig.approve("a", destroyed);
    rig.lift("b", delayed, "test").unwrap();
    let found = status(&rig);
    let approvals = found.approvals.iter();
    let approvals: Vec<_> = approvals.map(|it| (&it.asset, it.change, &it.by)).collect();
    assert_eq!(approvals, [(&id("a"), destroyed, &by())]);
    let overrides = found.overrides.iter();
    let overrides: Vec<_> = overrides.map(|it| (&it.asset, it.check.as_str())).collect();
    assert_eq!(overrides, [(&id("b"), "test")]);
    rig.pass(Duration::from_secs(25 * 3600));
    let found = status(&rig);
    assert_eq!((found.approvals, found.overrides), (vec![], vec![]));
}

#[test]
fn r64_paused_asset_is_counted_as_paused_before_its_diff() {
    let config = kind().diffs(1);
    let mut rig = Rig::with(
        Config::default(),
        config,
        vec![thing("a", 1), thing("b", 1)],
    );
    for name in ["a", "b"] {
        let scope = Scope::Asset(id(name));
        rig.pause(scope.clone(), None);
        let expected = [(Reason::Paused, 1), (Reason::Looking, 1)];
        assert_eq!(reasons(&rig), expected.into(), "{name}");
        rig.resume(scope);
    }
}

#[test]
fn r64_every_unsettled_asset_is_counted_by_one_reason() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let mut rig = Rig::new(names.iter().map(|name| thing(name, 1)).collect());
    assert_eq!(reasons(&rig), [(Reason::Looking, 7)].into());
    rig.in_sync("a");
    rig.diffed("b", destroys);
    rig.checked("b", |verdict| verdict);
    let failed = rig.diff("c").unwrap().run;
    let answer = Err(plugin::Error::transient("not there"));
    rig.step(Event::DiffDone {
        run: failed,
        answer,
    });
    rig.diffed("d", differs);
    rig.checked("d", |mut verdict| {
        let wait = delay(Recheck::After(Duration::from_secs(60)));
        verdict.delays.push(wait);
        verdict
    });
    rig.until_push("e", |verdict| verdict.claim(exclusive("x")));
    rig.diffed("f", differs);
    rig.checked("f", |verdict| verdict.claim(exclusive("x")));
    let found = status(&rig);
    let expected = [
        (Reason::UnderWay, 1),
        (Reason::Held, 1),
        (Reason::Failed, 1),
        (Reason::Delayed, 1),
        (Reason::Others, 1),
        (Reason::Looking, 1),
    ];
    assert_eq!(found.reasons, expected.into());
    assert_eq!((found.assets, found.unsettled), (7, 6));
    let why = &found.held[&id("b")];
    assert!(found.held.len() == 1 && why.contains("approve"), "{why}");
    rig.step(Event::Renewed(rig.now.mono));
    let expected = [(Reason::UnderWay, 1), (Reason::Ownership, 5)];
    assert_eq!(reasons(&rig), expected.into());
}

#[test]
fn r63_status_names_pushes_whose_outcome_is_unknown() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    rig.until_push("a", |verdict| verdict).unwrap();
    assert_eq!(status(&rig).unknown, [], "its owner follows the push");
    // The next owner does not know the outcome.
    let mut next = rig.taken_over();
    let found = status(&next);
    let named: Vec<_> = found.unknown.iter().map(|push| &push.asset).collect();
    assert_eq!(named, [&id("a")]);
    assert_eq!(found.reasons[&Reason::UnknownPush], 1);
    next.until_diff("a");
    next.in_sync("a");
    assert_eq!(status(&next).unknown, []);
}

#[test]
fn r63_open_breaker_is_the_reason_of_all_assets_that_wait_for_it() {
    const ASSETS: u32 = 100;
    let kind = kind().diffs(1);
    let all = (0..ASSETS).map(|n| thing(&format!("a{n:03}"), 1));
    let mut rig = Rig::with(Config::default(), kind, all.collect());
    while status(&rig).open_breakers.is_empty() {
        let asked = rig.calls.iter().find_map(|call| match call {
            crate::kernel::Call::Diff(target) => Some(target.run),
            _ => None,
        });
        let run = asked.unwrap();
        rig.calls.clear();
        let answer = Err(plugin::Error::transient("not there"));
        rig.step(Event::DiffDone { run, answer });
    }
    let found = reasons(&rig);
    assert_eq!(found.values().sum::<u32>(), ASSETS);
    assert!(!found.contains_key(&Reason::Looking), "{found:?}");
    assert!(found[&Reason::Breaker] > ASSETS / 2, "{found:?}");
}

#[test]
fn r63_asset_waits_for_the_breaker_while_pushes_only_fail() {
    let name = |n: usize| format!("a{n:02}");
    let mut rig = Rig::new((0..11).map(|n| thing(&name(n), 1)).collect());
    let runs: Vec<_> = (0..10)
        .map(|n| rig.until_push(&name(n), |verdict| verdict).unwrap())
        .collect();
    for push in runs {
        let answer = Err(plugin::Error::transient("read-only"));
        let run = push.target.run;
        rig.step(Event::PushDone { run, answer });
    }
    assert_eq!(status(&rig).open_breakers.len(), 1);
    rig.diffed(&name(10), differs);
    let expected = [(Reason::Failed, 10), (Reason::Breaker, 1)];
    assert_eq!(reasons(&rig), expected.into());
}

#[test]
fn r63_retry_waits_for_the_breaker_while_diffs_only_fail() {
    let name = |n: usize| format!("a{n:02}");
    let mut rig = Rig::new((0..100).map(|n| thing(&name(n), 1)).collect());
    let mut failed = std::mem::take(&mut rig.calls).into_iter();
    while status(&rig).open_breakers.is_empty() {
        let Some(crate::kernel::Call::Diff(target)) = failed.next() else {
            panic!("no breaker opens");
        };
        let (run, answer) = (target.run, Err(plugin::Error::transient("not there")));
        rig.step(Event::DiffDone { run, answer });
    }
    let tried = reasons(&rig)[&Reason::Failed];
    // Their backoff ends; the probe does not answer.
    rig.pass(Duration::from_secs(8));
    let found = reasons(&rig);
    assert!(found[&Reason::Breaker] >= tried - 1, "{tried}: {found:?}");
}

#[test]
fn r63_push_in_progress_is_under_way_and_not_unknown() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.until_push("a", |verdict| verdict).unwrap();
    let check_again_in = Duration::from_secs(5);
    rig.calls.clear();
    let slot = rig.kernel.table.find("a").unwrap();
    let run = plugin_sdk::Run {
        slot: slot.bare(),
        n: rig.kernel.table.slot(slot).n,
        incarnation: rig.latest.no(),
    };
    let answer = Ok(Pushed::InProgress { check_again_in });
    rig.step(Event::PushDone { run, answer });
    let found = status(&rig);
    assert_eq!(found.reasons, [(Reason::UnderWay, 1)].into());
    assert_eq!(found.unknown, []);
}

#[test]
fn r64_diff_in_progress_is_under_way() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let check_again_in = Duration::from_secs(5);
    rig.diffed("a", |_| Diff::InProgress { check_again_in });
    assert_eq!(reasons(&rig), [(Reason::UnderWay, 1)].into());
}

#[test]
fn r15_turned_down_asset_back_in_the_newest_incarnation_is_not_listed_as_gone() {
    let policy = AssetRef { id: id("policy") };
    let gone = turned_down("a").edit().addon(&RolloutPolicyRef { policy });
    let mut rig = with_turndown(vec![gone.unwrap().build().unwrap()]);
    let first = rig.latest.clone();
    let pin = Pin::At(first.clone(), plugin_sdk::Cause::Intent);
    let asset = id("a");
    rig.step(Event::Pin { asset, pin });
    let heads = vec![(id("policy"), GroupHead::At(first))];
    let moves = Vec::new();
    rig.step(Event::Actuate { heads, moves });
    rig.in_sync("a");
    assert_eq!(status(&rig).turned_down, [id("a")]);
    rig.publish(vec![governed("a", 1)], &[]);
    let found = status(&rig);
    assert_eq!(found.turned_down, []);
    assert_eq!((found.unsettled, found.behind.many), (0, 1));
}

#[test]
fn r63_settled_asset_that_a_rollout_has_yet_to_move_is_behind() {
    let many = OTHERS + 4;
    let name = |n: usize| format!("a{n:02}");
    let mut rig = Rig::new((0..many).map(|n| governed(&name(n), 1)).collect());
    let heads = vec![(id("policy"), GroupHead::At(rig.latest.clone()))];
    let at = Pin::At(rig.latest.clone(), plugin_sdk::Cause::Intent);
    for n in 0..many {
        let (asset, pin) = (id(&name(n)), at.clone());
        rig.step(Event::Pin { asset, pin });
    }
    (0..many).for_each(|n| rig.in_sync(&name(n)));
    let moves = (0..many).map(|n| (id(&name(n)), Pin::Default)).collect();
    rig.step(Event::Actuate { heads, moves });
    assert!(status(&rig).is_as_intended());
    rig.publish((0..many).map(|n| governed(&name(n), 2)).collect(), &[]);
    let found = status(&rig);
    assert_eq!((found.unsettled, found.behind.many), (0, many as u32));
    assert_eq!(found.behind.first.len(), OTHERS);
    assert_eq!(found.behind.first[0], id("a00"));
    assert!(!found.is_as_intended());
}

#[test]
fn r15_asset_back_in_intent_before_its_rollout_is_left_running_and_no_orphan() {
    let mut rig = Rig::new(vec![governed("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    let to = |rig: &mut Rig, head: &prodspec_model::Incarnation| {
        let heads = vec![(id("policy"), GroupHead::At(head.clone()))];
        let moves = vec![(id("a"), Pin::Default)];
        rig.step(Event::Actuate { heads, moves });
    };
    let first = rig.latest.clone();
    to(&mut rig, &first);
    let pinned = Event::Pin {
        asset: id("a"),
        pin: Pin::At(first, plugin_sdk::Cause::Intent),
    };
    rig.step(pinned);
    rig.in_sync("a");
    rig.publish(Vec::new(), &["a"]);
    let second = rig.latest.clone();
    let pin = Pin::At(second.clone(), plugin_sdk::Cause::Intent);
    rig.step(Event::Pin {
        asset: id("a"),
        pin,
    });
    to(&mut rig, &second);
    assert_eq!(status(&rig).orphans, [id("a")]);
    rig.publish(vec![governed("a", 1)], &[]);
    let found = status(&rig);
    assert_eq!(found.orphans, []);
    assert_eq!(found.left_running, [id("a")]);
    assert!(!found.is_as_intended());
    let third = rig.latest.clone();
    let pin = Pin::At(third, plugin_sdk::Cause::Intent);
    rig.step(Event::Pin {
        asset: id("a"),
        pin,
    });
    rig.in_sync("a");
    let found = status(&rig);
    assert_eq!((found.orphans, found.left_running), (vec![], vec![]));
    assert_eq!(found.behind.many, 0);
}

#[test]
fn r15_turned_down_asset_is_listed_until_its_entry_leaves_intent() {
    let mut rig = with_turndown(vec![turned_down("a"), thing("b", 1)]);
    rig.in_sync("b");
    assert_eq!(status(&rig).turned_down, [], "not diffed yet");
    rig.in_sync("a");
    let found = status(&rig);
    assert_eq!(found.turned_down, [id("a")]);
    assert!(found.is_as_intended(), "it is gone, as intended");
    // The next owner counts it as settled until its diff.
    rig.durable();
    let mut next = rig.taken_over();
    assert_eq!(status(&next).turned_down, [id("a")]);
    assert_eq!(status(&next).assets, 2);
    // Production has it again.
    next.until_diff("a");
    next.diffed("a", destroys);
    assert_eq!(status(&next).turned_down, []);
    // Intent has it again without a turndown, and production has it.
    rig.publish(vec![thing("a", 1)], &[]);
    rig.in_sync("a");
    assert_eq!(status(&rig).turned_down, []);
    rig.publish(vec![turned_down("a")], &[]);
    rig.in_sync("a");
    assert_eq!(status(&rig).turned_down, [id("a")]);
    rig.publish(Vec::new(), &["a"]);
    let found = status(&rig);
    assert_eq!((found.turned_down, found.orphans), (vec![], vec![]));
    assert_eq!(found.assets, 1);
}

#[test]
fn r63_asset_that_drifts_after_each_repair_is_contested_although_it_is_in_sync() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    for nth in 1..=6 {
        rig.until_diff("a");
        let push = rig.until_push("a", |verdict| verdict).unwrap();
        rig.step(Event::PushDone {
            run: push.target.run,
            answer: Ok(Pushed::Done),
        });
        rig.in_sync("a");
        let found = status(&rig);
        assert_eq!(found.contested.many, u32::from(nth >= 5), "{nth}");
        assert_eq!(found.is_as_intended(), nth < 5, "{nth}");
    }
    assert_eq!(status(&rig).contested.first, [id("a")]);
    let told = |it: &&Notice| matches!(it, Notice::Contested { .. });
    assert_eq!(rig.notices.iter().filter(told).count(), 1);
    for _ in 0..4 {
        rig.pass(Duration::from_secs(300));
        rig.until_diff("a");
        rig.in_sync("a");
    }
    assert!(status(&rig).is_as_intended(), "nothing changes it any more");
}
