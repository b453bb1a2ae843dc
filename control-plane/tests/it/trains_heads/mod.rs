//! R104: trains of heads through the whole control plane: each incarnation is rolled out to group after group, by pins.

mod groups;
mod random;

use std::{sync::Arc, time::Duration};

use control_plane::{
    TrainView, prelude::*, runtime::TokioRuntime, store::incarnations::Incarnations,
    strategist::train::Command,
};
use serde_json::{Value, json};

use crate::{
    by_edits::World,
    rollouts::{passes, until},
    trains::{settles, view},
    world::{LONG, Running, ann, id, write},
};

/// Three stages: `a`, then `b`, then `c` and `d`. A service of size 3 is sick.
const MANIFEST: &str = "services:
  a: {size: 1, group: canary}
  b: {size: 1, group: eu}
  c: {size: 1, group: us}
  d: {size: 1, group: us}
policies:
  canary: {bake_secs: 100}
  eu: {bake_secs: 200}
  us: {bake_secs: 200, max_in_flight: 1}
trains:
  train:
    carries: head
    stages:
      - {name: canary, policy: {$asset: canary}}
      - {name: eu, policy: {$asset: eu}}
      - {name: us, policy: {$asset: us}}
";

/// The manifest with all services of this size.
fn of_size(size: u64) -> String {
    MANIFEST.replace("size: 1", &format!("size: {size}"))
}

struct Train {
    world: World,
    running: Running,
}

impl Train {
    /// A train whose services have size 1, which is ripe everywhere.
    async fn new() -> Self {
        let world = World::with(MANIFEST);
        let running = world.start().await;
        let train = Self { world, running };
        train.settles("the first incarnation is ripe").await;
        train
    }

    /// The same, with a store that keeps two incarnations beside those that are needed.
    async fn forgetful() -> Self {
        let world = World::with(MANIFEST);
        let source = YamlFile::new(world.path());
        let plane = world.builder(TokioRuntime::current(), "manifest.yaml", source);
        let running = Running::start(plane.retain(2).build().unwrap());
        running.handle.settle(LONG).await.unwrap();
        Self { world, running }
    }

    /// Writes the manifest, and waits until it is sealed.
    async fn edit(&self, text: &str) {
        write(self.world.dir.path(), text);
        self.seal().await;
    }

    async fn seal(&self) {
        let generation = self.running.handle.generation().await.unwrap();
        let sealed = generation.next_run().await;
        assert!(!sealed.problems.any_error(), "{}", sealed.problems);
    }

    /// Ends the process, and starts the next one.
    async fn restart(self) -> Self {
        let Self { world, running } = self;
        running.stop().await;
        let source = YamlFile::new(world.path());
        let running = world.start_with("manifest.yaml", source);
        running.handle.wait_until_owner().await;
        let train = Self { world, running };
        train.seal().await;
        train
    }

    async fn view(&self) -> TrainView {
        view(&self.running).await
    }

    async fn has(&self) -> Vec<Value> {
        let stages = self.view().await.stages.into_iter();
        stages.map(|it| it.has.unwrap_or_default()).collect()
    }

    /// Waits until no stage runs a version, and none can enter one.
    async fn settles(&self, event: &str) {
        settles(&self.running, event).await;
    }

    /// The sizes of all services.
    fn sizes(&self) -> [u64; 4] {
        ["a", "b", "c", "d"].map(|name| self.world.production.size(name).unwrap_or_default())
    }

    async fn until(&self, sizes: [u64; 4]) {
        let event = format!("{sizes:?}, not {:?}", self.sizes());
        until(&self.running, &event, || self.sizes() == sizes).await;
    }

    async fn tell(&self, command: Command) -> Result<(), String> {
        let trains = self.running.handle.trains();
        let told = trains.command(&id("train"), command, ann()).await;
        told.map_err(|error| error.to_string())
    }
}

