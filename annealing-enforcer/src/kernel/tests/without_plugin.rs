//! R13, R15: the next program lacks a type, or renames it. Open pushes, edges, claims and orphans are kept and shown.

use std::time::Duration;

use plugin_sdk::{Cause, Claim, Guard, observe};
use prodspec_model::{Message, TypeName};

use super::{
    leaving::{consumer, consumers_of_p},
    restarts::{Other, other},
    rig::*,
};
use crate::{
    config::TypeConfig,
    kernel::{AssetStatus, Event, Waiting},
};

fn things() -> TypeConfig {
    TypeConfig::new(TypeName::new(Thing::TYPE).unwrap())
}

fn others() -> TypeConfig {
    TypeConfig::new(TypeName::new(Other::TYPE).unwrap()).guard(Guard::Guarded)
}

/// The next owner runs a program with these types.
fn program(rig: &Rig, kinds: Vec<TypeConfig>) -> Rig {
    let mut rig = rig.taken_over_with(kinds);
    rig.kernel.check_invariants(rig.now);
    rig.pass(Duration::from_secs(1));
    rig.kernel.check_invariants(rig.now);
    rig
}

/// An advisory push of `a`, which may take ten minutes, whose owner dies.
fn cut_off() -> Rig {
    let kinds = things();
    let mut rig = Rig::with(Default::default(), kinds, vec![thing("a", 1)]);
    let claim = Claim::AtMost("domain".into(), 1);
    rig.until_push("a", |verdict| verdict.claim(claim)).unwrap();
    rig
}

/// A rig where `a` and `b` are in sync, each with a record of its own or by one record for all.
fn in_sync(own_records: bool) -> Rig {
    let mut rig = Rig::with(
        Default::default(),
        things(),
        vec![consumer(), thing("p", 1)],
    );
    if own_records {
        let push = rig.until_push("a", |verdict| verdict).unwrap();
        let run = push.target.run;
        let answer = Ok(plugin_sdk::Pushed::Done);
        rig.step(Event::PushDone { run, answer });
        rig.in_sync("a");
    } else {
        rig.in_sync("a");
    }
    rig.in_sync("p");
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.remembered("a").is_some(), own_records);
    rig
}

#[test]
fn r13_open_push_of_a_renamed_type_is_waited_for_before_the_next_push() {
    let rig = cut_off();
    let mut next = program(&rig, vec![others()]);
    next.publish(vec![other("a")], &[]);
    next.kernel.check_invariants(next.now);
    let half = Duration::from_secs(290);
    next.pass(half);
    // The wait goes on over another takeover.
    let mut next = program(&next, vec![others()]);
    assert_eq!(next.kernel.status(next.now).unknown.len(), 1);
    assert_eq!(next.kernel.claims.held().len(), 1, "and so do its claims");
    let explained = next.kernel.explain(next.now, &id("a")).unwrap();
    assert_eq!(explained.waiting, Some(Waiting::UnknownOutcome));
    next.pass(half);
    assert!(!next.is_diffing("a"), "the advisory push may still run");
    assert!(
        next.remembered("a")
            .is_none_or(|record| record.open.is_some())
    );
    next.pass(Duration::from_secs(30));
    let looked = next.diff("a").expect("its deadline is over");
    assert_eq!(looked.asset.type_str(), Other::TYPE);
    assert_eq!(next.remembered("a").unwrap().open, None);
    let (run, answer) = (looked.run, Ok(differs(&looked.asset)));
    next.step(Event::DiffDone { run, answer });
    assert!(next.check_is_asked("a"), "the new type is pushed");
}

#[test]
fn r13_open_push_without_a_plugin_is_shown_and_ends_by_its_deadline_or_a_command() {
    for by_command in [false, true] {
        let mut next = program(&cut_off(), vec![others()]);
        assert_eq!(next.kernel.status(next.now).unknown[0].asset, id("a"));
        assert!(!next.kernel.status(next.now).is_as_intended());
        if by_command {
            let asset = id("a");
            next.say(crate::kernel::Command::PushIsOver { asset, by: by() });
        } else {
            next.pass(Duration::from_secs(601));
        }
        assert!(next.kernel.status(next.now).unknown.is_empty());
        assert!(next.kernel.claims.held().is_empty());
        assert_eq!(next.kernel.status(next.now).orphans, [id("a")]);
        next.acknowledge("a");
        assert!(next.kernel.status(next.now).is_as_intended());
        let last = program(&next, vec![others()]);
        assert!(last.kernel.status(last.now).is_as_intended());
    }
}

