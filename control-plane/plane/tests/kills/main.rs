//! A control plane in a process of its own, on SQLite, killed 200 times at drawn moments, with orderly stops among them.
//!
//! 500 assets are enforced by an advisory plugin: its provider does not fence, so a push that a killed process left
//! behind may go on, half done, and its outcome is unknown. The test is production and the person who edits the manifest;
//! it starts itself again as the process that it kills. What it judges is in `laws.rs`.
//!
//! `KILLS_SEED=7 cargo test -p control-plane --test kills` draws another run, `KILLS=20` a shorter one. A seed decides
//! what is edited, pushed how, and killed when; what a process has come to by then is for the machine to say.
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

/// Tells a process that it is the one to be killed, and where its world is.
const DIR: &str = "KILLS_DIR";
/// The test below.
const TEST: &str = "r13_after_200_kills_production_is_as_intended_and_no_push_unknown";

const ASSETS: u64 = 500;
const KILLS: u64 = 200;
/// The deadline of a push, and so the longest wait for one of unknown outcome.
const DEADLINE: Duration = Duration::from_secs(2);
/// Longer than anything takes that happens at all.
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
    let mut story = Story::new(dir.path(), seed);
    while story.laws.kills < kills {
        story.one_life().await;
    }
    story.end().await;
    println!("{}", story.laws);
}

/// Everything outside of the process that is killed.
struct Story<'a> {
    dir: &'a Path,
    draw: Draw,
    production: Production,
    intent: Intent,
    laws: Laws,
}

impl<'a> Story<'a> {
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

    /// From a start to a kill, or to an orderly stop.
    async fn one_life(&mut self) {
        let ends = self.draw.below(48);
        if ends < 6 {
            // So that it is stopped with pushes under way.
            self.intent.edit(&mut self.draw, &self.production);
        }
        let mut life = Life::start(self.dir, self.laws.lives());
        if ends >= 42 {
            // While it starts.
            life.goes_on(self.draw.ms(0..150), &mut self.laws).await;
            return life.kill(&mut self.laws).await;
        }
        life.enforces(&mut self.laws).await;
        life.goes_on(self.draw.ms(0..100), &mut self.laws).await;
        self.people();
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

    /// What people do meanwhile: edit the manifest, and production by hand.
    fn people(&mut self) {
        if self.draw.one_in(2) {
            self.intent.edit(&mut self.draw, &self.production);
        }
        if self.draw.one_in(3) {
            self.production.by_hand(&mut self.draw);
        }
    }

    /// An orderly stop.
    async fn stop(&mut self, life: Life) -> Remembered {
        life.stop(&mut self.laws).await;
        let remembered = Remembered::at_rest(self.dir).await;
        self.laws.stopped(&remembered);
        remembered
    }

    /// The last life, which is left alone until everything is as intended.
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
