//! R49: an asset under a new id takes over from its old id, once and completely.

use control_plane_store::records::{MovedRecord, Outcome, Scope};
use plugin_sdk::{Cause, Diff, FencingToken, Pin, Pushed, Recheck, Shared};
use prodspec_model::{
    Asset, Incarnation,
    addons::{DependsOn, Edge, Moved},
};

use super::{
    amounts::{consumer, has, shared},
    rig::*,
};
use crate::{
    config::Config,
    kernel::{Branch, Event, Explanation, Record, Recovered, Waiting},
};

/// `asset` as the continuation of the asset `from`.
pub(super) fn moved(asset: &Asset, from: &str) -> Asset {
    let asset = asset.edit().addon(&Moved::from(id(from)));
    asset.unwrap().build().unwrap()
}

pub(super) fn rig(assets: Vec<Asset>) -> Rig {
    Rig::with(Config::default(), kind().renames(true), assets)
}

/// A rig in which all of `assets` are in sync.
pub(super) fn settled(assets: Vec<Asset>) -> Rig {
    let names: Vec<String> = assets.iter().map(|it| it.id_str().to_owned()).collect();
    let mut rig = rig(assets);
    for name in names {
        rig.diffed(&name, |_| has(10));
    }
    rig
}

/// The next owner, which recovers from the records of `rig`, orphans and heads included.
fn next_owner(rig: &Rig) -> Rig {
    let mut recovered = Recovered::nothing(rig.latest.clone());
    let mut assets = std::collections::BTreeMap::new();
    let mut orphans = std::collections::BTreeMap::new();
    for record in &rig.records {
        match record.clone() {
            Record::Asset(asset, state) => drop(assets.insert(asset, state)),
            Record::Orphan(asset, state) => drop(orphans.insert(asset, state)),
            Record::Taken(no) => recovered.latest = rig.sealed[&no].clone(),
            _ => {}
        }
    }
    let newest = rig.latest.clone();
    recovered.newer = (recovered.latest.no() < newest.no()).then_some(newest);
    let some = |(asset, state): (_, Option<_>)| Some((asset, state?));
    recovered.assets = assets.into_iter().filter_map(some).collect();
    let last = |orphan: control_plane_store::records::Orphaned| {
        let last = rig.sealed.get(&orphan.last).cloned();
        (orphan, last)
    };
    recovered.orphans = orphans.into_values().flatten().map(last).collect();
    recovered.interventions = rig.words();
    recovered.named = rig.sealed.clone();
    let (config, kinds) = (rig.config.clone(), rig.kinds.clone());
    Rig::recover(config, kinds, FencingToken(2), recovered, rig.now)
}

fn explained(rig: &Rig, name: &str) -> Explanation {
    rig.kernel.explain(rig.now, &id(name)).unwrap()
}

/// The reason and the target of the only delay of `name`.
pub(super) fn delay_of(rig: &Rig, name: &str) -> (String, Recheck) {
    match explained(rig, name).waiting {
        Some(Waiting::Checks(delays)) => (delays[0].reason.clone(), delays[0].recheck.clone()),
        other => panic!("{name}: {other:?}"),
    }
}

fn used_by_others(rig: &mut Rig, but: &str) -> plugin_sdk::Usage {
    let now = rig.now;
    rig.kernel.usage(now, &shared(), &id(but))
}

pub(super) fn renames(rig: &Rig) -> Vec<String> {
    let renamed = |record: &Record| match record {
        Record::Renamed(from, to) => Some(format!("{from} to {to}")),
        _ => None,
    };
    rig.records.iter().filter_map(renamed).collect()
}

#[test]
pub(super) fn r49_renamed_asset_takes_over_and_leaves_nothing_behind() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    let status = rig.kernel.status(rig.now);
    assert_eq!(status.orphans, [], "a renamed asset is no orphan");
    assert_eq!(rig.remembered("a"), None, "a record is left behind");
    assert_eq!(renames(&rig), ["a to b"], "the history goes along, once");
    assert!(rig.kernel.explain(rig.now, &id("a")).is_none());
    let record = rig.remembered("b").unwrap().moved.unwrap();
    assert_eq!((record.from, record.pushed), (id("a"), false));
    assert!(rig.until_push("b", |verdict| verdict).is_some());
    assert!(rig.remembered("b").unwrap().moved.unwrap().pushed);
}

#[test]
fn r49_renamed_asset_settles_and_forgets_its_old_id() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    rig.diffed("b", differs);
    rig.checked("b", |verdict| verdict);
    rig.durable();
    rig.pushed("b", Ok(Pushed::Done));
    rig.in_sync("b");
    assert_eq!(rig.remembered("b").unwrap().moved, None);
    assert_eq!(rig.kernel.unsettled(), 0);
    assert_eq!(rig.kernel.branches()[&Branch::TookOver], 1);
    rig.publish(vec![moved(&thing("b", 2), "a")], &[]);
    rig.in_sync("b");
    assert_eq!(renames(&rig), ["a to b"], "a left-over addon does nothing");
}