#[test]
fn r13_open_push_without_a_slot_is_remembered() {
    let mut rig = cut_off();
    let pushed = rig.latest.clone();
    rig.publish(Vec::new(), &["a"]);
    // The record of the orphan is lost; the push is not.
    rig.records
        .retain(|record| !matches!(record, crate::kernel::Record::Orphan(..)));
    for kinds in [vec![things()], vec![others()]] {
        let next = program(&rig, kinds);
        let status = next.kernel.status(next.now);
        assert_eq!(status.unknown[0].asset, id("a"));
        assert_eq!(status.orphans, [id("a")]);
        assert!(next.kernel.referenced().contains(&pushed.no()));
    }
}

#[test]
fn r15_asset_that_leaves_intent_with_its_plugin_is_an_orphan() {
    for own_records in [false, true] {
        let rig = in_sync(own_records);
        let mut next = program(&rig, vec![others()]);
        next.publish(Vec::new(), &["a", "p"]);
        next.kernel.check_invariants(next.now);
        for _ in 0..2 {
            let status = next.kernel.status(next.now);
            assert_eq!(status.orphans, [id("a"), id("p")], "{own_records}");
            assert!(!status.is_as_intended());
            let explained = next.kernel.explain(next.now, &id("a")).unwrap();
            assert_eq!(explained.status, AssetStatus::Orphaned);
            let Some(Waiting::Operator(why)) = explained.waiting else {
                panic!("{explained:?}");
            };
            assert!(
                why.contains(Thing::TYPE) && why.contains("acknowledge"),
                "{why}"
            );
            assert!(next.calls.is_empty());
            next = program(&next, vec![others()]);
        }
        next.acknowledge("a");
        next.acknowledge("p");
        next.kernel.check_invariants(next.now);
        let last = program(&next, vec![others()]);
        assert!(last.kernel.status(last.now).is_as_intended());
    }
}

#[test]
fn r16_edges_of_an_asset_without_a_plugin_count() {
    for own_records in [false, true] {
        let rig = in_sync(own_records);
        let mut next = program(&rig, vec![others()]);
        next.publish(vec![other("a"), other("p")], &["a"]);
        let mut last = program(&next, vec![things(), others()]);
        assert_eq!(consumers_of_p(&mut last), [id("a")], "{own_records}");
    }
}

#[test]
fn r16_observation_of_an_asset_without_a_plugin_fails() {
    let mut next = program(&in_sync(true), vec![others()]);
    let (ticket, asset) = (1, id("a"));
    next.step(Event::Observe { ticket, asset });
    let Err(observe::Error::Failed(why)) = &next.replies[&ticket] else {
        panic!("{:?}", next.replies);
    };
    assert!(why.contains("no plugin"), "{why}");
}

#[test]
fn r15_asset_is_as_it_was_when_its_plugin_is_back() {
    for own_records in [false, true] {
        let rig = in_sync(own_records);
        let mut without = program(&rig, vec![others()]);
        assert_eq!(without.kernel.status(without.now).orphans.len(), 2);
        let (asset, by) = (id("a"), by());
        let look = crate::kernel::Command::LookNow { asset, by };
        let why = without.try_say(look).unwrap_err();
        assert!(why.contains("no plugin"), "{why}");
        let without = program(&without, vec![others()]);
        let mut back = program(&without, vec![things(), others()]);
        let status = back.kernel.status(back.now);
        assert!(status.is_as_intended(), "{own_records}: {status:?}");
        back.look_now("a");
        back.diffed("a", differs);
        assert_eq!(back.check("a").unwrap().cause, Cause::Drift);
    }
}

#[test]
fn r15_asset_of_a_type_that_gets_its_first_plugin_is_not_taken_for_in_sync() {
    let mut rig = Rig::with(
        Default::default(),
        things(),
        vec![thing("a", 1), other("b")],
    );
    rig.in_sync("a");
    rig.pass(Duration::from_secs(2));
    let mut next = program(&rig, vec![things(), others()]);
    assert_eq!(next.kernel.unsettled(), 1);
    next.diffed("b", differs);
    assert_eq!(next.check("b").unwrap().cause, Cause::Intent);
}
