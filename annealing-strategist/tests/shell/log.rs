//! R63: changes of a rollout are logged once.

use std::{
    io,
    sync::{Arc, Mutex},
};

use annealing_strategist::Command;

use crate::world::{HOUR, P, World, by, id, passes, two_groups};

/// The text that was logged.
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

impl Log {
    /// Starts to log what this thread does. Drop the guard to end it.
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// Returns the lines that were logged since the last call.
    fn lines(&self) -> Vec<String> {
        let text = std::mem::take(&mut *self.0.lock().unwrap());
        let text = String::from_utf8(text).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn r63_pause_stop_and_rollback_are_logged_once_each() {
    // With a single subscriber, a log line that another test's thread reaches first would be off for all threads.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let log = Log::default();
    let _logging = log.start();
    let world = World::new(two_groups("1")).await;
    world.put(two_groups("2")).await;
    log.lines();
    for (command, level, text) in [
        (Command::Pause, "INFO", "changed its state"),
        (Command::Abort, "WARN", "the rollout stopped; retry it"),
        (Command::RollBack, "WARN", "the rollout is rolling back"),
    ] {
        let told = world.handle.tell(&id(P), command, by()).await;
        told.unwrap();
        let lines = log.lines();
        let says = |line: &&String| line.contains(level) && line.contains(text);
        assert_eq!(
            lines.iter().filter(says).count(),
            1,
            "{command:?}: {lines:?}"
        );
        let about = lines
            .iter()
            .all(|line| line.contains(P) && line.contains("rollout=2"));
        assert!(about, "{lines:?}");
        if command != Command::RollBack {
            assert_eq!(lines.len(), 1, "{lines:?}");
            passes(3 * HOUR).await;
            assert_eq!(log.lines(), [""; 0], "{command:?} is logged again");
        }
    }
    passes(3 * HOUR).await;
    assert_eq!(world.state(P).await.word(), "rolled back");
}
