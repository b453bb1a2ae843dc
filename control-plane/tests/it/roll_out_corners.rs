//! R101 to R103: changes over takeovers, beside a person, and requested twice.

use std::time::Duration;

use control_plane::{
    model::{
        Filter,
        rollout::{RollOut, RolloutPolicy, Update},
    },
    prelude::*,
    strategist::{Command, State},
};
use serde::{Deserialize, Serialize};

use crate::{
    by_edits::{MANIFEST, NAMES, WEEK, World, change, dark_mode},
    rollouts::{passes, until},
    world::{LONG, Running, ann, id, write},
};

#[tokio::test(start_paused = true)]
async fn r22_takeover_during_the_way_back_rolls_nothing_out_again() {
    let world = World::new();
    let running = world.start().await;
    let bad = change("version-3", "halves").set("size", 3);
    let bad = running.handle.roll_out(&bad, ann()).await.unwrap();
    until(&running, "two are updated", || world.of_size(30) == 2).await;
    world.production.state().broken.extend(NAMES.map(id));
    let going_back = || world.text().matches("size: 3").count() == 0;
    until(&running, "the fields are restored", going_back).await;
    running.stop().await;
    world.production.state().broken.clear();
    let running = world.start().await;
    let over = running.handle.wait_roll_out(&bad.key, WEEK).await.unwrap();
    assert!(
        matches!(over.state, State::RolledBack { .. }),
        "{:?}",
        over.state
    );
    assert_eq!(over.id.0, 1, "the failed content was rolled out again");
    passes(Duration::from_secs(3600)).await;
    assert_eq!((world.text().as_str(), world.of_size(10)), (MANIFEST, 4));
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r103_person_who_mends_the_bad_target_does_not_complete_the_change() {
    let world = World::new();
    let running = world.start().await;
    let bad = change("version-3", "slowly").set("size", 3);
    let bad = running.handle.roll_out(&bad, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(30) == 1).await;
    let mended = world.text().replace("size: 3", "size: 2");
    write(world.dir.path(), &mended);
    let over = running.handle.wait_roll_out(&bad.key, WEEK).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert!(
        matches!(over.state, State::RolledBack { .. }),
        "{:?}",
        over.state
    );
    assert_eq!(world.text(), mended);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_target_with_two_fields_gets_both_or_none() {
    let world = World::new();
    let running = world.start().await;
    let both = change("both", "slowly").set("size", 2).set("flag", true);
    let both = running.handle.roll_out(&both, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(21) == 1).await;
    // A person decides about one of the two fields of a target that has not had its turn.
    let text = world
        .text()
        .replace("c: {size: 1, flag: false", "c: {size: 1, flag: null");
    write(world.dir.path(), &text.replace("flag: null", "flag: true"));
    write(
        world.dir.path(),
        &world.text().replace("d: {size: 1", "d: {size: 7"),
    );
    let over = running.handle.wait_roll_out(&both.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    let lines = world.text();
    assert!(lines.contains("d: {size: 7, flag: false"), "{lines}");
    assert!(lines.contains("c: {size: 2, flag: true"), "{lines}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_change_that_is_begun_twice_at_once_is_one() {
    let world = World::new();
    let running = world.start().await;
    let change = dark_mode();
    let (one, other) = tokio::join!(
        running.handle.roll_out(&change, ann()),
        running.handle.roll_out(&change, ann()),
    );
    let key = one.unwrap().key;
    match other {
        Ok(other) => assert_eq!(other.key, key),
        Err(error) => assert!(error.to_string().contains("about to begin"), "{error}"),
    }
    let over = running.handle.wait_roll_out(&key, WEEK).await.unwrap();
    assert_eq!(
        (over.state, world.production.pushes()),
        (State::Completed, 8)
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r17_word_pins_waits_for_the_end_of_a_change_also_after_a_takeover() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    write(
        world.dir.path(),
        &world.text().replace("{update: edits}", "{update: pins}"),
    );
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
    let running = world.start().await;
    let views = running.handle.rollouts().await.unwrap();
    let group = views
        .iter()
        .find(|view| view.policy == id("edits"))
        .unwrap();
    let waits = group.update_waits.as_deref();
    assert_eq!(
        waits,
        Some("waits for the end of the changes of its assets")
    );
    running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    passes(LONG).await;
    let views = running.handle.rollouts().await.unwrap();
    let group = views
        .iter()
        .find(|view| view.policy == id("edits"))
        .unwrap();
    assert!(group.update.is_pins() && group.update_waits.is_none());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_canary_that_a_person_takes_out_is_no_canary() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "slowly").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    write(
        world.dir.path(),
        &world.text().replace("size: 2", "size: 7"),
    );
    running
        .handle
        .tell_rollout(&rolling.key, Command::Pause, ann())
        .await
        .unwrap();
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
    let running = world.start().await;
    running
        .handle
        .tell_rollout(&rolling.key, Command::Resume, ann())
        .await
        .unwrap();
    until(&running, "another canary is updated", || {
        world.of_size(20) == 1
    })
    .await;
    passes(Duration::from_secs(50)).await;
    assert_eq!((world.of_size(20), world.of_size(70)), (1, 1), "it bakes");
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!((over.state, world.of_size(20)), (State::Completed, 3));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_next_owner_gives_up_the_fields_of_a_change_that_has_ended() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    passes(LONG).await;
    // As if the owner had died before it gave the field up.
    let path = "services.a.flag".parse().unwrap();
    let held = FieldEdit::set("manifest.yaml#0", path, true, false);
    let held = SourceEdit::new("manifest.yaml", ann())
        .field(held)
        .held_by("rollout/dark-mode#1");
    running.handle.edit(&held).await.unwrap();
    running.stop().await;
    let running = world.start().await;
    passes(LONG).await;
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r17_takeover_with_several_changes_lets_no_group_change_its_way() {
    let manifest = MANIFEST.replace(
        "d: {size: 1, flag: false, group: edits}",
        "d: {size: 1, flag: false, group: others}",
    );
    let world = World::with(&manifest);
    let running = world.start().await;
    let of = |name: &str, ids: &[&str]| {
        change(name, "slowly")
            .set("flag", true)
            .on(Filter::ids(ids.iter().map(|it| id(it))))
    };
    let first = running
        .handle
        .roll_out(&of("one", &["a", "b", "c"]), ann())
        .await
        .unwrap();
    let held = of("two", &["d"]);
    let second = running.handle.roll_out(&held, ann()).await.unwrap();
    running
        .handle
        .tell_rollout(&second.key, Command::Pause, ann())
        .await
        .unwrap();
    write(
        world.dir.path(),
        &world
            .text()
            .replace("others: {update: edits}", "others: {update: pins}"),
    );
    running.handle.settle(LONG).await.unwrap();
    running.stop().await;
    let running = world.start().await;
    let views = running.handle.rollouts().await.unwrap();
    let others = views
        .iter()
        .find(|view| view.policy == id("others"))
        .unwrap();
    assert!(!others.update.is_pins(), "a change of its asset is live");
    running
        .handle
        .tell_rollout(&second.key, Command::Resume, ann())
        .await
        .unwrap();
    for change in [first, second] {
        let over = running
            .handle
            .wait_roll_out(&change.key, WEEK)
            .await
            .unwrap();
        assert_eq!(over.state, State::Completed);
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_changes_edit_toml_and_json() {
    let toml = "[services]\na = {size = 1, flag = false, group = \"edits\"} # the first\nb = {size = 1, flag = false, group = \"edits\"}\n\n[policies]\nedits = {update = \"edits\"}\nslowly = {canary = {count = 1, bake_secs = 60}}\n";
    let json = "{\"services\": {\"a\": {\"size\": 1, \"flag\": false, \"group\": \"edits\"},\n  \"b\": {\"size\": 1, \"flag\": false, \"group\": \"edits\"}},\n \"policies\": {\"edits\": {\"update\": \"edits\"}, \"slowly\": {\"canary\": {\"count\": 1, \"bake_secs\": 60}}}}\n";
    for (name, text) in [("manifest.toml", toml), ("manifest.json", json)] {
        let world = World::new();
        let path = world.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let running = match name {
            "manifest.toml" => world.start_with(name, TomlFile::new(&path)),
            _ => world.start_with(name, JsonFile::new(&path)),
        };
        running.handle.wait_until_owner().await;
        running.handle.settle(LONG).await.unwrap();
        let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
        until(&running, "the canary is updated", || world.of_size(11) == 1).await;
        passes(Duration::from_secs(30)).await;
        assert_eq!(world.of_size(11), 1, "it bakes");
        let over = running
            .handle
            .wait_roll_out(&rolling.key, WEEK)
            .await
            .unwrap();
        assert_eq!(over.state, State::Completed);
        let text = text
            .replace("flag = false", "flag = true")
            .replace("\"flag\": false", "\"flag\": true");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        running.stop().await;
    }
}

/// A remark, which is only modelled.
#[derive(Debug, Serialize, Deserialize)]
struct Remark {
    text: String,
}

impl Message for Remark {
    const TYPE: &'static str = "world.v1.Remark";
}

/// Makes one remark of each row of a table, and the policies.
struct Remarks;

impl Generator for Remarks {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("remarks", "remarks")
            .makes::<Remark>()
            .makes::<RolloutPolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let name = AssetId::new(&document.name())?;
            let is_remark = document.root().at(&"text".parse().unwrap()).is_some();
            if !is_remark {
                let policy = document.read::<RolloutPolicy>()?;
                out.asset(
                    Asset::builder(name).payload(&policy)?,
                    document.provenance(),
                )?;
                continue;
            }
            let policy = addons::RolloutPolicyRef::to(id("edits"));
            let remark = Asset::builder(name).payload(&document.read::<Remark>()?)?;
            out.asset(remark.addon(&policy)?, document.provenance())?;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn r101_rows_of_a_table_that_are_only_modelled_are_updated_one_after_the_other() {
    let plane = ControlPlane::builder("world")
        .store(MemoryStore::new())
        .table("remarks")
        .generator(Remarks)
        .modelled_only::<Remark>()
        .build()
        .unwrap();
    let running = Running::start(plane);
    running.handle.wait_until_owner().await;
    let row = |name: &str, value| FieldEdit::add(name, FieldPath::default(), value);
    let policy = |it: RolloutPolicy| serde_json::to_value(it).unwrap();
    let slow = RolloutPolicy::default().canary(1, Duration::from_secs(60));
    let rows = [
        row(
            "edits",
            policy(RolloutPolicy::default().update(Update::Edits)),
        ),
        row("slowly", policy(slow)),
        row("one", serde_json::json!({ "text": "old" })),
        row("two", serde_json::json!({ "text": "old" })),
    ];
    let rows = SourceEdit::new("remarks", ann()).fields(rows);
    running.handle.edit(&rows).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    let news = async || {
        let reading = running.handle.read_source("remarks").await.unwrap();
        let texts = reading
            .documents
            .iter()
            .filter_map(|it| it.read_at::<String>("text").ok());
        texts.filter(|text| text == "new").count()
    };
    let change = RollOut::new("remarks", id("slowly"))
        .set("text", "new")
        .on(Filter::types([Remark::TYPE]));
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    passes(Duration::from_secs(30)).await;
    assert_eq!(news().await, 1, "the canary bakes");
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!((over.state, news().await), (State::Completed, 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r103_next_change_of_a_name_begins_after_the_records_of_the_last_one_are_gone() {
    let world = World::new();
    let running = world.start().await;
    let handle = &running.handle;
    let rolling = handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    world.store.hold_deletions_of("roll-out-target");
    let back = Command::RollBack;
    handle
        .tell_rollout(&rolling.key, back, ann())
        .await
        .unwrap();
    loop {
        let newest = handle.past_rollouts(&rolling.key).await.unwrap().pop();
        if newest.unwrap().state.has_ended() {
            break;
        }
        passes(Duration::from_secs(1)).await;
    }
    passes(Duration::from_secs(60)).await;
    let again = handle.roll_out(&dark_mode(), ann()).await;
    let again = again.unwrap_err().to_string();
    assert!(again.contains("rollout/dark-mode#1"), "{again}");
    world.store.let_go();
    passes(Duration::from_secs(60)).await;
    let rolling = handle.roll_out(&dark_mode(), ann()).await.unwrap();
    let over = handle.wait_roll_out(&rolling.key, WEEK).await.unwrap();
    assert_eq!((over.state, world.of_size(11)), (State::Completed, 4));
    running.stop().await;
}
