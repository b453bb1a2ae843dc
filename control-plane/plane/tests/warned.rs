//! A warning, alone in its process: `tracing` remembers for all threads who listened when it was first come by.

#![allow(clippy::unwrap_used, reason = "a test: stop where it is wrong")]

use std::{
    io,
    sync::{Arc, Mutex},
};

use control_plane::prelude::*;
use tracing_subscriber::fmt::MakeWriter;

#[allow(dead_code, reason = "shared with `it`, which needs all of it")]
#[path = "it/world.rs"]
mod world;

use world::{Production, Text, plane};

/// What was logged.
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
async fn nobody_is_warned_of_a_type_that_is_not_theirs() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).finish();
    tracing::subscriber::with_default(subscriber, || {
        let parts = plane(&Production::default()).source(Text::new("services: {}"));
        parts.store(MemoryStore::new()).build().unwrap();
    });
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warned = |type_name| said.contains(&format!("{type_name:?}"));
    assert!(warned("world.v1.Service"), "{said}");
    assert!(!warned("prodspec.v1.RolloutPolicy"), "{said}");
}
