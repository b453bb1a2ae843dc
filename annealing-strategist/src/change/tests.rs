//! R101, R103: the calls that moved pins become, and the standings that their answers become.

use std::{collections::BTreeSet, time::Duration};

use control_plane_store::conformance;
use jiff::Timestamp;
use plugin_sdk::{
    By, Cause, ChangeId, FieldEdit, Mono, Now, Pin, RolloutId, Standing, SyncState, plugin,
    port::{HeldEdit, Made, Settlement},
    testing::seal,
};
use prodspec_model::{
    Asset, AssetId, Digest, Incarnation, IncarnationNo, SourceName,
    rollout::{RollOut, RolloutPolicy},
};

use super::*;

const P: &str = "policy/p";

fn id(name: &str) -> AssetId {
    AssetId::new(name).unwrap()
}

/// An asset whose content is its size.
fn thing(name: &str, size: u64) -> Asset {
    let content = RolloutPolicy::default().bake(Duration::from_secs(size));
    Asset::builder(id(name))
        .payload(&content)
        .unwrap()
        .build()
        .unwrap()
}

const FROM: IncarnationNo = IncarnationNo(1);
const TO: IncarnationNo = IncarnationNo(2);

/// The fields of a change of `a`, `b` and `c`; the last two have one field.
struct Rig {
    fields: Fields,
    intent: Intent,
    now: Now,
    out: Out,
}

fn planned() -> (Planned, Incarnation) {
    let assets = |size: u64| ["a", "b", "c"].map(|name| thing(name, size));
    let policy = thing(P, 0);
    let latest = seal(None, [assets(1).into(), vec![policy]].concat(), &[]);
    let target = |(before, after): (Asset, Asset)| {
        let path = if before.id_str() == "a" { "a" } else { "b" };
        let edits = vec![FieldEdit::set("m.yaml#0", path.parse().unwrap(), 1, 2)];
        PlannedTarget {
            before,
            after,
            edits,
            reserved: ChangeId::new("reserved").unwrap(),
        }
    };
    let targets = assets(1).into_iter().zip(assets(2)).map(target);
    let change = RollOut::new("x", id(P)).set("size", 2);
    let (by, source) = (By::new("me", "a test"), SourceName("m.yaml".into()));
    let at = (FROM, Timestamp::UNIX_EPOCH);
    let planned = Planned::new(
        (change, by),
        (1, RolloutId(1)),
        at,
        source,
        &targets.collect::<Vec<_>>(),
        BTreeSet::new(),
    );
    (planned.unwrap(), latest)
}

fn made(left_alone: &[&str]) -> Result<Made, plugin::Error> {
    Ok(Made {
        left_alone: left_alone.iter().map(|text| (*text).to_owned()).collect(),
        ..Made::default()
    })
}

impl Rig {
    fn new() -> Self {
        let (planned, latest) = planned();
        let stored = planned.into_stored();
        let intent = Intent::of(&stored, &latest).unwrap();
        let now = Now {
            mono: Mono(0),
            wall: Timestamp::UNIX_EPOCH,
        };
        Self {
            fields: Fields::of(&stored, &intent, now.mono, 0),
            intent,
            now,
            out: Out::default(),
        }
    }

    fn moves(&mut self, names: &[&str], pin: Pin) -> &mut Self {
        let moves: Vec<(AssetId, Pin)> = names.iter().map(|name| (id(name), pin)).collect();
        self.fields
            .moved(self.now, &self.intent, &moves, &mut self.out);
        self
    }

    fn forward(&mut self, names: &[&str]) -> &mut Self {
        self.moves(names, Pin::At(TO, Cause::Intent))
    }

    fn back(&mut self, names: &[&str]) -> &mut Self {
        self.moves(names, Pin::At(FROM, Cause::Rollback))
    }

    /// The next call, with its edits or the assets that it waits for.
    fn call(&mut self) -> (u64, String) {
        let named = |edit: &HeldEdit| {
            let edits: Vec<String> = edit.edits.iter().map(|it| it.edit.to_string()).collect();
            edits.join(", ").replace("m.yaml#0: ", "")
        };
        match self.out.calls.remove(0) {
            Call::Edit(call, edit) => (call, named(&edit)),
            Call::Look(call, edit) => (call, format!("look {}", named(&edit))),
            Call::Settle(call, request) => {
                let assets: Vec<&str> = request.assets.iter().map(AssetId::as_str).collect();
                (call, format!("settle {}", assets.join(" ")))
            }
        }
    }

