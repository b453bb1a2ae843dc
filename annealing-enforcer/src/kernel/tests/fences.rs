//! The numbers that guarded providers compare: diffs of one owner may overlap and arrive in any order.

use std::time::Duration;

use plugin_sdk::{Diff, Pushed, plugin};

use super::rig::*;
use crate::kernel::{Call, Event};

/// Starts an observation of `name`, and returns the number that its diff carries.
fn observed(rig: &mut Rig, ticket: u64, name: &str) -> u32 {
    let asset = id(name);
    rig.step(Event::Observe { ticket, asset });
    let mut diffs = rig.calls.iter().filter_map(|call| match call {
        Call::Diff(target) if target.asset.id_str() == name => Some(target.fence),
        _ => None,
    });
    diffs.next_back().expect("a diff is called")
}

#[test]
fn r14_overlapping_diffs_of_one_owner_carry_the_same_number() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let own = rig.calls.iter().find_map(|call| match call {
        Call::Diff(target) => Some(target.fence),
        _ => None,
    });
    let other = observed(&mut rig, 1, "a");
    assert_eq!(own, Some(other), "the first diffs");
    rig.calls.pop();
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    assert!(push.target.fence > other, "a push raises the number");
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
    rig.in_sync("a");
    rig.look_now("a");
    let own = rig.diff("a").unwrap();
    assert_eq!(
        own.fence, push.target.fence,
        "diffs after it carry its number"
    );
    assert_eq!(observed(&mut rig, 2, "a"), own.fence);
}

#[test]
fn r13_diff_after_an_unknown_push_refuses_that_push() {
    let mut rig = Rig::new(vec![thing("a", 1)]);
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    let (run, answer) = (push.target.run, Err(plugin::Error::unknown("no answer")));
    rig.step(Event::PushDone { run, answer });
    let looked = rig.diff("a").expect("the provider is guarded");
    assert!(looked.fence > push.target.fence);
    let (run, answer) = (looked.run, Ok(Diff::in_sync()));
    rig.step(Event::DiffDone { run, answer });
    rig.look_now("a");
    assert_eq!(rig.diff("a").unwrap().fence, looked.fence);
}

#[test]
fn r13_number_does_not_fall_when_an_asset_leaves_and_comes_back() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1)]);
    rig.in_sync("b");
    let push = rig.until_push("a", |verdict| verdict).unwrap();
    let (run, answer) = (push.target.run, Ok(Pushed::Done));
    rig.step(Event::PushDone { run, answer });
    rig.in_sync("a");
    rig.publish(Vec::new(), &["a"]);
    rig.acknowledge("a");
    rig.pass(Duration::from_secs(1));
    rig.publish(vec![thing("a", 1)], &[]);
    let back = rig.diff("a").expect("it is new");
    assert!(back.fence >= push.target.fence);
    assert_eq!(observed(&mut rig, 1, "a"), back.fence);
}
