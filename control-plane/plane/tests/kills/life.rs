//! One process that runs the control plane, from its start to its end.

use std::{os::unix::process::ExitStatusExt, path::Path, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    DIR, LONG, TEST,
    child::{LIFE, SAYS, Said},
    laws::Laws,
};

/// See the module.
pub(crate) struct Life {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    started: Instant,
}

impl Life {
    /// The test starts itself.
    pub(crate) fn start(dir: &Path, no: u64) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .env(DIR, dir)
            .env(LIFE, no.to_string())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let out = process.stdout.take().unwrap();
        Self {
            process,
            lines: BufReader::new(out).lines(),
            started: Instant::now(),
        }
    }

    /// What it says next. `None`: nothing any more.
    async fn next(&mut self) -> Option<Said> {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            // The test harness speaks too, and the last line may be cut off in the middle.
            let said = line.strip_prefix(SAYS).map(serde_json::from_str);
            if let Some(Ok(said)) = said {
                return Some(said);
            }
        }
        None
    }

    /// Listens for so long, and says whether it lives.
    pub(crate) async fn follow(&mut self, time: Duration, laws: &mut Laws) -> bool {
        let moment = Instant::now() + time;
        while let Ok(said) = timeout_at(moment, self.next()).await {
            match said {
                Some(said) => laws.hear(said),
                None => return false,
            }
        }
        true
    }

    /// Listens for so long.
    pub(crate) async fn goes_on(&mut self, time: Duration, laws: &mut Laws) {
        assert!(self.follow(time, laws).await, "it ended by itself");
    }

    /// Listens until it enforces.
    pub(crate) async fn enforces(&mut self, laws: &mut Laws) {
        loop {
            let said = timeout(LONG, self.next()).await;
            let said = said.unwrap().unwrap_or_else(|| panic!("it did not start"));
            let enforces = matches!(said, Said::Stands(_));
            laws.hear(said);
            if enforces {
                return;
            }
        }
    }

    /// kill -9.
    pub(crate) async fn kill(mut self, laws: &mut Laws) {
        let moment = Instant::now();
        // It may have ended just now.
        let _ = self.process.start_kill();
        self.rest(laws).await;
        let status = self.process.wait().await.unwrap();
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(killed || status.success(), "it ended by itself: {status}");
        laws.killed(moment, self.started.elapsed());
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self, laws: &mut Laws) {
        laws.asked_to_stop();
        let pid = self.process.id().and_then(|id| Pid::from_raw(id as i32));
        kill_process(pid.unwrap(), Signal::TERM).unwrap();
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(mut self, laws: &mut Laws) {
        self.terminate(laws);
        timeout(LONG, self.rest(laws)).await.unwrap();
        let status = self.process.wait().await.unwrap();
        assert_eq!(status.code(), Some(0), "{status}");
        laws.ended(self.started.elapsed());
    }

    async fn rest(&mut self, laws: &mut Laws) {
        while let Some(said) = self.next().await {
            laws.hear(said);
        }
    }
}
