//! R101: changes set fields of a source for their targets, step by step, as their policy says.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::{
    Error, RollOutRefused,
    model::{
        AssetBuilder, Filter,
        goal::Goal,
        rollout::{RollOut, RolloutPolicy},
        train::Train,
    },
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    sdk::HealthValidator,
    strategist::{Command, State},
};
use plugin_sdk::{EditableSource, Health, HealthRequest, Judgement, document::Located};
use serde::Deserialize;

use crate::{
    checks_first::Frozen,
    gate::Gate,
    rollouts::{passes, until},
    world::{LONG, Production, Running, Service, ann, id, write},
};

pub(crate) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub(crate) const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Deserialize)]
struct Manifest {
    services: BTreeMap<String, Located<Written>>,
    policies: BTreeMap<String, RolloutPolicy>,
    #[serde(default)]
    trains: BTreeMap<String, Train>,
    #[serde(default)]
    goals: BTreeMap<String, Goal>,
    #[serde(default)]
    changes: Vec<RollOut>,
}

#[derive(Deserialize)]
struct Written {
    size: u64,
    #[serde(default)]
    flag: bool,
    /// Whether a second service is made from the same entry.
    #[serde(default)]
    twin: bool,
    #[serde(default)]
    cluster: Option<String>,
    group: String,
}

/// Makes services whose size tells both fields of their entry: ten times the size, and one more with the flag.
struct Model(&'static str);

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("model", self.0)
            .makes::<Service>()
            .makes::<RolloutPolicy>()
            .makes::<Train>()
            .makes::<Goal>()
            .makes::<RollOut>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            for (name, written) in manifest.services {
                let size = written.size * 10 + u64::from(written.flag);
                let policy = AssetRef::to(AssetId::new(&written.group)?);
                let twin = written.twin.then(|| format!("{name}-twin"));
                for name in std::iter::once(name).chain(twin) {
                    let policy = addons::RolloutPolicyRef {
                        policy: policy.clone(),
                    };
                    let asset = Asset::builder(AssetId::new(&name)?).payload(&Service { size })?;
                    let mut asset = asset.addon(&policy)?;
                    if let Some(cluster) = written.cluster.clone() {
                        asset = asset.addon(&addons::PhysicalCluster { cluster })?;
                    }
                    out.asset(asset, document.provenance_at(&*written.path))?;
                }
            }
            let mut all = Vec::new();
            all.extend(manifest.policies.iter().map(built));
            all.extend(manifest.trains.iter().map(built));
            all.extend(manifest.goals.iter().map(built));
            let change = |it: &RollOut| built((&format!("rollout/{}", it.name), it));
            all.extend(manifest.changes.iter().map(change));
            for asset in all {
                out.asset(asset?, document.provenance())?;
            }
        }
        Ok(())
    }
}

fn built<T: Message>((name, payload): (&String, &T)) -> Result<AssetBuilder, Problems> {
    Ok(Asset::builder(AssetId::new(name)?).payload(payload)?)
}

pub(crate) const MANIFEST: &str = "# Our services.
services:
  a: {size: 1, flag: false, group: edits} # the first
  b: {size: 1, flag: false, group: edits}
  c: {size: 1, flag: false, group: edits}
  d: {size: 1, flag: false, group: edits}
policies:
  edits: {update: edits}
  others: {update: edits}
  slowly: {canary: {count: 1, bake_secs: 60}, max_in_flight: 1}
  flags: {max_in_flight: 1, bake_secs: 10}
  careful: {canary: {count: 1, bake_secs: 60}, max_in_flight: 1, bake_secs: 30}
  pins: {}
  halves: {waves: [{upto: {count: 2}, bake_secs: 600}]}
";

pub(crate) struct World {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Gate,
    pub(crate) production: Production,
    pub(crate) frozen: Frozen,
    /// For how long health remembers sick services.
    pub(crate) window: Duration,
    sick: Sick,
}

/// The services that were seen sick, with the times: monitoring keeps them over a restart of the control plane.
type Sick = Arc<Mutex<Vec<(Timestamp, AssetId)>>>;

/// Finds services of size 30 to 39 sick, by their sizes within a window of time, as monitoring does.
struct Seen {
    production: Production,
    window: Duration,
    sick: Sick,
}

#[async_trait]
impl HealthValidator for Seen {
    fn name(&self) -> Arc<str> {
        "seen".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let sizes = self.production.state().sizes.clone();
        let now = sizes
            .into_iter()
            .filter(|(_, size)| (30..40).contains(size));
        let mut sick = self.sick.lock().unwrap();
        sick.extend(now.map(|(asset, _)| (request.now, asset)));
        sick.retain(|(at, _)| *at + self.window >= request.now);
        let mut moved = request.updated.iter().chain(&request.under_way);
        let is_sick = moved.any(|it| {
            let mut of_it = sick.iter().filter(|(_, asset)| *asset == it.asset);
            of_it.any(|(at, _)| *at >= it.since)
        });
        Ok(match is_sick {
            true => request.found(Judgement::Unhealthy, "seen sick"),
            false => request.healthy(),
        })
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(MANIFEST)
    }

