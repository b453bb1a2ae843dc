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
    child::{LIFE, PREFIX, Report},
    laws::Laws,
};

/// A running control plane process, and its output.
pub(crate) struct Life {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    started: Instant,
    /// `true` once it was asked to stop: from then on it may end by itself.
    is_asked_to_stop: bool,
}

impl Life {
    /// Starts the test binary again as the process with number `no`.
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
            is_asked_to_stop: false,
        }
    }

    /// Returns the next report of the process; `None` after its end.
    async fn next(&mut self) -> Option<Report> {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            // The test harness prints too, and the kill may cut off the last line.
            let report = line.strip_prefix(PREFIX).map(serde_json::from_str);
            if let Some(Ok(report)) = report {
                return Some(report);
            }
        }
        None
    }

    /// Takes in reports for the given time. Returns whether the process is still running.
    pub(crate) async fn follow(&mut self, time: Duration, laws: &mut Laws) -> bool {
        let moment = Instant::now() + time;
        while let Ok(report) = timeout_at(moment, self.next()).await {
            match report {
                Some(report) => laws.take_in(report),
                None => return false,
            }
        }
        true
    }

    /// Takes in reports for the given time. The process must not end.
    pub(crate) async fn goes_on(&mut self, time: Duration, laws: &mut Laws) {
        assert!(self.follow(time, laws).await, "the process ended by itself");
    }

    /// Takes in reports until the process enforces.
    pub(crate) async fn enforces(&mut self, laws: &mut Laws) {
        loop {
            let report = timeout(LONG, self.next()).await;
            let report = report
                .unwrap()
                .unwrap_or_else(|| panic!("the process did not start"));
            let enforces = matches!(report, Report::Stands(_));
            laws.take_in(report);
            if enforces {
                return;
            }
        }
    }

    /// Kills the process with SIGKILL. Counts no kill if the process had ended before, after a SIGTERM.
    pub(crate) async fn kill(mut self, laws: &mut Laws) {
        let moment = Instant::now();
        // It may have ended just before.
        let _ = self.process.start_kill();
        self.rest(laws).await;
        let status = self.process.wait().await.unwrap();
        let killed = status.signal() == Some(Signal::KILL.as_raw());
        assert!(
            killed || (self.is_asked_to_stop && status.success()),
            "the process ended by itself: {status}"
        );
        match killed {
            true => laws.killed(moment, self.started.elapsed()),
            false => laws.ended(self.started.elapsed()),
        }
    }

    /// Asks the process to stop, with SIGTERM.
    pub(crate) fn terminate(&mut self, laws: &mut Laws) {
        self.is_asked_to_stop = true;
        laws.asked_to_stop();
        let pid = self.process.id().and_then(|id| Pid::from_raw(id as i32));
        kill_process(pid.unwrap(), Signal::TERM).unwrap();
    }

    /// Asks the process to stop, and waits for its end.
    pub(crate) async fn stop(mut self, laws: &mut Laws) {
        self.terminate(laws);
        timeout(LONG, self.rest(laws)).await.unwrap();
        let status = self.process.wait().await.unwrap();
        assert_eq!(status.code(), Some(0), "{status}");
        laws.ended(self.started.elapsed());
    }

    async fn rest(&mut self, laws: &mut Laws) {
        while let Some(report) = self.next().await {
            laws.take_in(report);
        }
    }
}