#[test]
fn r49_without_a_plugin_that_renames_the_old_id_is_an_orphan() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("z", 1)]);
    rig.in_sync("a");
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    assert_eq!(rig.kernel.status(rig.now).orphans, [id("a")]);
    assert!(rig.is_diffing("b"));
}

#[test]
fn r49_old_id_with_a_push_in_flight_is_waited_for() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", differs);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    rig.publish(vec![moved(&thing("b", 2), "a")], &["a"]);
    assert!(
        !rig.is_diffing("b"),
        "a push of the same resource is in flight"
    );
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
    rig.pushed("a", Ok(Pushed::Done));
    assert!(rig.is_diffing("b"));
    assert_eq!(rig.remembered("a"), None);
}

#[test]
fn r49_calls_under_the_new_id_have_higher_numbers_than_those_before() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    for _ in 0..5 {
        rig.look_now("a");
        rig.in_sync("a");
    }
    let before = rig.kernel.table.find("a").unwrap();
    let before = rig.kernel.table.slot(before).n;
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    assert!(rig.diff("b").unwrap().run.n > before);
}

/// `a` uses 10 of `p`. The edit renames it, and the asset under the new id does not use `p` any more.
fn dropped_edge() -> Rig {
    let mut rig = settled(vec![consumer("a", 1), consumer("c", 1), thing("p", 1)]);
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    rig
}

fn demand_counts(rig: &mut Rig) {
    let unknown = used_by_others(rig, "c").unknown;
    assert_eq!(unknown, [id("b")], "b stands for what production has of a");
    rig.diffed("b", |_| has(10));
    rig.publish(vec![thing("p", 2)], &[]);
    rig.diffed("p", differs);
    let check = rig.check("p").unwrap();
    let consumers: Vec<_> = check.edges.consumers(&id("p")).cloned().collect();
    assert!(consumers.is_empty(), "found in sync without the edge");
}

#[test]
pub(super) fn r49_demand_of_a_renamed_asset_counts_until_it_is_in_sync() {
    let mut rig = dropped_edge();
    demand_counts(&mut rig);
}

#[test]
fn r49_demand_of_a_renamed_asset_counts_under_the_next_owner() {
    let mut next = next_owner(&dropped_edge());
    assert_eq!(next.kernel.status(next.now).orphans, []);
    for name in ["c", "p"] {
        if next.is_diffing(name) {
            next.diffed(name, |_| has(10));
        }
    }
    assert_eq!(used_by_others(&mut next, "c").unknown, [id("b")]);
}

#[test]
fn r49_demand_counts_once_for_both_ids() {
    let mut rig = settled(vec![consumer("a", 1), consumer("c", 1), thing("p", 1)]);
    rig.publish(vec![moved(&consumer("b", 1), "a")], &["a"]);
    used_by_others(&mut rig, "c");
    rig.diffed("b", |_| has(10));
    assert_eq!(used_by_others(&mut rig, "c").used, 10);
    assert_eq!(used_by_others(&mut rig, "b").used, 0, "c was not diffed");
}

#[test]
fn r49_check_that_began_before_the_rename_admits_nothing() {
    let mut rig = settled(vec![consumer("a", 1), thing("p", 1)]);
    rig.publish(vec![thing("p", 2)], &[]);
    rig.diffed("p", differs);
    rig.publish(vec![moved(&thing("b", 1), "a")], &["a"]);
    rig.checked("p", |verdict| verdict);
    assert!(rig.push("p").is_none());
    assert!(rig.is_diffing("p"), "the evidence about p is void");
}

/// `a` consumes capacity of `q`, to which `p` is renamed.
fn consumer_of_q(size: u32) -> Asset {
    let edges = vec![Edge::capacity(id("q"), "qps")];
    let asset = thing("a", size).edit().addon(&DependsOn { edges });
    asset.unwrap().build().unwrap()
}

#[test]
fn r49_consumers_of_the_old_id_are_consumers_of_the_new_one() {
    let mut rig = settled(vec![consumer("a", 1), thing("p", 1)]);
    rig.publish(vec![thing("a", 2), moved(&thing("q", 1), "p")], &["p"]);
    rig.diffed("a", differs);
    rig.diffed("q", differs);
    let check = rig.check("q").unwrap();
    let consumers: Vec<_> = check.edges.consumers(&id("q")).cloned().collect();
    assert_eq!(consumers, [id("a")], "the edge that the edit dropped");
    let recorded = rig.remembered("a").unwrap().edges;
    assert_eq!(recorded, [Edge::capacity(id("q"), "qps")]);
    let of_q = Shared {
        provider: id("q"),
        unit: "qps".into(),
    };
    let now = rig.now;
    let unknown = rig.kernel.usage(now, &of_q, &id("q")).unknown;
    assert_eq!(unknown, [id("a")]);
}