    pub(crate) fn with(manifest: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), manifest);
        Self {
            dir,
            store: Gate::default(),
            production: Production::default(),
            frozen: Frozen::default(),
            window: Duration::ZERO,
            sick: Sick::default(),
        }
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        Path::new(self.dir.path()).join("manifest.yaml")
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    fn flags(&self) -> usize {
        self.text().matches("flag: true").count()
    }

    pub(crate) fn of_size(&self, size: u64) -> usize {
        let of = |name: &&str| self.production.size(name) == Some(size);
        NAMES.into_iter().filter(of).count()
    }

    pub(crate) async fn start(&self) -> Running {
        let running = self.start_with("manifest.yaml", YamlFile::new(self.path()));
        running.handle.wait_until_owner().await;
        running.handle.settle(LONG).await.unwrap();
        running
    }

    /// Starts a control plane that may edit this source.
    pub(crate) fn start_with(&self, name: &'static str, source: impl EditableSource) -> Running {
        Running::start(self.plane(TokioRuntime::current(), name, source))
    }

    pub(crate) fn plane<R: Runtime>(
        &self,
        runtime: R,
        name: &'static str,
        source: impl EditableSource,
    ) -> ControlPlane<R> {
        let plane = ControlPlane::builder_on(runtime, "world")
            .store(self.store.clone())
            .editable(source)
            .generator(Model(name))
            .validators(validators::standard())
            .asset_plugin::<Service>(Plugin::new(self.production.clone()))
            .checks(|base| {
                let frozen = CheckLayer::new(self.frozen.clone());
                ServiceBuilder::new()
                    .layer(DependencySolverLayer::standard())
                    .layer(frozen)
                    .service(base)
            })
            .health(|healthy| {
                let layer = HealthLayer::new(Seen {
                    production: self.production.clone(),
                    window: self.window,
                    sick: self.sick.clone(),
                });
                ServiceBuilder::new().layer(layer).service(healthy)
            });
        plane.build().unwrap()
    }
}

pub(crate) fn change(name: &str, policy: &str) -> RollOut {
    RollOut::new(name, id(policy)).on(Filter::types([Service::TYPE]))
}

pub(crate) fn dark_mode() -> RollOut {
    change("dark-mode", "slowly").set("flag", true)
}

