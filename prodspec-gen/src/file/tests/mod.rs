//! Tests of files on a real disk. Each file has one topic; what several of them need to write and read is here.

mod delta;
mod one_state;
mod reading;
mod truncated;
mod watching;

use std::{
    fs,
    path::{Path, PathBuf},
};

use plugin_sdk::{Document, Problem, SourceOfTruth};

const MANIFEST: &str = "clusters:\n  eu: {replicas: 2, weight: 1.5}\n  us: {replicas: 30}\n---\nversion: 12\nnotes:\n- plain\n- \"quoted\"\n...\n";

async fn outcome(source: &impl SourceOfTruth) -> String {
    match source.read().await {
        Ok(reading) => format!("{} documents", reading.documents.len()),
        Err(problems) => problems.to_string(),
    }
}

fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The value of the field `a` of a document.
fn a(document: &Document) -> Result<String, Problem> {
    let read = document.read::<serde_json::Value>();
    read.map(|it| it["a"].to_string())
}
