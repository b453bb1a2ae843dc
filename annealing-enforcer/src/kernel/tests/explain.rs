//! Tests of `explain`: it names the assets that block an asset.

use plugin_sdk::{Claim, Pushed, Stamp, Verdict};

use super::rig::*;
use crate::kernel::{Event, Waiting, state::numbers::SlotNo};

/// The assets that block an asset.
fn behind(rig: &Rig, name: &str) -> Vec<String> {
    let explained = rig.kernel.explain(rig.now, &id(name)).unwrap();
    match explained.waiting {
        Some(Waiting::Others { by, .. }) => by.iter().map(ToString::to_string).collect(),
        other => panic!("{name} waits for {other:?}"),
    }
}

#[test]
fn explain_names_the_present_and_the_next_holder_of_a_claim() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    let one = || Claim::AtMost("domain".into(), 1);
    let push = rig.until_push("a", |verdict| verdict.claim(one())).unwrap();
    for name in ["b", "c"] {
        rig.diffed(name, differs);
        rig.checked(name, |verdict| verdict.claim(one()));
        assert_eq!(behind(&rig, name), ["a"]);
    }
    rig.step(Event::PushDone {
        run: push.target.run,
        answer: Ok(Pushed::Done),
    });
    assert_eq!(behind(&rig, "b"), ["a"], "pushed, but not settled yet");
    rig.in_sync("a");
    let push = rig.until_push("b", |verdict| verdict.claim(one()));
    assert!(push.is_some());
    assert_eq!(behind(&rig, "c"), ["b"]);
}

#[test]
fn explain_names_pushes_that_rely_on_the_asset_and_pushes_it_relies_on() {
    let mut rig = Rig::new(vec![thing("a", 1), thing("b", 1), thing("c", 1)]);
    rig.diffed("a", differs);
    let a = rig.check("a").unwrap().target.run;
    rig.diffed("b", differs);
    let b = rig.check("b").unwrap().target.run;
    let c = rig.kernel.table.find("c").unwrap();
    let wall = rig.now.wall;
    let relies = |slot: SlotNo| {
        let mut verdict = Verdict::proceed(wall);
        verdict.relies_on.push(Stamp {
            slot: slot.bare(),
            seq: 0,
        });
        Ok(verdict)
    };
    let (run, answer) = (a, relies(c));
    rig.step(Event::CheckDone { run, answer });
    rig.durable();
    assert!(rig.push("a").is_some());
    let (run, answer) = (b, relies(SlotNo::of_run(a)));
    rig.step(Event::CheckDone { run, answer });
    assert_eq!(behind(&rig, "b"), ["a"], "b relies on a, which is pushed");
    rig.diffed("c", differs);
    rig.checked("c", |verdict| verdict);
    assert_eq!(behind(&rig, "c"), ["a"], "the push of a relies on c");
}
