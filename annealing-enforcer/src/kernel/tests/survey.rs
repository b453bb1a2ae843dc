//! R16: consumers without a recent finding are diffed once, for any number of checks that ask.

use std::time::Duration;

use plugin_sdk::{Usage, plugin};
use prodspec_model::{
    AssetRef,
    addons::{DependsOn, Edge, Need},
};

use super::{
    amounts::{NAMES, consumer, has, shared},
    modelled,
    rig::*,
};
use crate::kernel::{Branch, Event};

/// A check of `but` asks for the use of the other consumers.
fn asks(rig: &mut Rig, ticket: u64, but: &str) {
    rig.step(Event::Usage {
        ticket,
        shared: shared(),
        but: id(but),
    });
}

/// Consumers in sync whose findings are too old to count.
fn aged(names: &[String]) -> Rig {
    let mut assets: Vec<_> = names.iter().map(|name| consumer(name, 1)).collect();
    assets.push(thing("p", 1));
    let mut rig = Rig::new(assets);
    for name in names {
        rig.diffed(name, |_| has(10));
    }
    rig.diffed("p", |_| has(1000));
    rig.pass(rig.config.evidence_age / 2 + Duration::from_secs(1));
    rig
}

/// Answers all diffs of a consumer, including those of the drift scan.
fn look(rig: &mut Rig, name: &str) {
    while rig.is_diffing(name) {
        rig.diffed(name, |_| has(10));
    }
}

fn many() -> Vec<String> {
    (10..40).map(|no| format!("job/{no}")).collect()
}

#[test]
fn r16_consumers_that_ask_at_once_share_one_survey() {
    let names = many();
    let mut rig = aged(&names);
    for (ticket, name) in names.iter().enumerate() {
        asks(&mut rig, ticket as u64, name);
    }
    let observed = rig.kernel.branches()[&Branch::Observed];
    assert_eq!(observed, 29, "one diff for each consumer but the first");
    for name in &names[1..] {
        assert!(rig.usages.is_empty(), "before the diff of `{name}`");
        look(&mut rig, name);
    }
    assert_eq!(rig.usages.len(), 30, "one answer for each check");
    assert_eq!(rig.usages[&0].used, 290);
    assert_eq!(rig.usages[&0].unknown, []);
    let first = [id(&names[0])];
    assert_eq!(rig.usages[&1].unknown, first, "the survey left it out");
    asks(&mut rig, 100, &names[1]);
    look(&mut rig, &names[0]);
    assert_eq!(rig.usages[&100].unknown, []);
}

#[test]
fn r16_a_survey_ends_though_consumers_cannot_be_compared() {
    let names = many();
    let mut rig = aged(&names);
    asks(&mut rig, 1, "p");
    for name in &names[..28] {
        let run = rig.diff(name).unwrap().run;
        let answer = Err(plugin::Error::transient("the provider is down"));
        rig.step(Event::DiffDone { run, answer });
    }
    rig.diffed(&names[28], |_| has(10));
    assert!(rig.usages.is_empty());
    rig.pass(rig.config.check_deadline.max(Duration::from_secs(120)));
    let usage = &rig.usages[&1];
    assert_eq!(usage.unknown.len(), Usage::NAMED, "the list is limited");
}

#[test]
fn r16_what_is_pushed_or_not_enforced_holds_up_no_survey() {
    let names: Vec<String> = NAMES.map(str::to_owned).into();
    let mut rig = aged(&names);
    rig.publish(vec![consumer("a", 2)], &[]);
    assert!(rig.until_push("a", |verdict| verdict).is_some());
    let edges = vec![Edge {
        provider: AssetRef::to(id("p")),
        need: Need::Capacity { unit: "qps".into() },
    }];
    let idea = modelled::idea("idea", 1).edit().addon(&DependsOn { edges });
    rig.publish(vec![idea.unwrap().build().unwrap()], &[]);
    asks(&mut rig, 1, "b");
    rig.diffed("c", |_| has(10));
    assert_eq!(rig.usages[&1].unknown, [id("a"), id("idea")]);
}
