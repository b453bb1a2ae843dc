//! The cost of a rollout is proportional to its targets: with quadratic cost this test would not end.

use std::time::Duration;

use prodspec_model::rollout::RolloutPolicy;

use super::rig::{Rig, thing};
use crate::kernel::Command;

const MANY: u32 = 10_000;

fn all(size: u64) -> Vec<prodspec_model::Asset> {
    (0..MANY)
        .map(|at| thing(&format!("c{}/a{at:06}", at % 20), size))
        .collect()
}

#[test]
fn many_targets_settle_one_by_one_and_go_back_one_by_one() {
    let mut rig = Rig::settled(RolloutPolicy::default(), all(1));
    rig.selected = 0;
    rig.put(all(2));
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.state().word(), "completed");
    assert!(rig.selected < 200, "{}", rig.selected);
    rig.put(all(3));
    rig.lag = None;
    rig.run();
    rig.tell(Command::RollBack).unwrap();
    rig.lag = Some(Duration::from_secs(1));
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.state().word(), "rolled back");
    rig.put(vec![thing("c0/z", 1)]);
    rig.pass(Duration::from_secs(60));
    assert_eq!(
        (rig.state().word(), rig.at(2).len()),
        ("completed", MANY as usize)
    );
}
