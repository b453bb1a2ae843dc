//! A rollout policy: a change reaches one page first, then one failure domain after the other.
//!
//! The policy is intent too: an asset, to which the pages refer. An edit of the pages becomes a rollout. The program
//! runs in virtual time, in which a minute of waiting takes no time.
//!
//! Run it with `cargo run -p tour --bin policy`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::time::Duration;

use control_plane::{model::rollout::RolloutPolicy, prelude::*, sdk::testing::InMemoryProduction};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// A page of a web site.
#[derive(Serialize, Deserialize)]
struct Page {
    text: String,
}

impl Message for Page {
    const TYPE: &'static str = "site.v1.Page";
}

/// Four pages in two clusters, and the policy of their group.
struct Site;

impl Generator for Site {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("site", "site.yaml")
            .makes::<Page>()
            .makes::<RolloutPolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let id = AssetId::new("policy/pages")?;
        let policy = RolloutPolicy::default()
            // One page first, watched for two minutes.
            .canary(1, Duration::from_secs(120))
            // Then one cluster after the other, each watched for a minute.
            .domains(["eu", "us"])
            .bake(Duration::from_secs(60));
        for document in input.documents() {
            let asset = Asset::builder(id.clone()).payload(&policy)?;
            out.asset(asset, document.provenance())?;
            let page: Page = document.read()?;
            for (name, cluster) in [("a", "eu"), ("b", "eu"), ("c", "us"), ("d", "us")] {
                let asset = Asset::builder(AssetId::new(&format!("page/{name}"))?)
                    .payload(&page)?
                    .addon(&addons::RolloutPolicyRef::to(id.clone()))?
                    .addon(&addons::PhysicalCluster::new(cluster))?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Failure> {
    let directory = tempfile::tempdir()?;
    let source = directory.path().join("site.yaml");
    std::fs::write(&source, "text: one")?;
    let production = InMemoryProduction::new();
    let plane = ControlPlane::builder("site")
        .store(MemoryStore::new())
        .source(YamlFile::watch(&source))
        .generator(Site)
        .validators(validators::standard())
        .asset_plugin::<Page>(production.clone())
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));

    // The pages that were pushed since the last call.
    let mut seen = 0;
    let mut pushed = || {
        let all = production.pushed();
        let new: Vec<String> = all[seen..].iter().map(ToString::to_string).collect();
        seen = all.len();
        new.join(", ")
    };
    handle.settle(Duration::from_secs(60)).await?;
    println!("at the first turnup nothing serves yet, so all move at once:");
    println!("  {}", pushed());

    println!("an edit rolls out:");
    let began = Instant::now();
    std::fs::write(&source, "text: two")?;
    let (hour, policy) = (Duration::from_secs(3600), AssetId::new("policy/pages")?);
    let rollout = async {
        let newest = handle.settle(hour).await?.no;
        handle.wait_rollout(&policy, newest, hour).await
    };
    let mut rollout = std::pin::pin!(rollout);
    let outcome = loop {
        tokio::select! {
            outcome = &mut rollout => break outcome?,
            () = tokio::time::sleep(Duration::from_secs(1)) => {}
        }
        let new = pushed();
        if !new.is_empty() {
            println!("  after {} s: {new}", began.elapsed().as_secs());
        }
    };
    println!(
        "  after {} s: released: {}",
        began.elapsed().as_secs(),
        outcome.released
    );
    Ok(())
}
