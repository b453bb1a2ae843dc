//! Changes: a week-long flag beside a daily version, on the same shops.
//!
//! Each change edits one field of the manifest, shop by shop, at the pace of its own policy. The version has a fault, so it
//! goes back by itself, and the flag stays. A shop that opens in the middle takes its turn. The program runs in virtual time.
//!
//! Run it with `cargo run -p tour --bin roll_out`.
#![allow(clippy::print_stdout, reason = "a program that prints its steps")]

use std::{fs, path::Path, sync::Arc, time::Duration};

use control_plane::{
    model::{
        Filter,
        rollout::{RollOut, RolloutPolicy, Update},
    },
    prelude::*,
    sdk::{
        Health, HealthRequest, HealthValidator, Judgement, testing::InMemoryProduction, text::shown,
    },
};
use serde::{Deserialize, Serialize};

/// The manifest, as a person has written it.
const MANIFEST: &str = "\
shops: # the oldest first
  eu: {version: 12, dark: false}
  us: {version: 12, dark: false}
  ap: {version: 12, dark: false}
";
const HOUR: Duration = Duration::from_secs(3600);

/// A shop, as the manifest says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shop {
    version: u32,
    dark: bool,
}

impl Message for Shop {
    const TYPE: &'static str = "shops.v1.Shop";
}

/// Makes one shop of each entry.
struct Shops;

impl Generator for Shops {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_entry("shops", "shops.yaml", "shops").makes::<Shop>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        if let Some(entry) = input.entry() {
            let shop = Asset::builder(AssetId::new(&format!("shop/{}", entry.key()))?)
                .payload(&entry.read::<Shop>()?)?
                .addon(&addons::RolloutPolicyRef::to(AssetId::new("versions")?))?;
            out.asset(shop, entry.provenance())?;
        }
        Ok(())
    }
}

/// Makes two policies: versions go fast, flags slowly. The group follows the newest incarnation, because its assets are updated by edits.
struct Policies;

impl Generator for Policies {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("policies", "shops.yaml").makes::<RolloutPolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let versions = RolloutPolicy::default()
            .update(Update::Edits)
            .canary(1, HOUR / 60);
        let flags = RolloutPolicy::default().canary(1, HOUR).bake(HOUR);
        for document in input.documents() {
            for (id, policy) in [("versions", &versions), ("flags", &flags)] {
                let policy = Asset::builder(AssetId::new(id)?).payload(policy)?;
                out.asset(policy, document.provenance())?;
            }
        }
        Ok(())
    }
}

/// Finds shops with version 13 unhealthy.
struct Faults(InMemoryProduction);

#[async_trait]
impl HealthValidator for Faults {
    fn name(&self) -> Arc<str> {
        "faults".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let has_fault = |shop: &AssetId| {
            let payload = self.0.payload(shop).unwrap_or_default();
            payload.contains("\"version\":13")
        };
        let faulty = request.updated.iter().find(|it| has_fault(&it.asset));
        Ok(match faulty {
            Some(shop) => {
                request.found(Judgement::Unhealthy, format!("{} has a fault", shop.asset))
            }
            None => request.healthy(),
        })
    }
}

fn print(path: &Path) -> Result<(), BoxError> {
    for line in fs::read_to_string(path)?.lines() {
        println!("  {}", shown(line));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("shops.yaml");
    fs::write(&path, MANIFEST)?;
    let production = InMemoryProduction::new();
    let faults = Faults(production.clone());
    let plane = ControlPlane::builder("shops")
        .store(MemoryStore::new())
        .editable(YamlFile::watch(&path))
        .generator(Shops)
        .generator(Policies)
        .validators(validators::standard())
        .asset_plugin::<Shop>(production.clone())
        .health(|healthy| {
            ServiceBuilder::new()
                .layer(HealthLayer::new(faults))
                .service(healthy)
        })
        .build()?;
    let handle = plane.handle();
    tokio::spawn(plane.run(std::future::pending()));
    handle.settle(HOUR).await?;
    let by = || By::new("jane", "the autumn edition");
    let shops = || Filter::types([Shop::TYPE]);

    println!("a flag, slowly, and a version beside it:");
    let dark = RollOut::new("dark-mode", AssetId::new("flags")?)
        .set("dark", true)
        .on(shops());
    let dark = handle.roll_out(&dark, by()).await?;
    let version = RollOut::new("version-13", AssetId::new("versions")?)
        .set("version", 13)
        .on(shops());
    let version = handle.roll_out(&version, by()).await?;
    let ended = handle.wait_roll_out(&version.key, HOUR).await?;
    println!("  version-13: {}", shown(&ended.state.to_string()));
    println!("the version is back where it was, and the flag bakes in the first shop:");
    print(&path)?;

    println!("a shop opens in the middle, and a second change of the flag is refused:");
    let opened = fs::read_to_string(&path)? + "  mars: {version: 12, dark: false}\n";
    fs::write(&path, opened)?;
    handle.settle(HOUR).await?;
    let light = RollOut::new("light-mode", AssetId::new("flags")?)
        .set("dark", false)
        .on(shops());
    if let Err(refused) = handle.roll_out(&light, by()).await {
        println!("  {}", shown(&refused.to_string()));
    }

    println!("in the end all shops have the flag:");
    let ended = handle.wait_roll_out(&dark.key, 24 * HOUR).await?;
    println!("  dark-mode: {}", shown(&ended.state.to_string()));
    print(&path)?;
    Ok(())
}
