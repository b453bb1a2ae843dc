//! Manifests that are cut off, have duplicate keys, are too long, too deep, expand too much or have wrong types, on a
//! real disk and with the real runtime. Each gives one clear error in bounded time, and the last good incarnation stays
//! in force.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use control_plane_runtime::TokioRuntime;
use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Located, Problems};
use prodspec_gen::{
    Handle, Pipeline, Regeneration, YamlFile, format::Limits, seal::InMemory, validators,
};
use prodspec_model::{Asset, AssetId, Message, PartitionId};
use serde::{Deserialize, Serialize};

const GOOD: &str = "clusters:\n  eu:\n    replicas: 2\n  us:\n    replicas: 3\n...\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    clusters: BTreeMap<String, Located<Job>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    replicas: u32,
}

impl Message for Job {
    const TYPE: &'static str = "hostile.v1.Job";
}

struct Jobs;

impl Generator for Jobs {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("jobs")
            .reads("manifest.yaml")
            .makes::<Job>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let manifest: Manifest = document.read()?;
            for (cluster, job) in manifest.clusters {
                let id = AssetId::new(&format!("job/{cluster}"))?;
                let from = document.provenance_at(&*job.path);
                out.asset(Asset::builder(id).payload(&job.value)?, from)?;
            }
        }
        Ok(())
    }
}

fn start(path: &Path) -> Handle {
    let limits = Limits {
        bytes: 1 << 20,
        ..Limits::default()
    };
    let manifest = YamlFile::watch(path).with_end_marker().limits(limits);
    let pipeline = Pipeline::builder(PartitionId::new("hostile").unwrap())
        .source(manifest)
        .generator(Jobs)
        .validators(validators::standard())
        .asset_type(AssetType::<Job>::new())
        .build()
        .unwrap();
    let seals = Arc::new(InMemory::new());
    let (regeneration, handle) = Regeneration::new(TokioRuntime::current(), pipeline, seals);
    tokio::spawn(regeneration.run());
    handle
}

fn alias_bomb() -> String {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..40 {
        let aliases = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    bomb + "...\n"
}

/// The name of a hostile manifest, its text, and the expected message.
type Hostile = (&'static str, String, &'static str);

/// Manifests that are cut off, have duplicate keys or have wrong types.
fn broken() -> Vec<Hostile> {
    vec![
        (
            "truncated in a line",
            GOOD[..30].into(),
            "manifest.yaml:3:1: the file may be cut off",
        ),
        (
            "truncated after a line",
            GOOD[..30].rsplit_once('\n').unwrap().0.to_owned() + "\n",
            "the file may be cut off",
        ),
        (
            "empty",
            String::new(),
            "manifest.yaml:1:1: the file may be cut off",
        ),
        (
            "duplicate key",
            GOOD.replace("us:", "eu:"),
            "manifest.yaml:4:3: the key `eu` appears twice in one map, first in line 2",
        ),
        (
            "over-long integer",
            GOOD.replace('3', &"3".repeat(30)),
            "manifest.yaml:5:15: the integer 333333333333333333333333333333 does not fit 64 bits",
        ),
        (
            "wrongly typed",
            GOOD.replace('3', "three"),
            r#"manifest.yaml#0:5:15: clusters.us.replicas: invalid type: string "three", expected u32 (says jobs)"#,
        ),
        (
            "not a number",
            GOOD.replace('3', ".nan"),
            "manifest.yaml:5:15: .nan is not a finite number",
        ),
        (
            "out of range",
            GOOD.replace('3', "1e999"),
            "manifest.yaml:5:15: 1e999 is not a finite 64-bit number",
        ),
        (
            "unknown field",
            GOOD.replace("us:", "us:\n    extra: 1"),
            "manifest.yaml#0:5:5: clusters.us.extra: unknown field `extra`",
        ),
        (
            "hostile id",
            GOOD.replace("us:", "../us:"),
            "manifest.yaml#0:1:1: `job/../us` is not a valid asset id",
        ),
    ]
}

/// Manifests that are too long, too deep or expand too much.
fn oversized() -> Vec<Hostile> {
    vec![
        (
            "over-long",
            format!("#{}\n{GOOD}", "x".repeat(1 << 20)),
            "1048576 are allowed",
        ),
        (
            "deeply nested",
            format!("{}\n...\n", "[".repeat(200_000)),
            "nested deeper than 64 levels",
        ),
        (
            "alias bomb",
            alias_bomb(),
            "expand to more than 16777216 bytes",
        ),
    ]
}

#[tokio::test]
async fn r3_hostile_manifest_is_one_clear_error_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("manifest.yaml");
    std::fs::write(&path, GOOD).unwrap();
    let handle = start(&path);
    assert!(handle.next_run().await.is_good());
    for (name, text, says) in broken().into_iter().chain(oversized()) {
        std::fs::write(&path, text).unwrap();
        let status = tokio::time::timeout(Duration::from_secs(20), handle.next_run()).await;
        let status = status.expect(name);
        let said = status.problems.to_string();
        assert_eq!(status.problems.len(), 1, "{name}: {said}");
        assert!(said.contains(says), "{name}: {said}");
        assert_eq!(status.incarnation.unwrap().id.no.0, 1, "{name}");
    }
    std::fs::write(&path, GOOD.replace('3', "4")).unwrap();
    let status = handle.next_run().await;
    assert!(status.is_good(), "{}", status.problems);
    assert_eq!(status.incarnation.unwrap().id.no.0, 2);
}

#[tokio::test]
async fn saved_file_becomes_an_incarnation_without_a_request() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("manifest.yaml");
    std::fs::write(&path, GOOD).unwrap();
    let handle = start(&path);
    let mut status = handle.watch();
    let sealed = |no: u32| {
        move |status: &prodspec_gen::Status| {
            status
                .incarnation
                .as_ref()
                .is_some_and(|header| header.id.no.0 == no)
        }
    };
    status.wait_for(sealed(1)).await.unwrap();
    let other = dir.path().join("manifest.yaml~");
    std::fs::write(&other, GOOD.replace('2', "5")).unwrap();
    std::fs::rename(&other, &path).unwrap();
    status.wait_for(sealed(2)).await.unwrap();
}
