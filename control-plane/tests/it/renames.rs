//! R49: renamed assets through the whole control plane, with a plugin that renames.

use std::collections::BTreeMap;

use control_plane::prelude::*;
use plugin_sdk::testing::InMemoryProduction;
use prodspec_model::{
    addons::{DependsOn, Edge, Moved},
    rollout::RolloutPolicy,
};
use serde::{Deserialize, Serialize};

use crate::world::{LONG, Running, Text, id};

/// A server that may use the capacity of another server.
#[derive(Serialize, Deserialize)]
struct Server {
    qps: u64,
    #[serde(default)]
    backend: Option<AssetRef>,
    #[serde(default, skip_serializing)]
    moved_from: Option<String>,
    #[serde(default, skip_serializing)]
    governed: bool,
}

impl Message for Server {
    const TYPE: &'static str = "renames.v1.Server";
}

#[derive(Deserialize)]
struct Manifest {
    servers: BTreeMap<String, Server>,
    policy: RolloutPolicy,
}

struct Model;

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("renames", "manifest.yaml")
            .makes::<Server>()
            .makes::<RolloutPolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let policy = AssetId::new("policy")?;
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            let group = Asset::builder(policy.clone()).payload(&manifest.policy)?;
            out.asset(group, document.provenance())?;
            for (name, server) in manifest.servers {
                let backend = server.backend.iter();
                let edges = backend.map(|backend| Edge::capacity(backend.id.clone(), "qps"));
                let mut asset = Asset::builder(AssetId::new(&name)?).payload(&server)?;
                asset = asset.addon(&DependsOn::on(edges))?;
                if let Some(from) = &server.moved_from {
                    asset = asset.addon(&Moved::from(AssetId::new(from)?))?;
                }
                if server.governed {
                    asset = asset.addon(&addons::RolloutPolicyRef::to(policy.clone()))?;
                }
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

fn start(text: &Text, production: &InMemoryProduction) -> Running {
    let plugin = Plugin::new(production.clone()).turndown(production.clone());
    let plane = ControlPlane::builder("renames")
        .store(MemoryStore::new())
        .source(text.clone())
        .generator(Model)
        .validators(validators::standard())
        .asset_type(AssetType::<Server>::new().capacity(|it| [("qps".to_owned(), it.qps)].into()))
        .asset_plugin::<Server>(plugin.guarded().renames())
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .service(base)
        });
    Running::start(plane.build().unwrap())
}

fn production() -> InMemoryProduction {
    InMemoryProduction::new().observing(|payload| {
        let qps = payload["qps"].as_u64().unwrap_or(0);
        plugin_sdk::Observed::default().capacity("qps", qps)
    })
}

/// Renames `a` to `b`, together with the edge of `web`, and shrinks it.
async fn renamed(governed: bool) {
    let policy = "policy: {}";
    let text = Text::new(&format!(
        "servers: {{a: {{qps: 40, governed: {governed}}}, web: {{qps: 30, backend: {{$asset: a}}}}}}\n{policy}"
    ));
    let production = production();
    let running = start(&text, &production);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();

    text.edit(&format!(
        "servers: {{b: {{qps: 35, moved_from: a, governed: {governed}}}, web: {{qps: 30, backend: {{$asset: b}}}}}}\n\
         {policy}"
    ));
    handle.settle(LONG).await.unwrap();
    assert_eq!(production.payload(&id("a")), None, "it was renamed");
    assert!(production.payload(&id("b")).unwrap().contains("35"));
    let status = handle.status().await.unwrap().enforcement.unwrap();
    assert_eq!(status.orphans, []);
    let explained = handle.explain(&id("b")).await.unwrap();
    let decisions = &explained.enforced().unwrap().decisions;
    let first = decisions.first().unwrap().incarnation;
    assert_eq!(first.0, 1, "the history of a goes along: {decisions:?}");
    let gone = handle.explain(&id("a")).await.unwrap_err();
    assert!(
        gone.to_string()
            .ends_with("it was renamed to `b`: use that id"),
        "{gone}"
    );

    // The addon stays in the source for a while.
    text.edit(&format!(
        "servers: {{b: {{qps: 38, moved_from: a, governed: {governed}}}, web: {{qps: 30, backend: {{$asset: b}}}}}}\n\
         {policy}"
    ));
    handle.settle(LONG).await.unwrap();
    assert!(production.payload(&id("b")).unwrap().contains("38"));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r49_renamed_asset_keeps_its_resource_and_its_history() {
    renamed(false).await;
}

#[tokio::test(start_paused = true)]
async fn r49_rollout_of_a_renamed_asset_completes() {
    renamed(true).await;
}

#[tokio::test(start_paused = true)]
async fn r49_renamed_provider_shrinks_after_its_consumers() {
    let policy = "policy: {}";
    let text = Text::new(&format!(
        "servers: {{a: {{qps: 40}}, web: {{qps: 40, backend: {{$asset: a}}}}}}\n{policy}"
    ));
    let production = production();
    let running = start(&text, &production);
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    text.edit(&format!(
        "servers: {{b: {{qps: 10, moved_from: a}}, web: {{qps: 10}}}}\n{policy}"
    ));
    handle.settle(LONG).await.unwrap();
    let pushed: Vec<String> = production.pushed()[2..]
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(pushed, ["web", "b"], "the dropped edge named the old id");
    running.stop().await;
}
