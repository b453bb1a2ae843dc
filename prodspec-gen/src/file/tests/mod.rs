//! Tests of files on a real disk. Each file has one topic; what several of them need to write and read is here.

mod delta;
mod histories;
mod one_state;
mod reading;
#[cfg(target_os = "linux")]
mod told;
mod truncated;
mod watching;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use plugin_sdk::{Document, Problem, Problems, SourceOfTruth, Update};
use prodspec_model::Revision;

use super::{directory::Folder, settings::Settings};
use crate::format::Yaml;

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

/// The time of a reading long after every change, so that the state of each file tells its content.
fn later() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33)
}

/// The time of a reading just after every change.
fn at_once() -> SystemTime {
    SystemTime::UNIX_EPOCH
}

/// Reads a directory of YAML files.
fn read(
    settings: &Settings,
    now: SystemTime,
    known: Option<&Revision>,
) -> Result<Update, Problems> {
    let shape = Folder::<Yaml>::from(settings.clone());
    settings.read_now(&shape, now, known)
}

/// The number of files that were opened so far.
fn opened(settings: &Settings) -> u64 {
    settings.cache.lock().unwrap().opened
}
