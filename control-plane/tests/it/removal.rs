//! A rollout removes a provider; the same edit moves its consumers to another provider.

use std::{collections::BTreeMap, time::Duration};

use control_plane::prelude::*;
use plugin_sdk::testing::InMemoryProduction;
use prodspec_model::{
    addons::{DependsOn, Edge, Need},
    rollout::RolloutPolicy,
};
use serde::{Deserialize, Serialize};

use crate::world::{LONG, Running, Text, ann, id};

/// A server that may use the capacity of another server.
#[derive(Serialize, Deserialize)]
struct Server {
    qps: u64,
    #[serde(default)]
    backend: Option<AssetRef>,
}

impl Message for Server {
    const TYPE: &'static str = "removal.v1.Server";
}

#[derive(Deserialize)]
struct Manifest {
    servers: BTreeMap<String, Server>,
    #[serde(default)]
    remove: Vec<String>,
    policy: RolloutPolicy,
}

struct Model;

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("removal", "manifest.yaml")
            .makes::<Server>()
            .makes::<RolloutPolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let policy = AssetRef::to(AssetId::new("policy")?);
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            let group = Asset::builder(policy.id.clone()).payload(&manifest.policy)?;
            out.asset(group, document.provenance())?;
            for (name, server) in manifest.servers {
                let need = || Need::Capacity { unit: "qps".into() };
                let edges = server.backend.iter().cloned();
                let edges = edges.map(|provider| Edge {
                    provider,
                    need: need(),
                });
                let mut asset = Asset::builder(AssetId::new(&name)?)
                    .payload(&server)?
                    .addon(&DependsOn {
                        edges: edges.collect(),
                    })?
                    .addon(&addons::RolloutPolicyRef {
                        policy: policy.clone(),
                    })?
                    .addon(&addons::PhysicalCluster {
                        cluster: if name == "a" { "eu" } else { "us" }.into(),
                    })?;
                if manifest.remove.contains(&name) {
                    asset = asset.addon(&addons::Turndown {
                        reason: "replaced".into(),
                        approved_by: "ann".into(),
                    })?;
                }
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

fn names(ids: &[AssetId]) -> Vec<&str> {
    ids.iter().map(AssetId::as_str).collect()
}

/// The first domain contains only `a`, which is removed. It waits for `web`, and `web` waits for `new`, so both are
/// selected with it.
async fn removed(servers: AssetType<Server>) {
    let text = Text::new(
        "servers: {a: {qps: 40}, web: {qps: 30, backend: {$asset: a}}}\npolicy: {domains: [eu, us]}",
    );
    let production = InMemoryProduction::new().observing(|payload| {
        let qps = payload["qps"].as_u64().unwrap_or(0);
        plugin_sdk::Observed::default().capacity("qps", qps)
    });
    let plugin = Plugin::new(production.clone()).turndown(production.clone());
    let plane = ControlPlane::builder("removal")
        .store(MemoryStore::new())
        .source(text.clone())
        .generator(Model)
        .validators(validators::standard())
        .asset_type(servers)
        .asset_plugin::<Server>(plugin.guarded())
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .service(base)
        });
    let running = Running::start(plane.build().unwrap());
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    assert_eq!(names(&production.pushed()), ["a", "web"]);

    text.edit(
        "servers: {a: {qps: 40}, new: {qps: 30}, web: {qps: 30, backend: {$asset: new}}}\nremove: [a]\npolicy: \
         {domains: [eu, us]}",
    );
    assert!(handle.settle(Duration::from_secs(8)).await.is_err());
    assert_eq!(names(&production.pushed()[2..]), ["new", "web"]);
    let explained = handle.explain(&id("a")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0].change.clone();
    let (a, change) = (id("a"), change.unwrap().digest);
    handle.approve(&a, change, ann(), None).await.unwrap();
    handle.settle(LONG).await.unwrap();
    assert_eq!(names(&production.pushed()[4..]), ["a"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r19_a_removal_and_its_consumers_move_together() {
    removed(AssetType::<Server>::new().capacity(|it| [("qps".to_owned(), it.qps)].into())).await;
}

#[tokio::test(start_paused = true)]
async fn r19_a_removal_moves_with_the_assets_that_its_checks_wait_for() {
    removed(AssetType::new()).await;
}
