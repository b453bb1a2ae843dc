//! R18: assets that come and go while a change is live.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use control_plane::{
    prelude::*,
    sdk::{EditError, EditableSource, Proposal, SourceChange},
    strategist::{Command, State},
};
use futures::stream::BoxStream;
use prodspec_model::{Revision, SourceName};

use crate::{
    by_edits::{MANIFEST, WEEK, World, change, dark_mode},
    rollouts::{passes, until},
    world::{LONG, Running, ann, id, write},
};

const NEW: &str = "  e: {size: 1, flag: false, group: edits}\npolicies:";

/// The manifest with one more service.
fn with_new(text: &str) -> String {
    text.replace("policies:", NEW)
}

async fn over(running: &Running, key: &control_plane::model::AssetId) -> State {
    let over = running.handle.wait_roll_out(key, WEEK).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    over.state
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_comes_takes_its_turn_in_a_live_change() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    write(world.dir.path(), &with_new(&world.text()));
    running.handle.settle(LONG).await.unwrap();
    let size = || world.production.size("e");
    assert_eq!(size(), Some(10), "it is turned up at once");
    passes(Duration::from_secs(1)).await;
    assert_eq!(running.handle.held_fields().await.unwrap().len(), 5);
    let views = running.handle.rollouts().await.unwrap();
    let view = views.iter().find(|view| view.policy == rolling.key);
    let view = view.unwrap();
    assert_eq!(view.targets.len(), 5);
    assert!(view.targets[4].late, "{:?}", view.targets[4]);
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let expected = with_new(MANIFEST).replace("flag: false", "flag: true");
    assert_eq!(world.text(), expected);
    assert_eq!((world.of_size(11), size()), (4, Some(11)));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_comes_is_no_canary_and_holds_no_gate() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "halves").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the first wave is over", || {
        world.of_size(20) == 2
    })
    .await;
    // It cannot be pushed, so it would hold a gate for ever.
    world.production.state().broken.insert(id("e"));
    write(world.dir.path(), &with_new(&world.text()));
    passes(Duration::from_secs(60)).await;
    assert_eq!(world.of_size(20), 2, "the first wave bakes");
    until(&running, "the rest is updated", || world.of_size(20) == 4).await;
    world.production.state().broken.clear();
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    assert_eq!(world.production.size("e"), Some(20), "the end waits for it");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_next_owner_adds_assets_that_came_without_an_owner() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    running.stop().await;
    write(world.dir.path(), &with_new(&world.text()));
    let running = world.start().await;
    passes(Duration::from_secs(5)).await;
    running.stop().await;
    // This one finds it among the stored targets.
    let running = world.start().await;
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let expected = with_new(MANIFEST).replace("flag: false", "flag: true");
    assert_eq!(world.text(), expected);
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_came_goes_back_with_the_others() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "careful").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    write(world.dir.path(), &with_new(&world.text()));
    until(&running, "all are updated", || {
        world.of_size(20) == 4 && world.production.size("e") == Some(20)
    })
    .await;
    let back = Command::RollBack;
    let told = running.handle.tell_rollout(&rolling.key, back, ann()).await;
    told.unwrap();
    let end = over(&running, &rolling.key).await;
    assert!(matches!(end, State::RolledBack { .. }), "{end:?}");
    assert_eq!(world.text(), with_new(MANIFEST));
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_comes_with_a_value_of_its_own_is_left_to_the_person() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "slowly").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    let own = NEW.replace("size: 1", "size: 7");
    let has_it = NEW.replace("size: 1", "size: 2").replace("  e:", "  f:");
    let text = world.text().replace("policies:", &own);
    write(world.dir.path(), &text.replace("policies:", &has_it));
    running.handle.settle(LONG).await.unwrap();
    passes(Duration::from_secs(1)).await;
    let held = running.handle.held_fields().await.unwrap();
    assert_eq!(held.len(), 4, "{held:?}");
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let size = |name| world.production.size(name);
    assert_eq!((size("e"), size("f")), (Some(70), Some(20)));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_goes_and_comes_again_takes_its_turn() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "halves").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the first wave is over", || {
        world.of_size(20) == 2
    })
    .await;
    let line = "  d: {size: 1, flag: false, group: edits}\n";
    write(world.dir.path(), &world.text().replace(line, ""));
    passes(Duration::from_secs(20)).await;
    let again = line.to_owned() + "policies:";
    write(world.dir.path(), &world.text().replace("policies:", &again));
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    assert_eq!(world.text(), MANIFEST.replace("size: 1", "size: 2"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_comes_after_the_last_gate_does_not_delay_the_end() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "halves").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the first wave is over", || {
        world.of_size(20) == 2
    })
    .await;
    world.production.state().broken.insert(id("e"));
    write(world.dir.path(), &with_new(&world.text()));
    until(&running, "the rest is updated", || world.of_size(20) == 4).await;
    passes(LONG).await;
    let later = NEW.replace("  e:", "  f:");
    write(world.dir.path(), &world.text().replace("policies:", &later));
    running.handle.settle(LONG).await.unwrap_err();
    // The next owner knows that it was too late.
    running.stop().await;
    let running = world.start_with("manifest.yaml", YamlFile::new(world.path()));
    running.handle.wait_until_owner().await;
    passes(LONG).await;
    world.production.state().broken.clear();
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let size = |name| world.production.size(name);
    assert_eq!((size("e"), size("f")), (Some(20), Some(10)));
    let past = running.handle.past_rollouts(&rolling.key).await.unwrap();
    let history = format!("{:?}", past[0].history);
    assert!(history.contains("leaves out `f`: too late"), "{history}");
    running.stop().await;
}