#[test]
fn r49_content_that_names_the_old_id_of_a_provider_means_the_new_one() {
    let mut rig = settled(vec![consumer("a", 1), thing("p", 1)]);
    let first = rig.latest.clone();
    let at = |to: &Incarnation| Pin::At(to.clone(), Cause::Intent);
    let (asset, pin) = (id("a"), at(&first));
    rig.step(Event::Pin { asset, pin });
    rig.in_sync("a");
    rig.publish(vec![consumer_of_q(1), moved(&thing("q", 1), "p")], &["p"]);
    rig.in_sync("q");
    rig.look_now("a");
    rig.diffed("a", differs);
    let check = rig.check("a").unwrap();
    assert_eq!(check.renamed.get(&id("p")), Some(&id("q")));
    let (ticket, asset) = (77, id("p"));
    rig.step(Event::Observe { ticket, asset });
    rig.diffed("q", |_| has(100));
    let answer = rig.replies[&ticket].clone().unwrap();
    let slot = rig.kernel.table.find("q").unwrap();
    assert_eq!(answer.stamp.slot, slot.bare(), "the question is about q");
    let of_q = Shared {
        provider: id("q"),
        unit: "qps".into(),
    };
    let now = rig.now;
    let unknown = rig.kernel.usage(now, &of_q, &id("q")).unknown;
    assert_eq!(unknown, [id("a")], "at its own pin it uses p, which is q");
}

#[test]
fn r49_pause_goes_along_and_approvals_end() {
    let mut rig = settled(vec![thing("a", 1), thing("z", 1)]);
    rig.publish(vec![thing("a", 2)], &[]);
    rig.diffed("a", destroys);
    rig.checked("a", |verdict| verdict);
    let change = explained(&rig, "a").change.unwrap().digest;
    rig.pause(Scope::Asset(id("a")), None);
    rig.approve("a", change);
    rig.publish(vec![moved(&thing("b", 2), "a")], &["a"]);
    rig.diffed("b", differs);
    rig.checked("b", |verdict| verdict);
    rig.durable();
    assert!(rig.push("b").is_none(), "b is paused");
    let words = rig.words();
    let paused: Vec<_> = words
        .pauses
        .iter()
        .filter(|pause| pause.resumed.is_none())
        .map(|pause| pause.scope.to_string())
        .collect();
    assert_eq!(paused, [Scope::Asset(id("b")).to_string()]);
    let ended = words.approvals[0].replaced.as_ref().unwrap();
    assert_eq!(ended.by.to_string(), "the enforcer: `a` is `b` now");
}

#[test]
fn r49_rename_of_an_asset_that_was_never_in_sync_names_the_first_id() {
    let mut rig = settled(vec![consumer("a", 1), thing("p", 1)]);
    rig.publish(vec![moved(&consumer("b", 1), "a")], &["a"]);
    rig.diff("b").unwrap();
    rig.publish(vec![moved(&consumer("c", 1), "b")], &["b"]);
    rig.pass(rig.kinds[0].diff_deadline * 2);
    assert!(!rig.is_diffing("c"), "production has no b");
    let (why, _) = delay_of(&rig, "c");
    assert!(
        why.contains("was renamed from `a` and was never in sync since"),
        "{why}"
    );
    rig.publish(vec![moved(&consumer("c", 1), "a")], &[]);
    assert!(rig.is_diffing("c"));
    let MovedRecord { from, .. } = rig.remembered("c").unwrap().moved.unwrap();
    assert_eq!(from, id("a"));
    assert_eq!(rig.remembered("b"), None);
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
}

#[test]
fn r49_an_edit_that_takes_a_rename_back_leaves_no_orphan() {
    let mut rig = settled(vec![consumer("a", 1), thing("p", 1)]);
    rig.publish(vec![moved(&consumer("b", 1), "a")], &["a"]);
    rig.diff("b").unwrap();
    rig.publish(vec![consumer("a", 1)], &["b"]);
    assert_eq!(rig.kernel.status(rig.now).orphans, []);
    rig.diffed("a", |_| Diff::in_sync());
    assert_eq!(rig.remembered("b"), None);
}

#[test]
fn r49_rename_is_finished_by_the_next_owner_once() {
    let mut rig = settled(vec![consumer("a", 1), thing("p", 1)]);
    rig.publish(vec![moved(&consumer("b", 1), "a")], &["a"]);
    for lost in 0..rig.records.len() {
        let mut before = settled(vec![consumer("a", 1), thing("p", 1)]);
        let kept = before.records.len();
        before.publish(vec![moved(&consumer("b", 1), "a")], &["a"]);
        // A crash loses whole steps only: all of this one, or nothing.
        if lost > 0 {
            before.records.truncate(kept);
        }
        let next = next_owner(&before);
        assert_eq!(next.kernel.status(next.now).orphans, []);
        let all: Vec<_> = before.records.iter().chain(&next.records).collect();
        let renamed = all.iter().filter(|it| matches!(it, Record::Renamed(..)));
        assert_eq!(renamed.count(), 1);
        let mut asset = all.iter().rev().filter_map(|record| match record {
            Record::Asset(asset, state) if *asset == id("a") => Some(state.is_none()),
            _ => None,
        });
        assert_ne!(asset.next(), Some(false), "a record of `a` is left behind");
        let told = |it: &&&Record| matches!(it, Record::Decision(_, decision) if matches!(decision.outcome, Outcome::Failed(_)));
        assert_eq!(all.iter().filter(told).count(), 0);
    }
}
