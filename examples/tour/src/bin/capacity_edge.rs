//! A capacity edge: `web` sends its queries to `db`, so `db` must be able to carry them at every instant.
//!
//! The edge is declared once, on the consumer. The dependency solver finds the order of each change from what production
//! has at that moment: a provider grows before its consumer, and shrinks after it. What cannot fit is never sealed.
//!
//! Run it with `cargo run -p tour --bin capacity_edge`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{collections::BTreeMap, time::Duration};

use control_plane::{
    model::addons::{DependsOn, Edge},
    prelude::*,
    sdk::{testing::InMemoryProduction, text::shown},
};
use serde::{Deserialize, Serialize};

/// A server that carries so many queries per second, and sends as many to its backend.
#[derive(Serialize, Deserialize)]
struct Server {
    qps: u64,
    #[serde(default)]
    backend: Option<AssetRef>,
}

impl Message for Server {
    const TYPE: &'static str = "shop.v1.Server";
}

/// The servers of `shop.yaml`, each with an edge to its backend.
struct Shop;

impl Generator for Shop {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("shop", "shop.yaml").makes::<Server>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let servers: BTreeMap<String, Server> = document.read()?;
            for (name, server) in servers {
                let backend = server.backend.iter();
                let edges = backend.map(|backend| Edge::capacity(backend.id.clone(), "qps"));
                let asset = Asset::builder(AssetId::new(&name)?)
                    .payload(&server)?
                    .addon(&DependsOn::on(edges))?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

/// What production has: the plugin reports it with each diff, and says how a push would change it.
fn observed(payload: &serde_json::Value) -> Observed {
    let qps = payload["qps"].as_u64().unwrap_or(0);
    Observed::default().capacity("qps", qps)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("shop.yaml");
    let production = InMemoryProduction::new().observing(observed);
    let servers = AssetType::<Server>::new();
    let write = |db: u64, web: u64| {
        println!("db is to carry {db} queries per second, web {web}:");
        let servers = format!("db: {{qps: {db}}}\nweb: {{qps: {web}, backend: {{$asset: db}}}}");
        std::fs::write(&source, servers)
    };

    write(80, 50)?;
    let plane = ControlPlane::builder("shop")
        .store(MemoryStore::new())
        .source(YamlFile::watch(&source))
        .generator(Shop)
        .validators(validators::standard())
        // What a payload asks for: so intent that does not fit is refused before it is sealed.
        .asset_type(servers.capacity(|server| [("qps".to_owned(), server.qps)].into()))
        .asset_plugin::<Server>(production.clone())
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .service(base)
        })
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    let within = Duration::from_secs(30);

    let mut seen = 0;
    let mut pushed = || {
        let all = production.pushed();
        let new: Vec<String> = all[seen..].iter().map(ToString::to_string).collect();
        seen = all.len();
        new.join(", then ")
    };
    handle.settle(within).await?;
    println!("  {}", pushed());
    write(100, 90)?;
    handle.settle(within).await?;
    println!("  {}", pushed());
    write(40, 30)?;
    handle.settle(within).await?;
    println!("  {}", pushed());
    write(20, 30)?;
    if let Err(refused) = handle.settle(within).await {
        for line in refused.to_string().lines() {
            println!("  {}", shown(line));
        }
    }
    Ok(())
}
