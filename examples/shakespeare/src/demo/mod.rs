//! A scripted session with the whole service, in a directory of its own. The control plane is a child process, so that
//! it can be killed. A client sends requests to the global balancer all the time. A seed determines the order of the
//! steps, the killed processes and the times of kills.
//!
//! The session is judged from outside: by the client's log, the process table, the cells' journals, and the answers of
//! cells and database. Reports of the control plane itself are evidence only where the report is the tested feature,
//! for instance that an orphan is listed, or that a guard refuses a seal.

mod broken;
mod dice;
mod evidence;
mod excuses;
mod eyes;
mod pressure;
mod rollouts;
mod session;
mod steps;
mod table;
mod town;

use std::{fs, process::ExitCode, time::Duration};

use testbed::voice::{say, say_all};
use tokio::{task::LocalSet, time::Instant};

use self::{
    broken::{Broken, Held},
    dice::Dice,
    session::Session,
    steps::Step,
    table::Table,
    town::Town,
};
use crate::{
    command::{Failure, run::signalled},
    model::{Canary, Cluster, Global, Manifest, Rollout},
};

/// Maximum time for the whole session.
const WHOLE: Duration = Duration::from_secs(350);
/// The clusters. There are three, so that a rollout has further stages after the canary.
const CLUSTERS: [&str; 3] = ["eu", "in", "us"];
/// Number of lines of the control plane's output that are shown when a step fails.
const TAIL: usize = 40;

/// Command line options of the demo.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Seed for the order of the steps, the killed processes and the times of kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play only these steps, with the steps that belong to them, the beginning and the end.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
}

/// Plays the session, prints a table and removes all processes, however the session ends. The exit code is a failure if
/// a step failed.
///
/// # Errors
/// When the temporary directory cannot be created.
pub async fn run(Options { seed, only }: Options) -> Result<ExitCode, Failure> {
    let dir = tempfile::Builder::new().prefix("shakespeare-").tempdir()?;
    let (table, town) = (Table::default(), Town::new(&dir));
    let (state, log) = (town.place.dir().to_owned(), town.log());
    let mut dice = Dice::new(seed);
    let steps = Step::in_some_order(&mut dice, &only);
    let expected = steps.len();
    say(format_args!("seed {seed}, in {}", dir.path().display()));
    say("");
    let mut manifest = manifest();
    dice.shuffle(&mut manifest.rollout.domains);
    let session = Session::new(town, dice, manifest);
    let local = LocalSet::new();
    let mut playing = local.spawn_local(play(session, steps, table.clone()));
    let watching = async {
        let ended = tokio::select! {
            ended = &mut playing => ended.err().map(|panic| panic.to_string()),
            () = signalled() => Some("stopped by a signal".into()),
            () = tokio::time::sleep(WHOLE) => Some(format!("not finished within {WHOLE:?}")),
        };
        if ended.is_some() {
            // This also drops the control plane's process, which kills it.
            playing.abort();
            let _ = playing.await;
        }
        ended
    };
    let ended = local.run_until(watching).await;
    town::sweep(&state).await;
    if let Some(why) = ended {
        table.add("the demo itself", Err(Broken(why)), WHOLE);
    }
    let good = table.show(expected);
    if good {
        return Ok(ExitCode::SUCCESS);
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    say("");
    say(format_args!(
        "last output of the control plane, with seed {seed}:"
    ));
    say_all(&lines[lines.len().saturating_sub(TAIL)..]);
    Ok(ExitCode::FAILURE)
}

async fn play(mut session: Session, steps: Vec<Step>, table: Table) {
    for step in steps {
        let began = Instant::now();
        let held = step.play(&mut session).await;
        let stop = held.is_err();
        if stop {
            explain(&session).await;
        }
        table.add(step.title(), held, began.elapsed());
        if stop {
            return;
        }
    }
}

/// Prints the state of the control plane after a failed step. It helps to find the defect and is not part of the
/// verdict.
async fn explain(session: &Session) {
    let questions = [
        &["status"][..],
        &["rollout", "status", "--once"],
        &["explain"],
    ];
    for question in questions {
        if let Ok(said) = session.town.command(question).await {
            say_all(said.lines());
        }
    }
}

/// Returns the manifest at the beginning of the session.
fn manifest() -> Manifest {
    let cluster = Cluster {
        replicas: 2,
        capacity_per_task: 8,
        balancer_capacity: 16,
        version: None,
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
        global: Global { max_capacity: 48 },
        clusters: CLUSTERS
            .map(|name| (name.to_owned(), cluster.clone()))
            .into(),
    }
}