#[tokio::test(start_paused = true)]
async fn r101_flag_is_set_for_the_canary_first_and_for_all_in_the_end() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    assert_eq!(
        (rolling.key.as_str(), rolling.targets),
        ("rollout/dark-mode", 4)
    );
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    passes(Duration::from_secs(50)).await;
    assert_eq!((world.of_size(11), world.flags()), (1, 1), "it bakes");
    let same = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    assert_eq!(same, rolling, "requested again, it is the same change");

    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!(world.of_size(11), 4);
    assert_eq!(world.text(), MANIFEST.replace("flag: false", "flag: true"));
    assert_eq!(
        world.production.pushes(),
        8,
        "each target was pushed once for it"
    );
    passes(LONG).await;
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_bad_version_goes_back_and_leaves_the_flag_beside_it() {
    let world = World::new();
    let running = world.start().await;
    let flag = change("dark-mode", "flags").set("flag", true);
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    bad_version_goes_back(&running).await;
    let over = running.handle.wait_roll_out(&flag.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(world.text(), MANIFEST.replace("flag: false", "flag: true"));
    assert_eq!(world.of_size(11), 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r102_evidence_from_before_the_way_back_of_another_change_does_not_count() {
    let mut world = World::new();
    world.window = Duration::from_secs(60);
    let running = world.start().await;
    let flag = change("dark-mode", "slowly").set("flag", true);
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    until(&running, "the flag is in the canary", || {
        world.of_size(11) == 1
    })
    .await;
    bad_version_goes_back(&running).await;
    // The next owner has it from the record.
    running.stop().await;
    let running = world.start().await;
    let over = running.handle.wait_roll_out(&flag.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!(world.of_size(11), 4);
    running.stop().await;
}

async fn bad_version_goes_back(running: &Running) {
    let bad = change("version-3", "slowly").set("size", 3);
    let bad = running.handle.roll_out(&bad, ann()).await.unwrap();
    let over = running.handle.wait_roll_out(&bad.key, WEEK).await.unwrap();
    let State::RolledBack { .. } = over.state else {
        panic!("{:?}", over.state);
    };
}

#[tokio::test(start_paused = true)]
async fn r101_next_owner_continues_a_change_and_edits_no_target_twice() {
    let world = World::new();
    let running = world.start().await;
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(11) == 1).await;
    running.stop().await;
    let running = world.start().await;
    assert_eq!(world.flags(), 1);
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!((world.of_size(11), world.production.pushes()), (4, 8));
    passes(LONG).await;
    assert!(running.handle.held_fields().await.unwrap().is_empty());
    running.stop().await;
    // The end is known under the next ownership, too.
    let running = world.start().await;
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_person_who_sets_a_field_takes_the_target_out_of_the_change() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "slowly").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "the canary is updated", || world.of_size(20) == 1).await;
    // The second has its turn later.
    write(
        world.dir.path(),
        &world.text().replace("b: {size: 1", "b: {size: 7"),
    );
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert_eq!(over.state, State::Completed);
    running.handle.settle(LONG).await.unwrap();
    let expected = MANIFEST
        .replace("size: 1", "size: 2")
        .replace("b: {size: 2", "b: {size: 7");
    assert_eq!(world.text(), expected);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r103_way_back_leaves_what_a_person_has_set_since() {
    let world = World::new();
    let running = world.start().await;
    let change = change("version-2", "halves").set("size", 2);
    let rolling = running.handle.roll_out(&change, ann()).await.unwrap();
    until(&running, "two are updated", || world.of_size(20) == 2).await;
    write(
        world.dir.path(),
        &world.text().replace("a: {size: 2", "a: {size: 7"),
    );
    running.handle.settle(LONG).await.unwrap();
    running
        .handle
        .tell_rollout(&rolling.key, Command::RollBack, ann())
        .await
        .unwrap();
    let over = running
        .handle
        .wait_roll_out(&rolling.key, WEEK)
        .await
        .unwrap();
    assert!(
        matches!(over.state, State::RolledBack { .. }),
        "{:?}",
        over.state
    );
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(world.text(), MANIFEST.replace("a: {size: 1", "a: {size: 7"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r101_targets_of_one_field_are_one_unit() {
    let manifest = MANIFEST.replace(
        "  b: {size: 1, flag: false, group: edits}",
        "  b: {size: 1, flag: false, group: edits, twin: true}",
    );
    let world = World::with(&manifest);
    let running = world.start().await;
    let one = dark_mode().on(Filter::ids([id("b")]));
    let outside = refused(&running, one).await;
    assert!(outside.contains("would change `b-twin`"), "{outside}");
    let rolling = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    assert_eq!(rolling.targets, 5);
    let twins = || ["b", "b-twin"].map(|name| world.production.size(name));
    until(&running, "one of them is updated", || {
        twins().contains(&Some(11))
    })
    .await;
    passes(LONG).await;
    assert_eq!(twins(), [Some(11); 2], "both, by one field");
    let over = running.handle.wait_roll_out(&rolling.key, WEEK).await;
    assert_eq!(over.unwrap().state, State::Completed);
    assert_eq!(world.text(), manifest.replace("flag: false", "flag: true"));
    running.stop().await;
}

async fn refused(running: &Running, change: RollOut) -> String {
    let refused = running.handle.roll_out(&change, ann()).await.unwrap_err();
    refused.to_string()
}

#[tokio::test(start_paused = true)]
async fn r101_change_that_cannot_be_made_is_refused_before_the_first_edit() {
    let world = World::new();
    let running = world.start().await;
    for (change, why) in [
        (change("x", "slowly"), "sets no field"),
        (
            change("x", "none").set("flag", true),
            "no rollout policy `none`",
        ),
        (
            dark_mode().on(Filter::ids([id("absent")])),
            "no asset matches",
        ),
        (change("x y", "slowly").set("flag", true), "x y"),
        (change("x", "slowly").set("deep.flag", true), "is not there"),
        (change("x", "slowly").set("color", "red"), "does not change"),
        (
            change("x", "slowly").set("group", "pins"),
            "would leave its policy group",
        ),
        (change("x", "slowly").set("size", "big"), "refused"),
        (
            dark_mode().on(Filter::ids([id("slowly")])),
            "is of no policy group",
        ),
    ] {
        let refused = refused(&running, change.clone()).await;
        assert!(refused.contains(why), "{change:?}: {refused}");
    }
    assert_eq!(world.text(), MANIFEST);
    assert!(running.handle.held_fields().await.unwrap().is_empty());

    let first = running.handle.roll_out(&dark_mode(), ann()).await.unwrap();
    let other = dark_mode().set("flag", false);
    let used = running.handle.roll_out(&other, ann()).await.unwrap_err();
    assert!(
        matches!(used, Error::RollOut(RollOutRefused::NameUsed(_))),
        "{used}"
    );
    let second = refused(&running, change("light-mode", "slowly").set("flag", true)).await;
    assert!(second.contains("held by rollout/dark-mode#1"), "{second}");
    running
        .handle
        .wait_roll_out(&first.key, WEEK)
        .await
        .unwrap();
    running.stop().await;
}
