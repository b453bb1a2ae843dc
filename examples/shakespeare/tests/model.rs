//! The manifest of the example: the assets and edges that are made from it, and the problems found in it.

#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use control_plane::{
    generation::{Pipeline, YamlFile},
    model::{
        Incarnation, PartitionId, Snapshot, addons,
        rollout::{self, Amount, Emergency, OnUnhealthy, RolloutPolicy},
    },
    prelude::*,
};

use shakespeare::model::*;

fn pipeline() -> Pipeline {
    Pipeline::builder(PartitionId::new(PARTITION).unwrap())
        .source(file())
        .generator(ShakespeareModel)
        .validators(validators::standard())
        .asset_type(job_type())
        .asset_type(balancer_type())
        .asset_type(global_type())
        .asset_type(schema_type())
        .asset_type(domain_type())
        .asset_type(policy_type())
        .build()
        .unwrap()
}

fn file() -> YamlFile {
    YamlFile::new(SOURCE).with_end_marker()
}

fn snapshot_of(text: &str) -> Result<Snapshot, Problems> {
    let reading = file().parse(text.as_bytes())?;
    let parent: Option<&Incarnation> = None;
    Ok(pipeline().dry_run([(SOURCE, reading)], parent)?.snapshot)
}

fn asset(snapshot: &Snapshot, id: &str) -> Asset {
    snapshot.get(id).unwrap()
}

#[test]
fn default_manifest_makes_every_asset_and_edge() {
    let snapshot = snapshot_of(Manifest::DEFAULT).unwrap();
    let ids: Vec<String> = snapshot
        .iter()
        .map(|asset| asset.id().to_string())
        .collect();
    assert_eq!(
        ids,
        [
            "balancer/eu",
            "balancer/us",
            "cluster/eu",
            "cluster/us",
            "database",
            "global",
            "job/eu",
            "job/us",
            "rollout"
        ]
    );
    let edges = |id: &str| {
        let depends: addons::DependsOn = asset(&snapshot, id).addon().unwrap().unwrap();
        let edge = |edge: addons::Edge| match edge.need {
            addons::Need::Capacity { unit } => format!("{} {unit}", edge.provider.id),
            need => format!("{} {need:?}", edge.provider.id),
        };
        depends.edges.into_iter().map(edge).collect::<Vec<_>>()
    };
    assert_eq!(edges("job/eu"), ["database Version"]);
    assert_eq!(edges("balancer/eu"), ["job/eu requests/job/eu"]);
    assert_eq!(
        edges("global"),
        [
            "balancer/eu requests/balancer/eu",
            "balancer/us requests/balancer/us"
        ]
    );
    assert_eq!(asset(&snapshot, "job/us").provenance().path, "clusters.us");
}

#[test]
fn manifest_cut_at_any_byte_is_refused_or_identical() {
    let whole = Manifest::DEFAULT;
    let same = file().parse(whole.as_bytes()).unwrap().documents;
    for cut in 0..whole.len() {
        let Ok(text) = std::str::from_utf8(&whole.as_bytes()[..cut]) else {
            continue;
        };
        if let Ok(reading) = file().parse(text.as_bytes()) {
            assert_eq!(reading.documents, same, "cut at {cut}");
            assert_eq!(
                cut,
                whole.len() - 1,
                "only the last line break may be missing"
            );
        }
    }
}

#[test]
fn manifest_written_by_a_program_is_read_back() {
    let manifest: Manifest = file()
        .parse(Manifest::DEFAULT.as_bytes())
        .unwrap()
        .documents[0]
        .read()
        .unwrap();
    let again: Manifest = file()
        .parse(manifest.to_yaml().as_bytes())
        .unwrap()
        .documents[0]
        .read()
        .unwrap();
    assert_eq!(manifest, again);
}

#[test]
fn policy_governs_jobs_and_balancers_only() {
    let snapshot = snapshot_of(Manifest::DEFAULT).unwrap();
    let governed: Vec<String> = snapshot
        .iter()
        .filter(|asset| asset.has_addon(addons::RolloutPolicyRef::TYPE))
        .map(|asset| asset.id().to_string())
        .collect();
    assert_eq!(
        governed,
        ["balancer/eu", "balancer/us", "global", "job/eu", "job/us"]
    );
    let policy: RolloutPolicy = asset(&snapshot, POLICY).payload().unwrap();
    assert_eq!(policy.domains, ["eu", "us"]);
    assert_eq!(policy.canary.map(|canary| canary.bake_secs), Some(10));
    assert_eq!(policy.bake_secs, 5);
}

