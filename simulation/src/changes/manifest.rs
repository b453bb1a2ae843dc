//! The text of the source, and the generator that makes assets from it.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use async_trait::async_trait;
use control_plane::{
    model::{
        Asset, AssetId, AssetRef, Filter, Message, addons,
        rollout::{RollOut, RolloutPolicy},
        train::{Stage, Train},
    },
    sdk::{Drafts, Generator, GeneratorInfo, Input, Problems, document::Located},
};
use serde::{Deserialize, Serialize};

use crate::{
    intent::{CLUSTERS, draw_policy},
    random::Random,
};

/// Name of the source and of its only document.
pub(super) const NAME: &str = "manifest.yaml";

/// The name of the document, as edits have it.
pub(super) const DOCUMENT: &str = "manifest.yaml#0";

/// The policies by which changes are made.
pub(super) const POLICIES: [&str; 4] = ["policy/0", "policy/1", "policy/2", "policy/3"];

/// Number of services that the first stage of the train is for.
pub(super) const FIRST: u32 = 2;

/// The payload of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Service {
    pub(super) version: u64,
    pub(super) flag: u64,
}

/// Whether a service with this value of a field answers with errors.
pub(super) fn is_sick(value: u64) -> bool {
    value % 10 == 3
}

impl Service {
    pub(super) fn field(self, name: &str) -> u64 {
        match name {
            "flag" => self.flag,
            _ => self.version,
        }
    }
}

impl Message for Service {
    const TYPE: &'static str = "simulation.v1.Service";
}

/// The content of the text.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    services: BTreeMap<String, Located<Written>>,
    pub(super) policies: BTreeMap<String, RolloutPolicy>,
    #[serde(default)]
    trains: BTreeMap<String, Train>,
    #[serde(default)]
    changes: Vec<RollOut>,
}

/// A service, as it is written.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Written {
    version: u64,
    flag: u64,
    cluster: String,
}

impl Manifest {
    /// The services by name.
    pub(super) fn services(&self) -> BTreeMap<String, Service> {
        let of = |(name, written): (&String, &Located<Written>)| {
            let (version, flag) = (written.version, written.flag);
            (name.clone(), Service { version, flag })
        };
        self.services.iter().map(of).collect()
    }
}

/// The line of a service.
pub(super) fn line(name: &str, service: Service, cluster: &str) -> String {
    let Service { version, flag } = service;
    format!("  {name}: {{version: {version}, flag: {flag}, cluster: {cluster}}}\n")
}

/// The text with a change that is declared in it.
pub(super) fn declaring(text: &str, change: &RollOut) -> String {
    let (head, entry) = ("changes:\n", format!("  - {}\n", json(change)));
    match text.contains(head) {
        true => text.replace(head, &(head.to_owned() + &entry)),
        false => format!("{text}{head}{entry}"),
    }
}

/// Draws a text: some services, the policies, and perhaps a train of two stages.
#[allow(clippy::expect_used, reason = "all parts are built here and valid")]
pub(super) fn draw(random: &mut Random, train: bool) -> String {
    let mut text = draw_services(random);
    let mut policy = |name: &str| {
        let policy = slowed(draw_policy(random), 1 + random.below(6) as u64);
        let _ = writeln!(text, "  {name}: {}", json(&policy));
    };
    POLICIES.into_iter().for_each(&mut policy);
    if train {
        text += &with_train(&["first", "rest"]);
    }
    text
}

/// Draws the text of a year: some services, a careful policy for each stage, and a train of three stages.
pub(super) fn draw_year(random: &mut Random) -> String {
    let mut text = draw_services(random);
    let secs = Duration::from_secs;
    let policies = [
        RolloutPolicy::default().canary(1, secs(20)).bake(secs(40)),
        RolloutPolicy::default().max_in_flight(1).bake(secs(100)),
        RolloutPolicy::default().canary(1, secs(60)).bake(secs(200)),
        RolloutPolicy::default(),
    ];
    for (name, policy) in POLICIES.iter().zip(policies) {
        let _ = writeln!(text, "  {name}: {}", json(&policy));
    }
    text + &with_train(&["first", "middle", "rest"])
}

/// The services, and the head of the policies.
fn draw_services(random: &mut Random) -> String {
    let mut text = "# Our services.\nservices:\n".to_owned();
    for at in 0..4 + random.below(5) {
        let cluster = CLUSTERS[random.below(CLUSTERS.len())];
        let service = Service {
            version: 1,
            flag: 0,
        };
        text += &line(&format!("s{at}"), service, cluster);
    }
    text + "policies:\n  policy/edits: {\"update\": \"edits\"}\n"
}

/// A train with these stages. The last one is for all services, the ones before for two each.
#[allow(clippy::expect_used, reason = "all parts are built here and valid")]
fn with_train(stages: &[&str]) -> String {
    let stage = |(nth, name): (usize, &&str)| {
        let policy = AssetId::new(POLICIES[nth]).expect("the constant is a valid id");
        let stage = Stage::new(*name, Filter::types([Service::TYPE]), policy);
        match nth + 1 < stages.len() {
            true => stage.first(FIRST),
            false => stage,
        }
    };
    let all = stages.iter().enumerate().map(stage);
    let train = all.fold(Train::new("version").offers(1), Train::stage);
    format!("trains:\n  train: {}\n", json(&train))
}

/// A policy that bakes several times as long, so that more happens during a change.
fn slowed(mut policy: RolloutPolicy, times: u64) -> RolloutPolicy {
    policy.bake_secs *= times;
    policy
        .canary
        .iter_mut()
        .for_each(|it| it.bake_secs *= times);
    policy.waves.iter_mut().for_each(|it| it.bake_secs *= times);
    policy
}

/// A value as JSON, which is YAML too.
#[allow(clippy::expect_used, reason = "these values have string keys only")]
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the value can be written as JSON")
}

/// The generator: an asset for each service, policy, train and declared change.
pub(super) struct Model;

#[async_trait]
impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("model", NAME)
            .makes::<Service>()
            .makes::<RolloutPolicy>()
            .makes::<Train>()
            .makes::<RollOut>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            let services = manifest.services();
            for (name, written) in &manifest.services {
                let policy = addons::RolloutPolicyRef {
                    policy: AssetRef::to(AssetId::new("policy/edits")?),
                };
                let cluster = addons::PhysicalCluster {
                    cluster: written.cluster.clone(),
                };
                let asset = Asset::builder(AssetId::new(name)?)
                    .payload(&services[name])?
                    .addon(&policy)?
                    .addon(&cluster)?;
                out.asset(asset, document.provenance_at(&*written.path))?;
            }
            for (name, policy) in &manifest.policies {
                let asset = Asset::builder(AssetId::new(name)?).payload(policy)?;
                out.asset(asset, document.provenance())?;
            }
            for (name, train) in &manifest.trains {
                let asset = Asset::builder(AssetId::new(name)?).payload(train)?;
                out.asset(asset, document.provenance())?;
            }
            for change in &manifest.changes {
                let id = AssetId::new(&format!("rollout/{}", change.name))?;
                out.asset(Asset::builder(id).payload(change)?, document.provenance())?;
            }
        }
        Ok(())
    }
}