/// A source that takes no proposal while it is stuck.
struct Stuck {
    file: YamlFile,
    is_stuck: Arc<AtomicBool>,
}

#[async_trait]
impl SourceOfTruth for Stuck {
    fn name(&self) -> SourceName {
        self.file.name()
    }

    async fn read(&self) -> Result<Reading, Problems> {
        self.file.read().await
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        self.file.changes()
    }
}

#[async_trait]
impl EditableSource for Stuck {
    async fn propose(&self, change: &SourceChange) -> Result<Proposal, EditError> {
        match self.is_stuck.load(Ordering::Relaxed) {
            true => Err(EditError::Failed(Problem::new("it is stuck").into())),
            false => self.file.propose(change).await,
        }
    }

    async fn commit(
        &self,
        change: &SourceChange,
        proposal: &Proposal,
    ) -> Result<Revision, EditError> {
        self.file.commit(change, proposal).await
    }
}

#[tokio::test(start_paused = true)]
async fn r18_end_waits_for_an_asset_that_came_and_could_not_join_yet() {
    let world = World::new();
    let is_stuck = Arc::new(AtomicBool::new(false));
    let source = Stuck {
        file: YamlFile::new(world.path()),
        is_stuck: is_stuck.clone(),
    };
    let running = world.start_with("manifest.yaml", source);
    running.handle.wait_until_owner().await;
    running.handle.settle(LONG).await.unwrap();
    let change = change("version-2", "careful").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "all are updated", || world.of_size(20) == 4).await;
    // The last bake takes 30 s.
    is_stuck.store(true, Ordering::Relaxed);
    write(world.dir.path(), &with_new(&world.text()));
    running.handle.settle(LONG).await.unwrap();
    passes(LONG).await;
    let views = running.handle.rollouts().await.unwrap();
    let view = views.iter().find(|view| view.policy == rolling.key);
    let waits = format!("{:?}", view.unwrap().waits);
    assert!(waits.contains("`e` came"), "{waits}");
    is_stuck.store(false, Ordering::Relaxed);
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    assert_eq!(world.production.size("e"), Some(20));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_target_that_a_person_took_out_stays_out_under_the_next_owner() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "halves").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the first wave is over", || {
        world.of_size(20) == 2
    })
    .await;
    for (is, to) in [
        ("a: {size: 2", "a: {size: 7"),
        ("a: {size: 7", "a: {size: 1"),
    ] {
        write(world.dir.path(), &world.text().replace(is, to));
        running.handle.settle(LONG).await.unwrap();
    }
    running.stop().await;
    let running = world.start().await;
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let expected = MANIFEST.replace("size: 1", "size: 2");
    assert_eq!(world.text(), expected.replace("a: {size: 2", "a: {size: 1"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_edit_of_an_asset_that_came_is_not_taken_for_another_after_a_takeover() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "slowly").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    // It comes before all others in the order of targets.
    let first = "services:\n  0: {size: 1, flag: false, group: edits}";
    write(world.dir.path(), &world.text().replace("services:", first));
    passes(Duration::from_secs(5)).await;
    running.stop().await;
    let running = world.start().await;
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let expected = MANIFEST.replace("services:", first);
    assert_eq!(world.text(), expected.replace("size: 1", "size: 2"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_target_that_was_set_and_comes_again_is_set_again() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "careful").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "all are updated", || world.of_size(20) == 4).await;
    // The last bake takes 30 s.
    let line = "  a: {size: 2, flag: false, group: edits} # the first\n";
    let without = world.text().replace(line, "");
    write(world.dir.path(), &without);
    running.handle.settle(LONG).await.unwrap();
    let again = line.replace("size: 2", "size: 1") + "policies:";
    write(world.dir.path(), &without.replace("policies:", &again));
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let expected = again.replace("size: 1", "size: 2");
    assert_eq!(world.text(), without.replace("policies:", &expected));
    assert_eq!(world.of_size(20), 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_asset_that_comes_from_the_entry_of_a_target_is_updated_with_it() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    let twin = world.text().replace("  d: {", "  d: {twin: true, ");
    write(world.dir.path(), &twin);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    let size = |name| world.production.size(name);
    assert_eq!((size("d"), size("d-twin")), (Some(11), Some(11)));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_asset_that_comes_with_its_group_joins_once_that_is_updated_by_edits() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    let group = "  e: {size: 1, flag: false, group: later}\npolicies:\n  later: {update: edits}";
    write(world.dir.path(), &world.text().replace("policies:", group));
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(over(&running, &rolling.key).await, State::Completed);
    assert_eq!(world.production.size("e"), Some(11));
    running.stop().await;
}
