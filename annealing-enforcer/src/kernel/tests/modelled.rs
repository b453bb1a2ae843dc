//! Assets whose type has no plugin, or has none any more: they are not enforced, and hold no claims.

use std::time::Duration;

use plugin_sdk::{Cause, Claim, FencingToken, Pin, Recheck, SyncState, observe};
use prodspec_model::{Asset, AssetRef, Incarnation, Message, addons::RolloutPolicyRef};
use serde::{Deserialize, Serialize};

use super::rig::{Rig, delay, differs, id, kind, thing};
use crate::{
    config::Config,
    kernel::{AssetStatus, Branch, Event, Recovered, state::numbers::AttemptNo},
};

#[derive(Serialize, Deserialize)]
struct Idea {
    size: u32,
}

impl Message for Idea {
    const TYPE: &'static str = "test.v1.Idea";
}

pub(super) fn idea(name: &str, size: u32) -> Asset {
    let asset = Asset::builder(id(name)).payload(&Idea { size });
    asset.unwrap().build().unwrap()
}

fn one() -> Claim {
    Claim::AtMost("domain".into(), 1)
}

/// Asserts that no call is made for `a` during an hour.
fn is_left_alone(rig: &mut Rig) {
    for _ in 0..60 {
        rig.pass(Duration::from_secs(60));
        assert!(!rig.is_diffing("a") && !rig.check_is_asked("a"));
        assert!(rig.push("a").is_none());
        if rig.is_diffing("b") {
            rig.in_sync("b");
        }
    }
}

#[test]
fn r15_an_asset_that_becomes_modelled_only_is_left_alone() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("a");
    rig.in_sync("b");
    rig.publish(vec![idea("a", 1)], &[]);
    is_left_alone(&mut rig);
    assert_eq!(
        rig.kernel.status(rig.now).orphans,
        [id("a")],
        "its resource is left alone"
    );
    assert!(rig.kernel.all_settled_at(rig.latest.no()));
    assert!(rig.kernel.standing(rig.now, &id("a")).is_settled());
    rig.publish(vec![idea("a", 2)], &[]);
    is_left_alone(&mut rig);
    rig.publish(vec![thing("a", 2)], &[]);
    assert!(rig.kernel.status(rig.now).orphans.is_empty());
    assert!(rig.is_diffing("a"), "it has a plugin again");
    rig.in_sync("a");
    rig.publish(vec![idea("a", 2)], &[]);
    rig.acknowledge("a");
    assert!(rig.kernel.table.find("a").is_none(), "it is forgotten");
    rig.publish(vec![thing("a", 3)], &[]);
    assert!(rig.is_diffing("a"));
}

#[test]
fn r9_asset_that_becomes_modelled_only_frees_its_claims() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    rig.publish(vec![idea("a", 1)], &[]);
    assert_eq!(
        rig.kernel.claims.held().len(),
        1,
        "it is still being pushed"
    );
    rig.pass(Duration::from_secs(601));
    rig.in_sync("a");
    assert_eq!(rig.kernel.branches()[&Branch::Resolved], 1);
    assert!(rig.kernel.claims.held().is_empty());
    let slot = rig.kernel.table.find("a").unwrap();
    assert_eq!(rig.kernel.table.slot(slot).attempt, AttemptNo::NONE);
    rig.kernel.check_invariants(rig.now);
}

#[test]
fn r7_an_asset_that_becomes_modelled_only_waits_for_nothing() {
    let rechecks = [
        Recheck::WhenSettled(id("b")),
        Recheck::After(Duration::from_secs(9)),
    ];
    for recheck in rechecks {
        let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
        rig.diffed("a", differs);
        rig.checked("a", |mut verdict| {
            verdict.delays = vec![delay(recheck)];
            verdict
        });
        rig.publish(vec![idea("a", 1)], &[]);
        rig.in_sync("b");
        is_left_alone(&mut rig);
    }
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    rig.diffed("a", differs);
    rig.publish(vec![idea("a", 1)], &[]);
    rig.checked("a", |verdict| verdict);
    rig.durable();
    is_left_alone(&mut rig);
}

