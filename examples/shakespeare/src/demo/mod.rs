//! A scripted session with the whole service, in a directory of its own. A client sends requests to the global balancer
//! all the time. A seed determines the order of the steps, the killed processes and the times of kills. The testbed
//! plays the session and judges it from outside; this module is its story.

mod edits;
mod intent;
mod steps;
mod workflows;

use std::{collections::BTreeMap, process::ExitCode, time::Duration};

use testbed::{
    judge::{self, Dice, play},
    program::Failure,
    voice::say,
};

use self::{
    steps::{Part, Step},
    workflows::{noticed::notices, slots::schedules},
};
use crate::model::{Canary, Cluster, Global, Manifest, Rollout};

/// Maximum time for one part of the session.
const PART: Duration = Duration::from_secs(300);

/// The session of this demo, which edits the manifest of the service.
type Session = judge::Session<Manifest>;

/// The defective version.
const BAD: &str = "3";

/// The clusters. There are three, so that a rollout has further stages after the canary.
const CLUSTERS: [&str; 3] = ["eu", "in", "us"];

/// Command line options of the demo.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Seed for the order of the steps, the killed processes and the times of kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play only this part. Default: all parts, in one session.
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Play only these steps, with the steps that belong to them, the beginning and the end.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
}

/// Plays the session, prints a table and removes all processes, however the session ends. The exit code is a failure if
/// a step failed.
///
/// # Errors
/// When the temporary directory cannot be created.
pub async fn run(Options { seed, part, only }: Options) -> Result<ExitCode, Failure> {
    let dir = tempfile::Builder::new().prefix("shakespeare-").tempdir()?;
    let mut dice = Dice::new(seed);
    let steps = Step::in_some_order(&mut dice, part, &only);
    say(format_args!("seed {seed}, in {}", dir.path().display()));
    say("");
    let mut manifest = manifest();
    dice.shuffle(&mut manifest.rollout.domains);
    if steps.contains(&Step::OnTime) {
        manifest.schedules = schedules();
    }
    manifest.notices = steps.contains(&Step::Noticed).then(notices);
    let within = part.map_or(3 * PART, |_| PART);
    if play::run(dir.path(), dice, manifest, steps, within).await {
        return Ok(ExitCode::SUCCESS);
    }
    say(format_args!("this was the session of seed {seed}"));
    Ok(ExitCode::FAILURE)
}

/// Returns the manifest at the beginning of the session.
fn manifest() -> Manifest {
    let cluster = Cluster {
        replicas: 2,
        capacity_per_task: 8,
        balancer_capacity: 16,
        version: None,
        work_ms: Some(2),
        peak: None,
        turndown: None,
    };
    Manifest {
        owner: "shakespeare-sre".into(),
        version: "1".into(),
        schema: 1,
        // With a start time of zero, a missing wait for starting tasks would go unnoticed.
        flags: vec!["--warm-up-ms=300".into()],
        rollout: Rollout {
            domains: CLUSTERS.map(str::to_owned).into(),
            canary: Some(Canary { count: 1, bake: 3 }),
            bake: 1,
            ..Rollout::default()
        },
        policies: BTreeMap::new(),
        train: None,
        global: Global { max_capacity: 48 },
        index: None,
        checks: BTreeMap::new(),
        schedules: BTreeMap::new(),
        notices: None,
        clusters: CLUSTERS
            .map(|name| (name.to_owned(), cluster.clone()))
            .into(),
    }
}
