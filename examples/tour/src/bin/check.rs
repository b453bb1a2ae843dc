//! A check: no push starts while an incident is open.
//!
//! A check says whether a push may start now. It delays, it never rejects: the push is checked again, and `explain` says
//! why it waits. The program edits intent during an incident, asks why production does not follow, and ends the incident.
//!
//! Run it with `cargo run -p tour --bin check`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use control_plane::{
    enforcer::kernel::Waiting,
    prelude::*,
    sdk::{testing::InMemoryProduction, text::shown},
};
use serde::{Deserialize, Serialize};

/// The check: while the file exists, no push starts. The file names the person who handles the incident.
struct Incident(PathBuf);

#[async_trait]
impl CheckPlugin for Incident {
    fn info(&self) -> CheckInfo {
        // For changes of intent only: repairs of production are not delayed.
        CheckInfo::new("incident").only_for(Causes::INTENT)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        // An error is a delay too: not to know is no reason to push.
        if !self.0.try_exists()? {
            return Ok(request.proceed());
        }
        let person = std::fs::read_to_string(&self.0)?;
        let reason = format!("{} handles an incident", person.trim());
        Ok(request
            .delay(reason)
            .recheck_after(Duration::from_millis(100)))
    }
}

/// A server, with as many replicas as `server.yaml` says.
#[derive(Serialize, Deserialize)]
struct Server {
    replicas: u32,
}

impl Message for Server {
    const TYPE: &'static str = "shop.v1.Server";
}

/// Makes the server.
struct Shop;

impl Generator for Shop {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("shop", "server.yaml").makes::<Server>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let server: Server = document.read()?;
            let asset = Asset::builder(AssetId::new("server")?).payload(&server)?;
            out.asset(asset, document.provenance())?;
        }
        Ok(())
    }
}

/// Builds the control plane of the shop in `directory`, with the check.
fn build(directory: &Path, production: &InMemoryProduction) -> Result<ControlPlane, BoxError> {
    let incident = Incident(directory.join("INCIDENT"));
    let plane = ControlPlane::builder("shop")
        .store(MemoryStore::new())
        .source(YamlFile::watch(directory.join("server.yaml")))
        .generator(Shop)
        .validators(validators::standard())
        .asset_plugin::<Server>(production.clone())
        // Checks are tower layers. All of them are asked, and everything they find counts.
        .checks(|base| {
            ServiceBuilder::new()
                .layer(CheckLayer::new(incident))
                .service(base)
        })
        .build()?;
    Ok(plane)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let (source, incident) = (
        directory.path().join("server.yaml"),
        directory.path().join("INCIDENT"),
    );
    std::fs::write(&source, "replicas: 2")?;
    let production = InMemoryProduction::new();
    let plane = build(directory.path(), &production)?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    let server = AssetId::new("server")?;
    let there = || production.payload(&server).unwrap_or_default();

    println!(
        "at first: {}",
        handle.settle(Duration::from_secs(30)).await?
    );
    println!("  production has {}", shown(&there()));

    println!("an incident opens, and the server is edited:");
    std::fs::write(&incident, "ann")?;
    std::fs::write(&source, "replicas: 3")?;
    if handle.settle(Duration::from_secs(1)).await.is_err() {
        println!("  production does not follow within a second");
    }
    let explained = handle.explain(&server).await?;
    let waiting = explained
        .enforced()
        .and_then(|it| it.chain[0].waiting.clone());
    if let Some(Waiting::Checks(delays)) = waiting {
        for delay in delays {
            println!(
                "  the check `{}` delays the push: {}",
                delay.check,
                shown(&delay.reason)
            );
        }
    }
    println!("  production has {}", shown(&there()));

    println!("the incident is over:");
    std::fs::remove_file(&incident)?;
    println!(
        "  settled at {}",
        handle.settle(Duration::from_secs(30)).await?
    );
    println!("  production has {}", shown(&there()));
    Ok(())
}