    fn edited(&mut self, call: u64, answer: Result<Made, plugin::Error>) {
        let id = ChangeId::new("edit").unwrap();
        self.fields
            .edited(self.now, &self.intent, (call, id), answer, &mut self.out);
    }

    /// Answers the next call, a look, with the fields that do not have their values.
    fn looks(&mut self, missing: &[&str]) -> String {
        self.fields.go_on(self.now, &self.intent, &mut self.out);
        let (look, text) = self.call();
        let edit = ChangeId::new("edit").unwrap();
        let missing = missing.iter().map(|text| (*text).to_owned()).collect();
        let answer = (look, edit);
        self.fields
            .looked(self.now, &self.intent, answer, Ok(missing), &mut self.out);
        text
    }

    fn settled(&mut self, call: u64, end: Settlement) {
        self.fields
            .settled(self.now, &self.intent, call, Ok(end), &mut self.out);
    }

    fn stands(&mut self, name: &str, content: u8, state: SyncState) {
        let standing = Standing::at(Pin::Default, Some(Digest([content; 32])), state);
        self.fields
            .stands(self.now, &self.intent, &id(name), &standing, &mut self.out);
    }

    fn in_sync(&mut self, name: &str, content: u8) {
        let since = self.now.wall;
        self.stands(name, content, SyncState::InSync { since });
    }

    fn out_of_sync(&mut self, name: &str, content: u8) {
        self.stands(name, content, SyncState::out_of_sync(self.now.wall));
    }

    /// The last standing of each asset that was reported since the last call.
    fn reported(&mut self) -> Vec<String> {
        let reported = self.out.standings.drain(..).map(|(asset, standing)| {
            let state = match standing.state {
                SyncState::InSync { .. } => "in sync".to_owned(),
                SyncState::OutOfSync {
                    why, awaits_person, ..
                } => {
                    format!(
                        "{}{}",
                        why.unwrap_or("out of sync".into()),
                        if awaits_person { "!" } else { "" }
                    )
                }
                SyncState::Unhealthy { why } => why,
                other => panic!("{other:?}"),
            };
            format!("{asset} {state}")
        });
        reported.collect()
    }

    /// Sets the field of `a`, and production has it.
    fn settled_a() -> Self {
        let mut rig = Self::new();
        rig.in_sync("a", 1);
        rig.forward(&["a"]);
        let (edit, _) = rig.call();
        rig.edited(edit, made(&[]));
        let (wait, _) = rig.call();
        rig.settled(wait, Settlement::Done);
        rig.reported();
        rig.in_sync("a", 2);
        // The last report may be from before the edit, or a person has taken it back.
        assert_eq!(rig.looks(&[]), "look a: 1 -> 2");
        assert!(rig.reported().is_empty());
        assert_eq!(rig.looks(&[]), "look a: 1 -> 2", "the content is new");
        assert_eq!(rig.reported(), ["a in sync"]);
        rig
    }
}

#[test]
fn r101_moved_pins_are_one_edit_and_settle_by_the_fields_in_common() {
    let mut rig = Rig::new();
    assert_eq!(rig.fields.ties(), [[id("b"), id("c")]]);
    let (edit, text) = rig.forward(&["a", "b", "c"]).call();
    assert_eq!(text, "a: 1 -> 2, b: 1 -> 2");
    rig.edited(edit, made(&[]));
    let (first, one) = rig.call();
    let (second, other) = rig.call();
    assert_eq!((one.as_str(), other.as_str()), ("settle a", "settle b c"));
    rig.reported();
    rig.settled(first, Settlement::Done);
    assert_eq!(rig.reported(), ["a in sync"]);
    rig.settled(second, Settlement::Done);
    assert_eq!(rig.reported(), ["b in sync", "c in sync"]);
}

