//! R104: trains through the whole control plane: each version is rolled out to stage after stage, by edits.

use std::{collections::BTreeMap, time::Duration};

use control_plane::{
    StageView, TrainView,
    prelude::*,
    runtime::Runtime,
    strategist::{
        State,
        train::{Command, Idle, VersionNo},
    },
};
use serde_json::{Value, json};

use crate::{
    by_edits::{MANIFEST, World},
    rollouts::{passes, until},
    world::{LONG, Running, Virtual, ann, id, monday, write},
};

/// Two stages: the first two services bake for 100 s, then the others for 300 s. A service of size 3 is sick.
const TRAINS: &str = "  fast: {bake_secs: 100}
  slow: {bake_secs: 300}
trains:
  train:
    carries: size
    offers: 1
    stages:
      - {name: canary, targets: {types: [world.v1.Service]}, first: 2, policy: {$asset: fast}}
      - {name: rest, targets: {types: [world.v1.Service]}, policy: {$asset: slow}}
";

/// The manifest with a train that offers a version.
fn offering(version: u64) -> String {
    let trains = TRAINS.replace("offers: 1", &format!("offers: {version}"));
    format!("{MANIFEST}{trains}")
}

/// The train of a control plane that has one.
pub(crate) async fn view(running: &Running) -> TrainView {
    running.handle.trains().all().await.unwrap().remove(0)
}

/// Waits until no stage of the train runs a version, and none can enter one.
pub(crate) async fn settles(running: &Running, event: &str) {
    for _ in 0..10_000 {
        let view = view(running).await;
        let rests = |it: &StageView| matches!(it.next, Err(Idle::NothingNewer | Idle::Held(_)));
        if !view.record.versions.is_empty() && view.stages.iter().all(rests) {
            return;
        }
        passes(Duration::from_secs(1)).await;
    }
    panic!("{event} in time: {:?}", view(running).await);
}

struct Train {
    world: World,
    running: Running,
}

impl Train {
    /// A train whose services have version 1, which is ripe everywhere.
    async fn new() -> Self {
        let world = World::with(&offering(1));
        let running = world.start().await;
        let train = Self { world, running };
        train.settles("version 1 is ripe").await;
        train
    }

    async fn view(&self) -> TrainView {
        view(&self.running).await
    }

    async fn stage(&self, name: &str) -> StageView {
        let mut stages = self.view().await.stages.into_iter();
        stages.find(|it| it.name == name).unwrap()
    }

    async fn has(&self) -> (Value, Value) {
        let has = async |name| self.stage(name).await.has.unwrap_or_default();
        (has("canary").await, has("rest").await)
    }

    /// Waits until no stage runs a version, and none can enter one.
    async fn settles(&self, event: &str) {
        settles(&self.running, event).await;
    }

    async fn tell(&self, command: Command) {
        let (handle, train) = (&self.running.handle, id("train"));
        handle
            .trains()
            .command(&train, command, ann())
            .await
            .unwrap();
    }

