//! A control plane in a process of its own, on SQLite, is killed 200 times at random moments, with orderly stops
//! between.
//!
//! 500 assets are enforced by an advisory plugin: its provider does not fence. So a push of a killed process may
//! continue or stop half-way, and its outcome is unknown. The test plays production and the operator who edits the
//! manifest. It starts its own binary again as the process that it kills. The invariants are in `laws.rs`.
//!
//! `KILLS_SEED=7 cargo test -p control-plane --test kills` draws another run, `KILLS=20` a shorter one. The seed
//! decides about edits, the course of pushes, and the times of kills. How far a process has come by then depends on the
//! machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod child;
mod draw;
mod intent;
mod laws;
mod life;
mod production;
mod remembered;

use std::{env, path::Path, time::Duration};

use tokio::time::Instant;

use crate::{
    draw::Draw, intent::Intent, laws::Laws, life::Life, production::Production,
    remembered::Remembered,
};

/// Environment variable that makes the test run as the process to be killed: the directory of the test.
const DIR: &str = "KILLS_DIR";
/// Name of the test below.
const TEST: &str = "r13_after_200_kills_production_is_as_intended_and_no_push_unknown";

const ASSETS: u64 = 500;
const KILLS: u64 = 200;
/// Deadline of a push, and so the longest wait for a push of unknown outcome.
const DEADLINE: Duration = Duration::from_secs(2);
/// Longer than any single step of the test takes.
const LONG: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r13_after_200_kills_production_is_as_intended_and_no_push_unknown() {
    if let Some(dir) = env::var_os(DIR) {
        return child::live(Path::new(&dir)).await;
    }
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("KILLS_SEED").unwrap_or(1);
    let kills = number("KILLS").unwrap_or(KILLS);
    println!("KILLS_SEED={seed} KILLS={kills}");
    let dir = tempfile::tempdir().unwrap();
    let mut run = TestRun::new(dir.path(), seed);
    while run.laws.kills < kills {
        run.run_one_process().await;
    }
    run.end().await;
    println!("{}", run.laws);
}

/// The test's side: everything outside the process that is killed.
struct TestRun<'a> {
    dir: &'a Path,
    draw: Draw,
    production: Production,
    intent: Intent,
    laws: Laws,
}

impl<'a> TestRun<'a> {
    fn new(dir: &'a Path, seed: u64) -> Self {
        let production = Production::serve(dir, seed);
        Self {
            dir,
            draw: Draw(seed),
            intent: Intent::new(dir, &production),
            laws: Laws::new(production.clone()),
            production,
        }
    }

    /// Runs one process from its start to a kill or to an orderly stop.
    async fn run_one_process(&mut self) {
        let ends = self.draw.below(48);
        if ends < 6 {
            // So that the process is stopped with pushes under way.
            self.intent.edit(&mut self.draw, &self.production);
        }
        let mut life = Life::start(self.dir, self.laws.lives());
        if ends >= 42 {
            // Kill it while it starts.
            life.goes_on(self.draw.ms(0..150), &mut self.laws).await;
            return life.kill(&mut self.laws).await;
        }
        life.enforces(&mut self.laws).await;
        life.goes_on(self.draw.ms(0..100), &mut self.laws).await;
        self.manual_changes();
        life.goes_on(self.draw.ms(0..250), &mut self.laws).await;
        match ends {
            0..4 => drop(self.stop(life).await),
            4..6 => {
                life.terminate(&mut self.laws);
                life.follow(self.draw.ms(0..100), &mut self.laws).await;
                life.kill(&mut self.laws).await;
            }
            _ => life.kill(&mut self.laws).await,
        }
    }

    /// Simulates operators, who edit the manifest, and change production by hand.
    fn manual_changes(&mut self) {
        if self.draw.one_in(2) {
            self.intent.edit(&mut self.draw, &self.production);
        }
        if self.draw.one_in(3) {
            self.production.by_hand(&mut self.draw);
        }
    }

    /// Stops the process in an orderly way, and checks the state that it leaves.
    async fn stop(&mut self, life: Life) -> Remembered {
        life.stop(&mut self.laws).await;
        let remembered = Remembered::at_rest(self.dir).await;
        self.laws.stopped(&remembered);
        remembered
    }

    /// Runs the last process until everything is as intended, and checks the final state.
    async fn end(&mut self) {
        let mut life = Life::start(self.dir, self.laws.lives());
        life.enforces(&mut self.laws).await;
        let too_late = Instant::now() + LONG;
        while !self.laws.is_settled(&self.intent) {
            let unsettled = || self.laws.unsettled(&self.intent);
            assert!(Instant::now() < too_late, "{}", unsettled());
            life.goes_on(Duration::from_millis(50), &mut self.laws)
                .await;
        }
        let left = self.stop(life).await;
        let in_force = remembered::in_force(self.dir).await;
        self.laws.at_the_end(&left, &in_force, &self.intent);
    }
}
