//! An operation edits the manifest: replicas and balancer capacity of a cluster at once. It is done when production has
//! both, and a person who edits the same field meanwhile is right.

use std::fs;

use serde_json::json;
use testbed::{
    judge::{
        Held, Intent,
        broken::{broken, ensure, until},
        evidence, observe,
    },
    production::GLOBAL_CELL,
};

use super::{Session, moments};
use crate::model::Manifest;

/// A comment that a person wrote beside the fields that the operation edits.
const COMMENT: &str = "  # measured in May";
/// The step of an operation that makes its edits.
const EDIT: &str = "edit-sources";

/// An operation on one cluster, and the manifest that it makes.
struct Resize {
    cluster: String,
    percent: u32,
    after: Manifest,
}

impl Resize {
    /// Halves a cluster if it has an even number of tasks, else doubles it.
    fn of_some_cluster(session: &mut Session) -> Held<Self> {
        let cluster = session.some_cluster()?;
        let mut after = session.manifest.clone();
        let Some(sizes) = after.clusters.get_mut(&cluster) else {
            return broken(format_args!("there is no cluster {cluster}"));
        };
        let percent = if sizes.replicas % 2 == 0 { 50 } else { 200 };
        sizes.replicas = sizes.replicas * percent / 100;
        sizes.balancer_capacity = sizes.balancer_capacity * percent / 100;
        Ok(Self {
            cluster,
            percent,
            after,
        })
    }

    /// Starts it under this key, and returns the id of its execution.
    async fn start(&self, session: &Session, key: &str) -> Held<String> {
        let may = |field: &str| {
            let under = format!("clusters.*.{field}");
            json!({ "edit": { "source": "manifest.yaml", "under": under } })
        };
        let input = json!({ "cluster": self.cluster, "percent": self.percent });
        let operation = json!({
            "pipeline": [
                { "name": "resize", "function": "resize", "input": input },
                { "name": "fit", "function": "fit" },
            ],
            "may": [may("replicas"), may("balancer_capacity")],
            // Its job, its balancer, and the share of the global balancer.
            "blast_radius": 3,
            "settle_secs": 60,
        });
        let operation = operation.to_string();
        let start = ["resize", "--key", key, "--operation", &operation];
        session.town.starts(&start).await
    }
}

/// Returns the text of a manifest with comments in the section of a cluster.
fn commented(manifest: &Manifest, cluster: &str) -> String {
    let text = manifest.text();
    let section = format!("\n  {cluster}:\n");
    let Some((before, after)) = text.split_once(&section) else {
        return text;
    };
    let (sizes, rest) = after
        .split_once("    capacity_per_task")
        .unwrap_or((after, ""));
    let sizes = sizes.replace('\n', &format!("{COMMENT}\n"));
    format!(
        "{before}{section}    # Ask ann before you change this.\n{sizes}    capacity_per_task{rest}"
    )
}

/// Resizes a cluster by an operation: one edit, comments kept, and production has it when the operation has ended.
pub(in crate::demo) async fn resized(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let (resize, kills) = (Resize::of_some_cluster(session)?, moments(session));
    let Resize {
        cluster, percent, ..
    } = &resize;
    session.town.save(&commented(&session.manifest, cluster))?;
    session.town.accepts().await?;
    let mark = evidence::mark(&place)?;
    let id = resize.start(session, "resized").await?;
    session.crash(&kills).await?;
    session.town.ends(&id, "succeeded").await?;
    session.manifest = resize.after.clone();
    observe::production_is(&place, &session.wanted()).await?;
    let (text, wanted) = (
        fs::read_to_string(place.manifest())?,
        commented(&session.manifest, cluster),
    );
    ensure(text == wanted, || {
        format!("the manifest is {text}, expected {wanted}")
    })?;
    let expected = [
        (cluster.clone(), evidence::job_resource()),
        (cluster.clone(), "balancer".to_owned()),
        (GLOBAL_CELL.to_owned(), "balancer".to_owned()),
    ];
    evidence::asked_once_each(&place, &mark, &expected)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{cluster} to {percent}%, killed {kills:?} ms in; one edit, comments kept (manifest); in production when it ended (journals)"
    ))
}

/// A person edits the field that an operation has edited, before production has it: the person's value stays.
pub(in crate::demo) async fn hands_off(session: &mut Session) -> Held<String> {
    let place = session.town.place.clone();
    let (resize, kills) = (Resize::of_some_cluster(session)?, moments(session));
    let pause = ["pause", "--why", "ann looks at it first"];
    session.town.command(&pause).await?;
    let id = resize.start(session, "hands-off").await?;
    session.town.machine_waits(&id, EDIT, 1, "settled").await?;
    session.edit(|manifest| {
        *manifest = resize.after.clone();
        if let Some(sizes) = manifest.clusters.get_mut(&resize.cluster) {
            sizes.replicas += 1;
        }
    })?;
    session.crash(&kills).await?;
    let states = session.town.ends(&id, "failed").await?;
    ensure(states[EDIT] == "overwritten", || {
        format!("the states are {states}")
    })?;
    until("the pause is over", async || {
        session.town.command(&["resume"]).await.map(|_| ())
    })
    .await?;
    session.arrives().await?;
    session.town.rests().await?;
    let text = fs::read_to_string(place.manifest())?;
    ensure(text == session.manifest.text(), || {
        format!("the manifest is {text}")
    })?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{}: a person wrote another number, killed {kills:?} ms later; the operation ended as overwritten, the number stays (manifest)",
        resize.cluster
    ))
}