#[test]
fn r103_way_back_waits_for_the_answer_of_the_edit_that_is_being_made() {
    let mut rig = Rig::new();
    let (edit, _) = rig.forward(&["a"]).call();
    rig.back(&["a"]);
    assert!(rig.out.calls.is_empty(), "the field may still be set");
    rig.edited(edit, made(&[]));
    let (edit, text) = rig.call();
    assert_eq!(text, "a: 2 -> 1");
    rig.edited(edit, made(&[]));
    let (wait, _) = rig.call();
    rig.reported();
    rig.settled(wait, Settlement::Done);
    assert_eq!(rig.reported(), ["a in sync"]);
}

#[test]
fn r101_refused_edit_is_tried_alone_and_waits_for_a_person() {
    let mut rig = Rig::new();
    let (edit, _) = rig.forward(&["a", "b", "c"]).call();
    rig.edited(edit, Err(plugin::Error::permanent("no")));
    let (edit, text) = rig.call();
    assert_eq!(text, "a: 1 -> 2");
    rig.reported();
    rig.edited(edit, Err(plugin::Error::permanent("no")));
    let reported = rig.reported().remove(0);
    assert!(
        reported.starts_with("a no") && reported.ends_with('!'),
        "{reported}"
    );
    let (edit, text) = rig.call();
    assert_eq!(text, "b: 1 -> 2");
    rig.edited(edit, made(&[]));
    assert_eq!(rig.call().1, "settle b c");
    assert!(rig.out.calls.is_empty());
    rig.now.mono = rig.fields.next_wake().unwrap();
    rig.fields.go_on(rig.now, &rig.intent, &mut rig.out);
    assert_eq!(rig.call().1, "a: 1 -> 2");
}

#[test]
fn r101_failed_source_is_asked_again_without_a_person() {
    let mut rig = Rig::new();
    let (edit, _) = rig.forward(&["a"]).call();
    rig.edited(
        edit,
        Err(plugin::Error::throttled("busy", Duration::from_secs(5))),
    );
    let reported = rig.reported().pop().unwrap();
    assert!(
        reported.contains("busy") && !reported.ends_with('!'),
        "{reported}"
    );
    assert_eq!(
        rig.fields.next_wake(),
        Some(Mono(0) + Duration::from_secs(5))
    );
}

#[test]
fn r101_field_that_something_else_has_set_leaves_the_change() {
    let mut rig = Rig::new();
    let (edit, _) = rig.forward(&["a", "b", "c"]).call();
    rig.edited(edit, made(&["m.yaml#0: b: 1 -> 2"]));
    assert_eq!(rig.out.left, [id("b"), id("c")]);
    let (wait, _) = rig.call();
    rig.settled(
        wait,
        Settlement::Overwritten("of one field of the edit".into()),
    );
    assert_eq!(rig.looks(&[]), "look a: 1 -> 2");
    assert_eq!(rig.call().1, "settle a", "it was another field");
    assert!(rig.back(&["b", "c"]).out.calls.is_empty(), "never restored");
}

#[test]
fn r20_newer_intent_is_no_drift() {
    let mut rig = Rig::settled_a();
    rig.out_of_sync("a", 3);
    rig.looks(&[]);
    assert!(rig.reported().is_empty());
    rig.out_of_sync("a", 3);
    assert!(rig.reported().is_empty() && rig.out.calls.is_empty());
    rig.in_sync("a", 3);
    assert_eq!(rig.reported(), ["a in sync"]);
    rig.out_of_sync("a", 3);
    assert_eq!(
        rig.reported(),
        ["a out of sync"],
        "it was in sync with this"
    );
}

#[test]
fn r101_settled_field_that_a_person_sets_leaves_the_change_at_once() {
    let mut rig = Rig::settled_a();
    rig.in_sync("a", 4);
    assert!(rig.reported().is_empty(), "not before the look");
    rig.looks(&["m.yaml#0: a: 1 -> 2"]);
    assert_eq!(rig.out.left, [id("a")]);
}

#[test]
fn r101_content_that_changes_during_a_look_is_looked_up_again() {
    let mut rig = Rig::settled_a();
    rig.in_sync("a", 3);
    rig.fields.go_on(rig.now, &rig.intent, &mut rig.out);
    rig.in_sync("a", 4);
    assert_eq!(rig.out.calls.len(), 1);
    rig.looks(&[]);
    assert!(rig.reported().is_empty());
    rig.looks(&[]);
    assert_eq!(rig.reported(), ["a in sync"]);
}

