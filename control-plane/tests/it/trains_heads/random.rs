//! Trains of heads at random: versions good and bad, holds and takeovers.

use std::{collections::BTreeMap, time::Duration};

use control_plane::strategist::train::Command;

use super::{MANIFEST, Train};
use crate::rollouts::passes;

/// The manifests of a random run.
struct Written {
    /// The incarnation from which on a service has a size, by service and size.
    since: BTreeMap<(&'static str, u64), u32>,
    /// The sizes in the manifest.
    sizes: [u64; 4],
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Written {
    async fn write(&mut self, train: &Train, sizes: [u64; 4]) {
        let mut text = MANIFEST.to_owned();
        for (name, size) in NAMES.iter().zip(sizes) {
            text = text.replace(
                &format!("{name}: {{size: 1"),
                &format!("{name}: {{size: {size}"),
            );
        }
        train.edit(&text).await;
        let no = train.running.handle.latest().await.unwrap().no().0;
        for (name, size) in NAMES.into_iter().zip(sizes) {
            self.since.entry((name, size)).or_insert(no);
        }
        self.sizes = sizes;
    }

    /// No service has a size that was not ripe in the stage before.
    async fn judge(&self, train: &Train) {
        let (record, sizes) = (train.view().await.record, train.sizes());
        for (at, before) in [(1, "canary"), (2, "eu"), (3, "eu")] {
            let size = sizes[at] / 10;
            let since = self.since[&(NAMES[at], size)];
            let ripe = record.versions.iter().any(|it| {
                let facts = it.stages.get(before);
                let is_ripe = facts.is_some_and(|it| it.ripe.is_some());
                is_ripe && it.head().is_some_and(|it| it.no.0 >= since)
            });
            assert!(
                ripe || size == 1,
                "{} of size {size} was not ripe in {before}: {record:?}",
                NAMES[at]
            );
        }
    }
}

/// Versions good and bad, holds and takeovers at random moments.
async fn random_run(seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut train = Train::new().await;
    let since = NAMES.map(|name| ((name, 1), 1)).into();
    let mut written = Written {
        since,
        sizes: [1; 4],
    };
    let mut size = 3;
    for _ in 0..40 {
        match draw(10) {
            0..=3 if size < 19 => {
                size += 1;
                let mut sizes = [size; 4];
                for (size, before) in sizes.iter_mut().zip(written.sizes) {
                    match draw(6) {
                        0 => *size = 3,
                        1 => *size = before,
                        _ => {}
                    }
                }
                written.write(&train, sizes).await;
            }
            4 => train = train.restart().await,
            5 => {
                let stage = ["canary", "eu", "us"][draw(3) as usize].to_owned();
                train.tell(Command::HoldStage(stage)).await.unwrap();
            }
            6 | 7 => {
                let stage = ["canary", "eu", "us"][draw(3) as usize].to_owned();
                let _ = train.tell(Command::ReleaseStage(stage)).await;
            }
            _ => {}
        }
        for _ in 0..=draw(20) {
            passes(Duration::from_secs(10)).await;
            written.judge(&train).await;
        }
    }
    for stage in ["canary", "eu", "us"] {
        let _ = train.tell(Command::ReleaseStage(stage.to_owned())).await;
    }
    written.write(&train, [20; 4]).await;
    train.settles("the last incarnation is ripe").await;
    assert_eq!(
        train.sizes(),
        [200; 4],
        "seed {seed}: {:?}",
        train.view().await
    );
    train.running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r104_random_runs_let_nothing_in_early_and_end_well() {
    for seed in 1..=3 {
        random_run(seed).await;
    }
}
