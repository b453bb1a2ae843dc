//! The example makes what its page says, and an edit of one service changes its assets only.
#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use std::{fs, path::Path};

use control_plane::{
    generation::Rendered,
    runtime::TokioRuntime,
    sdk::{Document, conformance, document::Node},
};
use serde_json::json;
use web_service::{SOURCE, Services, pipeline};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/services.yaml");

async fn render(file: &Path) -> Result<Rendered, String> {
    let pipeline = pipeline(file).unwrap();
    let rendered = pipeline.render(&TokioRuntime::current()).await;
    rendered.map_err(|problems| problems.to_string())
}

#[tokio::test]
async fn fifteen_lines_become_jobs_balancers_alerts_and_dependencies() {
    let lines = fs::read_to_string(FILE).unwrap();
    assert_eq!(
        lines.lines().filter(|line| !line.starts_with('#')).count(),
        13
    );
    let rendered = render(FILE.as_ref()).await.unwrap();
    let snapshot = &rendered.candidate().snapshot;
    let ids: Vec<String> = snapshot
        .iter()
        .map(|asset| asset.id_str().to_owned())
        .collect();
    assert_eq!(
        ids,
        [
            "alert/accounts",
            "alert/shop",
            "balancer/accounts/eu",
            "balancer/accounts/us",
            "balancer/shop/eu",
            "balancer/shop/us",
            "job/accounts/eu",
            "job/accounts/us",
            "job/shop/eu",
            "job/shop/us",
        ]
    );
    let yaml = rendered.yaml().unwrap();
    assert!(yaml.contains(
        "# job/shop/eu: made by services, amended by dependencies, from `services.shop` in"
    ));
    assert!(yaml.contains("$asset: balancer/accounts/eu"), "{yaml}");
}

#[tokio::test]
async fn edit_of_one_service_changes_its_assets_only() {
    let dir = tempfile::tempdir().unwrap();
    let edited = dir.path().join("services.yaml");
    let text = fs::read_to_string(FILE).unwrap();
    fs::write(&edited, text.replace("version: 7", "version: 8")).unwrap();
    let (before, after) = (
        render(FILE.as_ref()).await.unwrap(),
        render(&edited).await.unwrap(),
    );
    let diff = after.diff_to(&before).unwrap();
    let changed = diff.lines().filter(|line| line.starts_with("+++"));
    let changed: Vec<&str> = changed.collect();
    assert_eq!(
        changed,
        ["+++ job/shop/eu rendered", "+++ job/shop/us rendered"],
        "{diff}"
    );

    fs::write(
        &edited,
        text.replace("tasks: { eu: 2, us: 2 }", "tasks: { eu: 2 }"),
    )
    .unwrap();
    let refused = render(&edited).await.err().unwrap();
    let said = "services#0:5:5: job/shop/us: payload.calls: calls `accounts`, which has no tasks in us; add them";
    assert!(refused.contains(said), "{refused}");
}

#[test]
fn generator_of_services_is_hermetic() {
    let services = json!({
        "defaults": { "alert_above_percent": 1 },
        "services": { "a": { "owner": "x", "version": 1, "tasks": { "eu": 1, "us": 2 }, "qps_per_task": 5 } },
    });
    let document = Document::new(SOURCE, SOURCE, 0, Node::from(services));
    conformance::generator(&Services, &[document], &[]).unwrap();
}