    async fn offer(&self, version: u64) {
        self.tell(Command::Offer(json!(version))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn r104_version_that_intent_offers_goes_through_the_stages() {
    let train = Train::new().await;
    assert_eq!(train.world.text(), offering(1), "all had version 1 already");
    write(train.world.dir.path(), &offering(2));
    train.running.handle.settle(LONG).await.unwrap();
    until(&train.running, "the canary is updated", || {
        train.world.of_size(20) == 2
    })
    .await;
    let size = |name: &str| train.world.production.size(name);
    assert_eq!(
        (size("a"), size("b")),
        (Some(20), Some(20)),
        "the first two by their ids"
    );
    passes(Duration::from_secs(90)).await;
    assert_eq!(train.world.of_size(20), 2, "it bakes");
    train.settles("version 2 is ripe").await;
    assert_eq!(train.has().await, (json!(2), json!(2)));
    let expected = offering(2).replace("size: 1", "size: 2");
    assert_eq!(train.world.text(), expected);
    let rest = train.stage("rest").await;
    assert_eq!(
        (rest.next, rest.key.as_str()),
        (Err(Idle::NothingNewer), "rollout/train/rest")
    );
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_version_that_fails_goes_back_and_another_one_overtakes_it() {
    let train = Train::new().await;
    train.offer(3).await;
    train.settles("version 3 is back").await;
    assert_eq!(train.world.text(), offering(1));
    let record = train.view().await.record;
    let failed = record
        .versions
        .iter()
        .find(|it| it.value == json!(3))
        .unwrap();
    assert!(failed.stages["canary"].failed.is_some(), "{failed:?}");
    assert!(!failed.stages.contains_key("rest"));
    assert_eq!(train.has().await, (json!(1), json!(1)));
    train.offer(4).await;
    train.settles("version 4 is ripe").await;
    assert_eq!(train.has().await, (json!(4), json!(4)));
    let (asset, again) = (id("train"), Command::Offer(json!(4)));
    let again = train
        .running
        .handle
        .trains()
        .command(&asset, again, ann())
        .await;
    let error = again.unwrap_err().to_string();
    assert!(error.contains("is the newest version already"), "{error}");
    train.running.stop().await;
}

/// The manifest with a train of three stages, the first two for one service each, with these bakes in seconds.
fn three_stages(takes: [(&str, u64); 3]) -> String {
    let services = "targets: {types: [world.v1.Service]}";
    let trains = takes.map(|(_, secs)| format!("bake_secs: {secs}"));
    format!(
        "{MANIFEST}  one: {{{}}}
  two: {{{}}}
  three: {{{}}}
trains:
  train:
    carries: size
    stages:
      - {{name: canary, {services}, first: 1, policy: {{$asset: one}}}}
      - {{name: more, {services}, first: 1, policy: {{$asset: two}}}}
      - {{name: rest, {services}, policy: {{$asset: three}}}}
",
        trains[0], trains[1], trains[2]
    )
}

/// A version every 240 s, through stages that bake for about as long, twice as long, and a bit longer.
#[tokio::test(start_paused = true)]
async fn r104_every_version_arrives_when_it_was_predicted() {
    let takes = [("canary", 200), ("more", 450), ("rest", 470)];
    let world = World::with(&three_stages(takes));
    let runtime = Virtual::current();
    let source = YamlFile::new(world.path());
    let plane = world.plane(runtime.clone(), "manifest.yaml", source);
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    handle.settle(LONG).await.unwrap();

    let turn = |n: u32| monday() + (n + 1) * Duration::from_secs(240);
    let offers: Vec<(Timestamp, Value)> = (0..14).map(|n| (turn(n), json!(101 + n))).collect();
    let takes = takes.map(|(stage, secs)| (stage.to_owned(), Duration::from_secs(secs)));
    let (asset, takes, until) = (id("train"), BTreeMap::from(takes), turn(28));
    let trains = handle.trains();
    let preview = trains.preview(&asset, &takes, &offers, until);
    let preview = preview.await.unwrap();
    let mut offers = offers.into_iter().peekable();
    while runtime.now().wall < until {
        if let Some((_, version)) = offers.next_if(|(at, _)| *at <= runtime.now().wall) {
            let offer = Command::Offer(version);
            handle.trains().command(&asset, offer, ann()).await.unwrap();
        }
        passes(Duration::from_secs(1)).await;
    }
    let mut seen: BTreeMap<(VersionNo, String), Timestamp> = BTreeMap::new();
    for version in &handle.trains().all().await.unwrap()[0].record.versions {
        for (stage, facts) in &version.stages {
            seen.extend(facts.arrived.map(|at| ((version.no, stage.clone()), at)));
        }
    }
    for it in preview.iter().filter(|it| it.at < turn(26)) {
        let at = seen.remove(&(it.no, it.stage.clone()));
        let at = at.unwrap_or_else(|| panic!("{} enters {} at {}", it.version, it.stage, it.at));
        // Edits, seals and pushes take some seconds.
        let differs = at.duration_since(it.at).as_secs();
        assert!(
            (0..10).contains(&differs),
            "{} enters {} at {at}, not {}",
            it.version,
            it.stage,
            it.at
        );
    }
    seen.retain(|_, at| *at < turn(26));
    assert_eq!(seen, BTreeMap::new());
    let in_last = preview.iter().filter(|it| it.stage == "rest").count();
    assert!(in_last >= 5, "{in_last} versions reach the last stage");
}

#[tokio::test(start_paused = true)]
async fn r104_hotfix_displaces_what_its_stage_runs() {
    let train = Train::new().await;
    train.offer(2).await;
    until(&train.running, "version 2 bakes in the last stage", || {
        train.world.of_size(20) == 4
    })
    .await;
    let stage = "rest".to_owned();
    let version = json!(7);
    train.tell(Command::Hotfix { stage, version }).await;
    until(&train.running, "the hotfix is there", || {
        train.world.of_size(70) == 2
    })
    .await;
    assert_eq!(
        train.world.of_size(20),
        2,
        "the first stage keeps its version"
    );
    train.settles("the hotfix is ripe").await;
    assert_eq!(train.has().await, (json!(2), json!(7)));
    let record = train.view().await.record;
    let displaced = record
        .versions
        .iter()
        .find(|it| it.value == json!(2))
        .unwrap();
    assert!(
        displaced.stages["rest"].failed.is_none(),
        "it was displaced and has not failed"
    );
    train.offer(8).await;
    train.settles("version 8 is ripe").await;
    assert_eq!(train.has().await, (json!(8), json!(8)));
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_people_hold_skip_and_abandon() {
    let train = Train::new().await;
    train.tell(Command::HoldStage("rest".into())).await;
    train.offer(2).await;
    train.settles("version 2 is ripe in the first stage").await;
    assert_eq!(train.has().await, (json!(2), json!(1)));
    let held = train.stage("rest").await.next.unwrap_err();
    assert!(
        matches!(&held, Idle::Held(by) if by.contains("ann")),
        "{held:?}"
    );
    train.tell(Command::ReleaseStage("rest".into())).await;
    until(&train.running, "version 2 is in the last stage", || {
        train.world.of_size(20) == 4
    })
    .await;
    // It is ripe in the first stage, where it stays, and leaves the last one.
    train.tell(Command::Abandon(json!(2))).await;
    train.settles("version 2 has left").await;
    assert_eq!((train.world.of_size(20), train.world.of_size(10)), (2, 2));
    train.offer(4).await;
    until(&train.running, "version 4 is in the first stage", || {
        train.world.of_size(40) == 2
    })
    .await;
    let (stage, version) = ("canary".to_owned(), json!(4));
    train.tell(Command::Skip { stage, version }).await;
    until(&train.running, "version 4 is in the last stage", || {
        train.world.of_size(40) == 4
    })
    .await;
    assert!(
        train.stage("canary").await.runs,
        "its bake in the first stage goes on"
    );
    train.settles("version 4 is ripe").await;
    assert_eq!(train.has().await, (json!(4), json!(4)));
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_version_whose_fields_a_person_sets_back_is_not_ripe() {
    let train = Train::new().await;
    train.offer(2).await;
    until(&train.running, "the canary is updated", || {
        train.world.of_size(20) == 2
    })
    .await;
    let text = train.world.text();
    write(train.world.dir.path(), &text.replace("size: 2", "size: 1"));
    train.running.handle.settle(LONG).await.unwrap();
    train.settles("version 2 has left").await;
    assert_eq!(train.has().await, (json!(1), json!(1)));
    let record = train.view().await.record;
    let failed = record.versions.last().unwrap().stages["canary"]
        .failed
        .clone();
    let why = failed.unwrap().why;
    assert!(why.contains("a person has set its field"), "{why}");
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_hotfix_displaces_a_version_that_has_moved_nothing() {
    let train = Train::new().await;
    let closed = offering(1).replace("slow: {", "slow: {hold: closed, ");
    write(train.world.dir.path(), &closed);
    train.running.handle.settle(LONG).await.unwrap();
    train.offer(2).await;
    let has = async |version: u64| train.stage("rest").await.has == Some(json!(version));
    while !has(2).await {
        passes(Duration::from_secs(1)).await;
    }
    passes(LONG).await;
    let (stage, version) = ("rest".to_owned(), json!(7));
    train.tell(Command::Hotfix { stage, version }).await;
    while !has(7).await {
        passes(Duration::from_secs(1)).await;
    }
    // The hotfix is offered to the other stages, too.
    train.offer(7).await;
    let text = train.world.text();
    write(train.world.dir.path(), &text.replace("hold: closed, ", ""));
    train.settles("the hotfix is ripe").await;
    assert_eq!(train.has().await, (json!(7), json!(7)));
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_next_owner_goes_on_with_the_train() {
    let train = Train::new().await;
    train.offer(2).await;
    let mut running = train.running;
    // At any moment: before, during and after each stage.
    for _ in 0..12 {
        passes(Duration::from_secs(37)).await;
        running.stop().await;
        running = train.world.start().await;
    }
    let train = Train {
        world: train.world,
        running,
    };
    train.settles("version 2 is ripe").await;
    assert_eq!(train.has().await, (json!(2), json!(2)));
    let key = train.stage("rest").await.key;
    let rollouts = train.running.handle.past_rollouts(&key).await.unwrap();
    let states: Vec<&State> = rollouts.iter().map(|it| &it.state).collect();
    assert_eq!(
        states,
        [&State::Completed, &State::Completed],
        "version 1, then version 2"
    );
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn goal_about_the_field_of_a_train_stands_in_its_view() {
    let goals = "goals:
  newer: {targets: {types: [world.v1.Service]}, field: size, value: 2, by: 2099-01-01T00:00:00Z}
  dark: {targets: {types: [world.v1.Service]}, field: flag, value: true, by: 2099-01-01T00:00:00Z}
";
    let world = World::with(&format!("{}{goals}", offering(1)));
    let running = world.start().await;
    let train = Train { world, running };
    train.settles("version 1 is ripe").await;
    let of = async |many: u32| {
        let line = format!("{many} of 4 have size = 2, due 2099-01-01T00:00:00Z");
        assert_eq!(train.view().await.goals, [(id("newer"), line)].into());
    };
    of(0).await;
    train.offer(2).await;
    until(&train.running, "the canary is updated", || {
        train.world.of_size(20) == 2
    })
    .await;
    passes(Duration::from_secs(5)).await;
    of(2).await;
    train.settles("version 2 is ripe").await;
    of(4).await;
    train.running.stop().await;
}
