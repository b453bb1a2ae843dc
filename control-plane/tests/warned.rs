//! A warning in the log. This test has a process of its own, because `tracing` caches for all threads whether a log
//! line has a subscriber.

#![allow(clippy::unwrap_used, reason = "a test: a failure is a panic")]

use std::{
    io,
    sync::{Arc, Mutex},
};

use control_plane::prelude::*;
use tracing_subscriber::fmt::MakeWriter;

#[allow(dead_code, reason = "shared with `it`, which uses all of it")]
#[path = "it/world.rs"]
mod world;

use world::{Production, Text, plane};

/// A writer that collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_missing_validator_is_logged_for_types_of_the_user_only() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let parts = plane(&Production::default()).source(Text::new("services: {}"));
        parts.store(MemoryStore::new()).build().unwrap();
    });
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warned = |type_name: &str| said.contains(&format!("{type_name:?}"));
    assert!(warned("world.v1.Service"), "{said}");
    let own = [
        "RolloutPolicy",
        "CronOperation",
        "WatchOperation",
        "Operation",
    ];
    for own in own.map(|own| format!("prodspec.v1.{own}")) {
        assert!(!warned(&own), "{said}");
    }
}
