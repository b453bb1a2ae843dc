//! The policy of the page "Validate health without lying to yourself" can be read, and would be sealed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use control_plane::{
    model::Snapshot,
    prelude::*,
    sdk::{AssetTypes, Sources},
    strategist::health::policies::valid,
};
use plugins_prometheus::{Alertmanager, Prometheus, Server};

const PAGE: &str = include_str!("../../../docs/health.md");

#[test]
fn the_policy_of_the_page_would_be_sealed() {
    let text = PAGE.split("```yaml\n").nth(1).unwrap();
    let text = text.split("```").next().unwrap();
    let reading = YamlFile::new("policy.yaml").parse(text.as_bytes()).unwrap();
    let policy: control_plane::model::policy::HealthPolicy = reading.documents[0].read().unwrap();
    assert_eq!(policy.rules.len(), 3);
    let server = || Server::at("http://127.0.0.1:9").unwrap();
    let sources = Sources::default()
        .metrics("prometheus", Prometheus::new(server()).unwrap())
        .signals("alertmanager", Alertmanager::new(server()).unwrap());
    let asset = Asset::builder("health/frontends".parse().unwrap());
    let asset = asset.payload(&policy).unwrap().build().unwrap();
    let snapshot = Snapshot::empty().edit(IncarnationNo(1), vec![asset.clone()], &[]);
    let types = AssetTypes::default();
    let mut problems = Problems::none();
    valid(
        &sources,
        &policy,
        &AssetView::new(&asset, &snapshot, &types),
        &mut problems,
    );
    assert!(problems.is_empty(), "{problems}");
}
