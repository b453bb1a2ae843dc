//! A health check: a rollout goes back by itself when production's own signals are bad.
//!
//! A validator judges the updated assets for as long as a rollout runs. Here it reads a signal that a real one would take
//! from metrics: the share of failed requests, which is high in a version with a fault. The program runs in virtual time.
//!
//! Run it with `cargo run -p tour --bin health_check`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{sync::Arc, time::Duration};

use control_plane::{
    model::rollout::RolloutPolicy,
    prelude::*,
    sdk::{
        Health, HealthRequest, HealthValidator, Judgement, testing::InMemoryProduction, text::shown,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The validator: at most one request in a hundred may fail.
struct Errors(InMemoryProduction);

impl Errors {
    /// The share of failed requests of one server. Version 13 has a fault.
    fn share(&self, server: &AssetId) -> Option<f64> {
        let payload = self.0.payload(server)?;
        let server: Server = serde_json::from_str(&payload).ok()?;
        Some(if server.version == 13 { 0.2 } else { 0.001 })
    }
}

#[async_trait]
impl HealthValidator for Errors {
    fn name(&self) -> Arc<str> {
        "errors".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let mut verdict = request.healthy();
        for asset in request.updated.iter().map(|watched| &watched.asset) {
            let share = self.share(asset);
            let judgement = match share {
                // Not to know is not healthy: the rollout holds.
                None => Judgement::Unknown,
                Some(share) if share > 0.01 => Judgement::Unhealthy,
                Some(_) => Judgement::Healthy,
            };
            let share = share.map_or("?".to_owned(), |share| share.to_string());
            let summary = format!("{asset} fails {share} of its requests");
            verdict = verdict.join(request.found(judgement, summary).because(json!(share)));
        }
        Ok(verdict)
    }
}

/// A server, with the version that runs on it.
#[derive(Serialize, Deserialize)]
struct Server {
    version: u32,
}

impl Message for Server {
    const TYPE: &'static str = "shop.v1.Server";
}

/// Three servers, and the policy of their group: one first, watched for two minutes.
struct Shop;

impl Generator for Shop {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("shop", "shop.yaml")
            .makes::<Server>()
            .makes::<RolloutPolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let id = AssetId::new("policy/servers")?;
        let policy = RolloutPolicy::default().canary(1, Duration::from_secs(120));
        for document in input.documents() {
            let asset = Asset::builder(id.clone()).payload(&policy)?;
            out.asset(asset, document.provenance())?;
            let server: Server = document.read()?;
            for name in ["server/1", "server/2", "server/3"] {
                let asset = Asset::builder(AssetId::new(name)?)
                    .payload(&server)?
                    .addon(&addons::RolloutPolicyRef::to(id.clone()))?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("shop.yaml");
    std::fs::write(&source, "version: 12")?;
    let production = InMemoryProduction::new();
    let errors = Errors(production.clone());
    let plane = ControlPlane::builder("shop")
        .store(MemoryStore::new())
        .source(YamlFile::watch(&source))
        .generator(Shop)
        .validators(validators::standard())
        .asset_plugin::<Server>(production.clone())
        .health(|healthy| {
            ServiceBuilder::new()
                .layer(HealthLayer::new(errors))
                .service(healthy)
        })
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    let (hour, policy) = (Duration::from_secs(3600), AssetId::new("policy/servers")?);

    for version in [12, 13, 14] {
        std::fs::write(&source, format!("version: {version}"))?;
        println!("version {version}:");
        handle.wait_until_owner().await.next_run().await;
        let newest = handle.latest().await?.no();
        let outcome = handle.wait_rollout(&policy, newest, hour).await?;
        if let Some(rollout) = &outcome.rollout {
            println!("  {}: {}", rollout.id, shown(&rollout.state.to_string()));
        }
        for name in ["server/1", "server/2", "server/3"] {
            let there = production.payload(&AssetId::new(name)?);
            println!("  {name}: {}", shown(&there.unwrap_or_default()));
        }
    }
    Ok(())
}
