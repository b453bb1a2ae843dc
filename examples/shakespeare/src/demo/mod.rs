//! A scripted session with the whole service, in a directory of its own: the control plane is a child process, so that
//! it can be killed; a client hammers the global balancer throughout; a seed decides order, victims and moments.
//!
//! It is judged from outside: by the client's log, the process table, the cells' journals, what cells and database
//! answer. What the control plane *says* is looked at only where saying is the promise: that an orphan is listed, that
//! a guard speaks.

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
    voice::{say, say_all},
};

/// All of it ends within this long.
const WHOLE: Duration = Duration::from_secs(350);
/// Three, so that "cluster by cluster" is more than "the canary first".
const CLUSTERS: [&str; 3] = ["eu", "in", "us"];
/// So much of the control plane's log is shown when something is broken.
const TAIL: usize = 40;

/// How to play it.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Decides the order of steps, the victims, and the moments of kills.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only these steps, with the beginning, the end and whatever belongs to them. For whoever works on one.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,
}

/// Plays it, shows a table, and cleans up however it ended. Fails if a step did not hold.
///
/// # Errors
/// When there is nowhere to play it.
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
            () = signalled() => Some("told to stop".into()),
            () = tokio::time::sleep(WHOLE) => Some(format!("not over within {WHOLE:?}")),
        };
        if ended.is_some() {
            // Takes the control plane along.
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
        "the control plane said last, with seed {seed}:"
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

/// What the control plane says about a step that did not hold: for whoever has to mend it, not for the verdict.
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

/// What the session begins with.
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
        // A task that needs no time would hide whoever does not wait for it.
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