#[test]
fn r22_push_that_was_unhealthy_before_condemns_nothing() {
    let unhealthy = || SyncState::Unhealthy { why: "ill".into() };
    let mut rig = Rig::new();
    rig.stands("a", 1, unhealthy());
    let (edit, _) = rig.forward(&["a"]).call();
    rig.edited(edit, made(&[]));
    rig.reported();
    rig.stands("a", 1, unhealthy());
    assert!(rig.reported().is_empty());
    rig.stands("a", 2, unhealthy());
    assert_eq!(rig.reported(), ["a ill"]);
}

#[test]
fn r101_next_owner_asks_again_for_edits_that_were_on_their_way() {
    let (planned, latest) = planned();
    let mut stored = planned.into_stored();
    let row = |updated_at, back_at| crate::record::TargetRecord {
        policy: stored.rollout.policy.clone(),
        rollout: RolloutId(1),
        to: None,
        moved_at: Duration::ZERO,
        updated_at,
        order: 0,
        was: Pin::Default,
        back_at,
    };
    let done = row(Some(Duration::ZERO), None);
    let rows = vec![
        (id("a"), done),
        (id("b"), row(None, None)),
        (id("c"), row(None, None)),
    ];
    stored.rows = rows;
    let intent = Intent::of(&stored, &latest).unwrap();
    let mut rig = Rig::new();
    (rig.fields, rig.intent) = (Fields::of(&stored, &intent, rig.now.mono, 0), intent);
    assert_eq!(
        rig.looks(&[]),
        "look a: 1 -> 2",
        "a person may have set it since"
    );
    assert_eq!(rig.call().1, "b: 1 -> 2", "the field of `a` was set");
}

#[test]
fn r103_next_owner_uses_no_id_of_an_edit_again() {
    let mut rig = Rig::new();
    let mut ids = std::collections::BTreeSet::new();
    let (planned, latest) = planned();
    for rollout in [1, 2] {
        for back in [false, true] {
            rig.out.calls.clear();
            match back {
                false => rig.forward(&["a"]),
                true => rig.back(&["a"]),
            };
            let Call::Edit(call, edit) = rig.out.calls.remove(0) else {
                panic!("no edit");
            };
            rig.edited(call, made(&[]));
            let mut stored = planned.clone().into_stored();
            let row = crate::record::TargetRecord {
                policy: stored.rollout.policy.clone(),
                rollout: RolloutId(rollout),
                to: None,
                moved_at: Duration::ZERO,
                updated_at: None,
                order: 0,
                was: Pin::Default,
                back_at: back.then_some(Duration::ZERO),
            };
            stored.rows = vec![(id("a"), row)];
            let intent = Intent::of(&stored, &latest).unwrap();
            let mut next = Rig::new();
            next.fields = Fields::of(&stored, &intent, next.now.mono, 0);
            next.fields.go_on(next.now, &next.intent, &mut next.out);
            let Call::Edit(_, again) = next.out.calls.remove(0) else {
                panic!("no edit");
            };
            assert_eq!(again.id, edit.id, "the same edit again");
            assert!(ids.insert(edit.id), "an id of an earlier edit");
        }
    }
}

#[test]
fn r101_unit_without_a_target_is_not_due() {
    let mut rig = Rig::new();
    let (edit, _) = rig.forward(&["a"]).call();
    rig.edited(edit, Err(plugin::Error::transient("busy")));
    assert!(rig.fields.next_wake().is_some());
    rig.fields.gone(&[id("a")], &mut rig.out);
    assert_eq!(rig.fields.next_wake(), None);
    assert_eq!(rig.out.left, [id("a")]);
}

#[test]
fn r5_old_and_new_versions_take_turns_on_records_of_changes() {
    let stored = planned().0.into_stored();
    // A reference has one field only.
    conformance::record(&stored.record, &["/change/set", "/change/policy"]);
    conformance::record(&stored.targets[0].1, &[]);
}