#[tokio::test(start_paused = true)]
async fn r104_incarnation_goes_through_the_groups() {
    let train = Train::new().await;
    assert_eq!(train.sizes(), [10; 4], "the first turnup is at once");
    train.edit(&of_size(2)).await;
    train.until([20, 10, 10, 10]).await;
    passes(Duration::from_secs(90)).await;
    assert_eq!(train.sizes(), [20, 10, 10, 10], "it bakes");
    train.until([20, 20, 10, 10]).await;
    passes(Duration::from_secs(190)).await;
    assert_eq!(train.sizes(), [20, 20, 10, 10], "it bakes");
    train.settles("the second incarnation is ripe").await;
    assert_eq!(train.sizes(), [20; 4]);
    assert_eq!(train.has().await, vec![json!("world@2"); 3]);
    let stage = train.view().await.stages.remove(2);
    assert_eq!((stage.key, stage.runs), (id("us"), false));
    train.running.handle.settle(LONG).await.unwrap();
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_several_incarnations_are_under_way_and_none_starves() {
    let train = Train::new().await;
    train.edit(&of_size(2)).await;
    train.until([20, 20, 10, 10]).await;
    train.edit(&of_size(4)).await;
    train.until([40, 20, 10, 10]).await;
    train.edit(&of_size(5)).await;
    passes(Duration::from_secs(90)).await;
    assert_eq!(train.sizes(), [40, 20, 10, 10], "the third one waits");
    train.until([50, 20, 10, 10]).await;
    // Each stage takes the newest version that is ripe before it.
    train.until([50, 40, 20, 20]).await;
    let versions = ["world@4", "world@3", "world@2"].map(Value::from);
    assert_eq!(train.has().await, versions);
    train.until([50, 50, 40, 40]).await;
    train.settles("the last incarnation is ripe").await;
    assert_eq!(train.sizes(), [50; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_incarnation_that_fails_goes_back_and_enters_no_later_group() {
    let train = Train::new().await;
    train.edit(&of_size(3)).await;
    train.until([30, 10, 10, 10]).await;
    train.settles("the bad incarnation is back").await;
    assert_eq!(train.sizes(), [10; 4]);
    // Another service changes: the content that failed is still in this incarnation.
    train
        .edit(&of_size(3).replace("d: {size: 3", "d: {size: 4"))
        .await;
    train.settles("content that failed is left out").await;
    assert_eq!(train.sizes(), [10; 4]);
    let record = train.view().await.record;
    let failed = record.versions.iter().filter(|it| {
        let canary = it.stages.get("canary");
        canary.is_some_and(|it| it.failed.is_some())
    });
    assert_eq!(failed.count(), 2);
    train.edit(&of_size(4)).await;
    train.settles("the mend is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_next_owner_lets_no_incarnation_in_early() {
    let train = Train::new().await;
    train.edit(&of_size(2)).await;
    train.until([20, 20, 10, 10]).await;
    let mut train = train.restart().await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(train.sizes(), [20, 20, 10, 10]);
    train.edit(&of_size(4)).await;
    train.until([40, 20, 10, 10]).await;
    train = train.restart().await;
    train.until([40, 40, 20, 20]).await;
    train = train.restart().await;
    train.settles("the last incarnation is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_incarnations_that_stages_may_still_take_are_kept() {
    let train = Train::forgetful().await;
    train.settles("the first incarnation is ripe").await;
    train.tell(Command::HoldStage("eu".into())).await.unwrap();
    train.edit(&of_size(2)).await;
    train.until([20, 10, 10, 10]).await;
    passes(Duration::from_secs(110)).await;
    // All these are bad in the second stage only.
    for size in 4..14 {
        let bad = of_size(size).replace(&format!("b: {{size: {size}"), "b: {size: 3");
        train.edit(&bad).await;
        train.until([size * 10, 10, 10, 10]).await;
        passes(Duration::from_secs(110)).await;
    }
    let (store, partition) = (train.world.store.clone(), "world".parse().unwrap());
    let incarnations = Incarnations::new(Arc::new(store), partition);
    let kept = incarnations.numbers().await.unwrap();
    assert_eq!(kept, (1..=12).map(IncarnationNo).collect::<Vec<_>>());
    train
        .tell(Command::ReleaseStage("eu".into()))
        .await
        .unwrap();
    train.until([130, 30, 10, 10]).await;
    train
        .settles("the version that was overtaken is ripe")
        .await;
    assert_eq!(train.sizes(), [130, 20, 20, 20]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_hotfix_takes_over_in_its_group() {
    let train = Train::new().await;
    train.edit(&of_size(2)).await;
    train.until([20, 20, 10, 10]).await;
    train.edit(&of_size(4)).await;
    train.until([40, 20, 10, 10]).await;
    let hotfix = |version: &str| Command::Hotfix {
        stage: "eu".into(),
        version: json!(version),
    };
    let refused = train.tell(hotfix("world@2")).await.unwrap_err();
    assert!(
        refused.contains("only the newest version can be a hotfix: \"world@3\""),
        "{refused}"
    );
    let refused = train
        .tell(Command::Offer(json!("world@3")))
        .await
        .unwrap_err();
    assert!(refused.contains("is offered by itself"), "{refused}");
    train.tell(hotfix("world@3")).await.unwrap();
    passes(Duration::from_secs(5)).await;
    assert_eq!(
        train.sizes(),
        [40, 40, 10, 10],
        "it does not wait for the bake"
    );
    passes(Duration::from_secs(190)).await;
    assert_eq!(train.sizes(), [40, 40, 10, 10], "the hotfix bakes");
    train.settles("the hotfix is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_abandoned_incarnation_goes_back_where_it_is_not_ripe() {
    let train = Train::new().await;
    train.edit(&of_size(2)).await;
    train.until([20, 20, 10, 10]).await;
    train
        .tell(Command::Abandon(json!("world@2")))
        .await
        .unwrap();
    train.settles("the abandoned incarnation is back").await;
    assert_eq!(train.sizes(), [20, 10, 10, 10]);
    train.edit(&of_size(4)).await;
    train.settles("the next incarnation is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_content_that_failed_stays_out_after_an_older_version() {
    let train = Train::new().await;
    train.tell(Command::HoldStage("eu".into())).await.unwrap();
    train.edit(&of_size(2)).await;
    train.until([20, 10, 10, 10]).await;
    passes(Duration::from_secs(110)).await;
    let bad = of_size(4).replace("b: {size: 4", "b: {size: 3");
    train.edit(&bad).await;
    train.until([40, 10, 10, 10]).await;
    passes(Duration::from_secs(110)).await;
    train
        .tell(Command::ReleaseStage("eu".into()))
        .await
        .unwrap();
    train
        .settles("the version that was overtaken is ripe")
        .await;
    assert_eq!(train.sizes(), [40, 20, 20, 20]);
    train.edit(&bad.replace("a: {size: 4", "a: {size: 5")).await;
    train.until([50, 20, 20, 20]).await;
    for _ in 0..200 {
        passes(Duration::from_secs(3)).await;
        assert_eq!(train.sizes()[1], 20, "the bad content does not come again");
    }
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_hotfix_takes_over_from_a_rollout_that_has_stopped() {
    let train = Train::new().await;
    let stops = |text: String| text.replace("canary: {", "canary: {on_unhealthy: stop, ");
    train.edit(&stops(of_size(3))).await;
    train.until([30, 10, 10, 10]).await;
    passes(Duration::from_secs(200)).await;
    train.edit(&stops(of_size(4))).await;
    passes(Duration::from_secs(200)).await;
    assert_eq!(train.sizes(), [30, 10, 10, 10], "a person has to act");
    let hotfix = Command::Hotfix {
        stage: "canary".into(),
        version: json!("world@3"),
    };
    train.tell(hotfix).await.unwrap();
    train.until([40, 10, 10, 10]).await;
    train.settles("the hotfix is ripe").await;
    assert_eq!(train.sizes(), [40; 4]);
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_version_that_its_group_has_overtaken_is_not_ripe() {
    let train = Train::new().await;
    train.tell(Command::HoldStage("eu".into())).await.unwrap();
    train.edit(&of_size(2)).await;
    train.until([20, 10, 10, 10]).await;
    passes(Duration::from_secs(110)).await;
    // A train that is gone lets the groups go on.
    let (without, _) = MANIFEST.split_once("trains:").unwrap();
    train.edit(&without.replace("size: 1", "size: 4")).await;
    train.until([40; 4]).await;
    train.running.handle.settle(LONG).await.unwrap();
    train.edit(&of_size(4)).await;
    passes(Duration::from_secs(600)).await;
    let newest = json!("world@4");
    train
        .tell(Command::HoldVersion(newest.clone()))
        .await
        .unwrap();
    train
        .tell(Command::ReleaseStage("eu".into()))
        .await
        .unwrap();
    passes(Duration::from_secs(60)).await;
    train.tell(Command::ReleaseVersion(newest)).await.unwrap();
    train.settles("the newest incarnation is ripe").await;
    let record = train.view().await.record;
    let second = record
        .versions
        .iter()
        .find(|it| it.value == json!("world@2"));
    let eu = &second.unwrap().stages["eu"];
    assert!(eu.failed.is_some() && eu.ripe.is_none(), "{eu:?}");
    train.running.stop().await;
}