#[test]
fn r20_modelled_only_asset_counts_as_in_sync_once_it_is_pinned() {
    let policy = AssetRef { id: id("policy") };
    let governed = |asset: Asset| {
        let asset = asset.edit().addon(&RolloutPolicyRef {
            policy: policy.clone(),
        });
        asset.unwrap().build().unwrap()
    };
    let mut rig = Rig::new(vec![governed(thing("a", 1)), thing("b", 1)]);
    rig.in_sync("b");
    let first = rig.latest.clone();
    let pin = |rig: &mut Rig, pin: Pin<Incarnation>| {
        let asset = id("a");
        rig.step(Event::Pin { asset, pin });
    };
    pin(&mut rig, Pin::At(first.clone(), Cause::Intent));
    rig.in_sync("a");
    rig.publish(vec![governed(idea("a", 1))], &[]);
    assert!(
        rig.kernel.status(rig.now).orphans.is_empty(),
        "R17: it stays"
    );
    rig.look_now("a");
    rig.in_sync("a");
    let second = rig.latest.clone();
    pin(&mut rig, Pin::At(second.clone(), Cause::Intent));
    is_left_alone(&mut rig);
    let (_, found) = rig.kernel.pinned().pop().unwrap();
    assert_eq!(found.pin, Pin::At(second.no(), Cause::Intent));
    assert_eq!(found.content, second.asset(&id("a")).map(|a| a.digest()));
    assert!(matches!(found.state, SyncState::InSync { .. }));
    pin(&mut rig, Pin::At(first, Cause::Rollback));
    assert!(rig.is_diffing("a"), "back, and enforced again");
}

#[test]
fn r15_a_new_binary_without_the_type_leaves_its_assets_alone() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    let mut recovered = Recovered::nothing(rig.latest.clone());
    recovered.assets = vec![(id("a"), rig.remembered("a").unwrap())];
    let other = crate::TypeConfig::new(prodspec_model::TypeName::new(Idea::TYPE).unwrap());
    let (config, now) = (Config::default(), rig.now);
    let mut next = Rig::recover(config, vec![other], FencingToken(2), recovered, now);
    is_left_alone(&mut next);
    assert!(next.kernel.claims.held().is_empty());
    assert!(next.kernel.all_settled_at(next.latest.no()));
}

#[test]
fn r8_neighbour_of_another_type_is_diffed_by_the_plugin_of_that_type() {
    let other = crate::TypeConfig::new(prodspec_model::TypeName::new(Idea::TYPE).unwrap());
    let recovered = Recovered::nothing(Rig::new(vec![thing("a", 1), thing("b", 1)]).latest);
    let (config, now) = (Config::default(), Rig::new(Vec::new()).now);
    let kinds = vec![kind(), other];
    let mut rig = Rig::recover(config, kinds, FencingToken(1), recovered, now);
    rig.in_sync("b");
    rig.diffed("a", differs);
    rig.pass(Duration::from_secs(31));
    rig.publish(vec![idea("b", 1)], &[]);
    rig.in_sync("b");
    rig.until_diff("a");
    rig.diffed("a", differs);
    rig.pass(Duration::from_secs(6));
    let (ticket, asset) = (1, id("b"));
    rig.step(Event::Observe { ticket, asset });
    assert_eq!(rig.diff("b").unwrap().plugin.index(), 1);
}

#[test]
fn r15_orphan_that_became_modelled_only_is_listed_after_a_restart() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    rig.in_sync("a");
    rig.publish(vec![idea("a", 1)], &[]);
    let orphaned = rig.records.iter().find_map(|record| match record {
        crate::kernel::Record::Orphan(_, orphaned) => orphaned.clone(),
        _ => None,
    });
    let mut recovered = Recovered::nothing(rig.latest.clone());
    recovered.orphans = vec![(orphaned.unwrap(), None)];
    let (config, now) = (Config::default(), rig.now);
    let mut next = Rig::recover(config, vec![kind()], FencingToken(2), recovered, now);
    assert_eq!(next.kernel.status(next.now).orphans, [id("a")]);
    let found = next.kernel.explain(next.now, &id("a")).unwrap();
    assert_eq!(found.status, AssetStatus::Orphaned);
    is_left_alone(&mut next);
}

#[test]
fn r16_observation_distinguishes_a_modelled_only_asset_from_one_that_is_gone() {
    let mut rig = Rig::new(vec![thing("a", 1), idea("b", 1)]);
    for (ticket, (name, why)) in [
        ("b", observe::Error::ModelledOnly),
        ("c", observe::Error::Gone),
    ]
    .into_iter()
    .enumerate()
    {
        let (ticket, asset) = (ticket as u64, id(name));
        rig.step(Event::Observe { ticket, asset });
        assert_eq!(rig.replies[&ticket], Err(why), "{name}");
    }
}