#[test]
fn every_field_of_the_rollout_section_becomes_part_of_the_policy() {
    let section = "rollout:
  domains: [us]
  canary: {count: 2, bake: 3}
  waves: [{count: 3, bake: 4}, {percent: 50}]
  bake: 5
  max_in_flight: 6
  max_unavailable: 7
  on_unhealthy: stop
  emergency: {who: jane, why: CVE}
";
    let from = Manifest::DEFAULT.find("rollout:").unwrap();
    let to = Manifest::DEFAULT.find("global:").unwrap();
    let text = [
        &Manifest::DEFAULT[..from],
        section,
        &Manifest::DEFAULT[to..],
    ]
    .concat();
    let snapshot = snapshot_of(&text).unwrap();
    let policy: RolloutPolicy = asset(&snapshot, POLICY).payload().unwrap();
    let wave = |upto, bake_secs| rollout::Wave { upto, bake_secs };
    let expected = RolloutPolicy {
        domains: vec!["us".into()],
        canary: Some(rollout::Canary {
            count: 2,
            bake_secs: 3,
        }),
        waves: vec![wave(Amount::Count(3), 4), wave(Amount::Percent(50), 0)],
        bake_secs: 5,
        max_in_flight: Some(6),
        max_unavailable: Some(7),
        on_unhealthy: OnUnhealthy::Stop,
        emergency: Some(Emergency {
            who: "jane".into(),
            why: "CVE".into(),
        }),
        ..RolloutPolicy::default()
    };
    assert_eq!(policy, expected);

    let held = text.replacen("  bake: 5", "  bake: 5\n  hold: wait", 1);
    let said = snapshot_of(&held).unwrap_err().to_string();
    assert!(
        said.contains("rollout: payload.hold: a hold also stops an emergency"),
        "{said}"
    );
    let held = held.replacen("  emergency: {who: jane, why: CVE}\n", "", 1);
    let snapshot = snapshot_of(&held).unwrap();
    let policy: RolloutPolicy = asset(&snapshot, POLICY).payload().unwrap();
    assert_eq!(policy.hold.as_deref(), Some("wait"));
}

#[test]
fn cluster_under_turndown_has_no_share_and_carries_the_turndown() {
    let text = Manifest::DEFAULT.replacen(
        "  us:\n",
        "  us:\n    turndown: {reason: moved, approved_by: jane}\n",
        1,
    );
    let snapshot = snapshot_of(&text).unwrap();
    let global: GlobalBalancer = asset(&snapshot, "global").payload().unwrap();
    assert_eq!(global.shares.len(), 1);
    for id in ["job/us", "balancer/us"] {
        let turndown: addons::Turndown = asset(&snapshot, id).addon().unwrap().unwrap();
        assert_eq!(turndown.approved_by, "jane");
    }
}

#[test]
fn every_problem_is_found_with_its_place() {
    for (from, to, says) in [
        (
            "balancer_capacity: 16",
            "balancer_capacity: 17",
            "job/eu: payload: is meant to have 16 requests/job/eu",
        ),
        (
            "replicas: 2",
            "replicas: 0",
            "manifest.yaml#0:29:5: job/eu: payload.replicas: 0 tasks",
        ),
        ("schema: 1", "schema: 99", "there is no schema version 99"),
        (
            "  us:",
            "  global:",
            "clusters.global: `global` is the name of the global balancer's cell",
        ),
        ("  us:", "  US:", "clusters.US: a cluster's name"),
        (
            "version: \"1\"",
            "version: 1",
            "manifest.yaml#0:6:10: version: invalid type: integer `1`, expected a string",
        ),
        (
            "rollout:",
            "policies: {slow: {update: edits}}\nrollout:",
            "policies.slow.update: the clusters are updated as the section `rollout` says",
        ),
        (
            "owner:",
            "onwer:",
            "manifest.yaml#0:5:1: onwer: unknown field",
        ),
    ] {
        let problems = snapshot_of(&Manifest::DEFAULT.replacen(from, to, 1)).unwrap_err();
        let said = problems.to_string();
        assert!(said.contains(says), "{said}");
    }
}
