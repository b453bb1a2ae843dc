//! The steps about rollouts that edit the manifest, one module per kind. The clusters are updated by edits from the first
//! of them to the last one. They are judged by the journals of the cells, the manifest's text and the client.

pub(super) mod beside;
pub(super) mod joined;
pub(super) mod train;

use std::fs;

use control_plane::{model::rollout::Update, prelude::YamlFile};
use testbed::{
    judge::{
        Held, Intent,
        broken::{broken, ensure, until},
        evidence::{self, Mark},
    },
    manifest::source,
};

use super::{BAD, Session};
use crate::model::{Canary, Manifest, POLICY, Rollout, SOURCE};

/// The policy of flags, which bakes longer than that of versions.
const FLAGS: &str = "flags";
/// The bake of a flag's canary, in seconds. A version goes out and back meanwhile.
const FLAG_BAKES: u64 = 8;
/// Maximum pause before a kill while changes are under way, in milliseconds.
const MIDDLE: usize = 4000;

/// Lets the clusters be updated by edits, each with a version of its own in the manifest. No asset changes by that.
async fn by_edits(session: &mut Session) -> Held {
    let version = session.wanted().version;
    let usual = session.manifest.rollout.clone();
    let flags = Rollout {
        canary: Some(Canary {
            count: 1,
            bake: FLAG_BAKES,
        }),
        ..usual
    };
    session.edit(|manifest| {
        manifest.rollout.update = Update::Edits;
        manifest.policies = [(FLAGS.to_owned(), flags)].into();
        for cluster in manifest.clusters.values_mut() {
            cluster.version = Some(version.clone());
        }
    })?;
    updated_by(session, "edits").await
}

/// Lets the clusters be updated by pins again, with one version for all of them. No asset changes by that.
async fn by_pins(session: &mut Session, version: &str) -> Held {
    session.edit(|manifest| {
        manifest.rollout.update = Update::Pins;
        manifest.policies.clear();
        manifest.train = None;
        manifest.version = version.to_owned();
        for cluster in manifest.clusters.values_mut() {
            cluster.version = None;
        }
    })?;
    updated_by(session, "pins").await
}

async fn updated_by(session: &Session, way: &str) -> Held {
    until("the clusters are updated in this way", async || {
        let status = session.town.status().await?;
        let groups = status["rollouts"].as_array().cloned().unwrap_or_default();
        let group = groups.iter().find(|view| view["policy"] == POLICY);
        ensure(group.is_some_and(|view| view["update"] == way), || {
            format!("{groups:?}")
        })
    })
    .await
}

/// Begins a change of each cluster's job.
async fn begin(session: &Session, name: &str, policy: &str, set: &str) -> Held {
    let words = ["rollout", "begin", name, "--policy", policy];
    let rest = ["--set", set, "--on", "job/", "--why", "a test"];
    session.town.command(&[&words[..], &rest].concat()).await?;
    Ok(())
}

/// Begins a change of each cluster's flag, and waits until the manifest has it in this cluster.
async fn flag_in(session: &Session, name: &str, flag: u32, cluster: &str) -> Held {
    let policy = format!("policy/{FLAGS}");
    begin(session, name, &policy, &format!("work_ms={flag}")).await?;
    until("the flag is in the first cluster", async || {
        let there = now(session)?
            .clusters
            .get(cluster)
            .and_then(|it| it.work_ms);
        ensure(there == Some(flag), || format!("it is {there:?}"))
    })
    .await
}

/// Returns one or two moments at which the control plane is killed.
fn moments(session: &mut Session) -> Vec<u64> {
    let kills = 1 + session.dice.below(2);
    let moments = (0..kills).map(|_| session.dice.below(MIDDLE) as u64);
    moments.collect()
}

/// Edits the text of a cluster in the manifest, as a person with an editor. The control plane makes no edit at this time.
fn by_hand(session: &Session, cluster: &str, from: &str, to: &str) -> Held {
    let text = text(session)?;
    let section = format!("\n  {cluster}:\n");
    let Some((before, after)) = text.split_once(&section) else {
        return broken(format_args!("{cluster} is not in {text}"));
    };
    let edited = after.replacen(from, to, 1);
    ensure(edited != after, || format!("{from:?} is not in {after}"))?;
    session.town.save(&format!("{before}{section}{edited}"))
}

fn text(session: &Session) -> Held<String> {
    Ok(fs::read_to_string(session.town.place.manifest())?)
}

/// Reads the manifest as it is now, with the edits of the control plane.
fn now(session: &Session) -> Held<Manifest> {
    let file = source(YamlFile::new(SOURCE));
    let reading = file.parse(text(session)?.as_bytes()).or_else(broken)?;
    match reading.documents.first() {
        Some(document) => document.read().or_else(broken),
        None => broken("the manifest is empty"),
    }
}

/// Expects that the manifest has exactly this text.
fn says(session: &Session, wanted: &str) -> Held {
    let text = text(session)?;
    ensure(text == wanted, || {
        format!("the manifest is {text}, expected {wanted}")
    })
}

/// A version and the flags of a cluster's tasks.
type Task = (String, Vec<String>);

/// Returns the tasks that each change of a cluster's job since `mark` has set, in order of time.
fn tasks(session: &Session, mark: &Mark, cluster: &str) -> Held<Vec<(u64, Task)>> {
    let asked = evidence::asked(&session.town.place, mark)?.into_iter();
    let of_job =
        asked.filter(|line| line.cell == cluster && line.resource == evidence::job_resource());
    of_job
        .map(|line| {
            let version = serde_json::from_value(line.to["version"].clone())?;
            let flags = serde_json::from_value(line.to["flags"].clone())?;
            Ok((line.at_micros, (version, flags)))
        })
        .collect()
}

/// Returns the task that the manifest asks for in a cluster.
fn task(manifest: &Manifest, cluster: &str) -> Held<Task> {
    let wanted = manifest.wanted();
    match wanted.clusters.get(cluster) {
        Some(cluster) => Ok((cluster.job.version.clone(), cluster.job.flags.clone())),
        None => broken(format_args!("there is no cluster {cluster}")),
    }
}
