//! Plays the steps of a demo one after the other, and cleans up however they end. The control plane is a child process,
//! so that steps can kill it.

use std::{fs, future::Future, path::Path, time::Duration};

use tokio::{task::LocalSet, time::Instant};

use super::{
    broken::{Broken, Held},
    dice::Dice,
    session::Session,
    table::Table,
    town::{Town, sweep},
    wanted::Intent,
};
use crate::{
    program::signalled,
    voice::{say, say_all},
};

/// Number of lines of the control plane's output that are shown when a step fails.
const TAIL: usize = 40;

/// A step of a demo.
pub trait Step<I>: Copy + 'static {
    /// Returns the title of the step in the table, at most 29 characters.
    fn title(self) -> &'static str;

    /// Plays the step. Returns the evidence as text, or the failed expectation.
    fn play(self, session: &mut Session<I>) -> impl Future<Output = Held<String>>;
}

/// Plays `steps` in the directory `dir`, from the first manifest on. Prints a table and kills all processes, however the
/// session ends. Returns true if all steps held; false also if a signal or the end of the time `within` stopped the session.
pub async fn run<I: Intent, S: Step<I>>(
    dir: &Path,
    dice: Dice,
    manifest: I,
    steps: Vec<S>,
    within: Duration,
) -> bool {
    let (table, town) = (Table::default(), Town::new(dir));
    let (state, log) = (town.place.dir().to_owned(), town.log());
    let expected = steps.len();
    let session = Session::new(town, dice, manifest);
    let local = LocalSet::new();
    let mut playing = local.spawn_local(play(session, steps, table.clone()));
    let watching = async {
        let ended = tokio::select! {
            ended = &mut playing => ended.err().map(|panic| panic.to_string()),
            () = signalled() => Some("stopped by a signal".into()),
            () = tokio::time::sleep(within) => Some(format!("not finished within {within:?}")),
        };
        if ended.is_some() {
            // This also drops the control plane's process, which kills it.
            playing.abort();
            let _ = playing.await;
        }
        ended
    };
    let ended = local.run_until(watching).await;
    sweep(&state).await;
    if let Some(why) = ended {
        table.add("the demo itself", Err(Broken(why)), within);
    }
    if table.show(expected) {
        return true;
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    say("");
    say("last output of the control plane:");
    say_all(&lines[lines.len().saturating_sub(TAIL)..]);
    false
}

async fn play<I: Intent, S: Step<I>>(mut session: Session<I>, steps: Vec<S>, table: Table) {
    for step in steps {
        let began = Instant::now();
        let held = step.play(&mut session).await;
        let stop = held.is_err();
        if stop {
            explain(&session.town).await;
        }
        table.add(step.title(), held, began.elapsed());
        if stop {
            return;
        }
    }
}

/// Prints the state of the control plane after a failed step. It helps to find the defect and is not part of the
/// verdict.
async fn explain(town: &Town) {
    let questions = [
        &["status"][..],
        &["rollout", "status", "--once"],
        &["explain"],
    ];
    for question in questions {
        if let Ok(said) = town.command(question).await {
            say_all(said.lines());
        }
    }
}
