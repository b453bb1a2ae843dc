//! Measures processor time, memory and latencies of this process.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The figures of one phase. JSON leaves out fields that do not apply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Name of the phase; `all` if the scenario has only one.
    pub(crate) phase: String,
    /// Number of units of work.
    pub(crate) n: u64,
    /// Duration in seconds of wall time; of virtual time where the scenario uses it.
    pub(crate) secs: f64,
    /// Processor time of all threads, in seconds.
    pub(crate) cpu_s: f64,
    /// Processor time per unit of work, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_each: Option<f64>,
    /// Bytes per unit of work, beside the assets themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_each: Option<f64>,
    /// Number of diffs per unit of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diffs_each: Option<f64>,
    /// Number of commits of the store per unit of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) commits_each: Option<f64>,
    /// Peak of the process's resident memory, in MiB.
    pub(crate) peak_rss_mb: f64,
    /// Median of the latencies, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<f64>,
    /// Latency at the 99th percentile, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<f64>,
}

impl Sample {
    /// The figure by which runs are ordered to find the median run.
    pub(crate) fn cost(&self) -> f64 {
        self.p50_us.or(self.ns_each).unwrap_or(self.cpu_s)
    }

    /// Adds `bytes` of memory or output, in total for all units.
    pub(crate) fn bytes(mut self, bytes: u64) -> Self {
        self.bytes_each = Some(bytes as f64 / self.n.max(1) as f64);
        self
    }

    /// Adds the median and the 99th percentile of `each`, one latency per unit.
    pub(crate) fn latencies(mut self, mut each: Vec<Duration>) -> Self {
        each.sort();
        let at = |part: f64| {
            let index = (each.len() as f64 * part) as usize;
            each.get(index.min(each.len().saturating_sub(1)))
                .map(|latency| latency.as_secs_f64() * 1e6)
        };
        (self.p50_us, self.p99_us) = (at(0.5), at(0.99));
        self
    }

    /// Replaces the duration by `virtual_time`, for a phase that runs in virtual time.
    pub(crate) fn lasting(mut self, virtual_time: Duration) -> Self {
        self.secs = virtual_time.as_secs_f64();
        self
    }
}

/// Measures one phase, from its start to its end.
#[derive(Debug)]
pub(crate) struct Meter {
    wall: Instant,
    cpu: Duration,
    resident: u64,
}

impl Meter {
    /// Starts the measurement of a phase.
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(Self {
            resident: status("VmRSS:")?,
            wall: now(),
            cpu: cpu(),
        })
    }

    /// Ends the phase after `n` units of work and returns its figures.
    pub(crate) fn stop(&self, phase: &str, n: usize) -> Result<Sample, Error> {
        let (cpu, wall) = (cpu() - self.cpu, self.wall.elapsed());
        Ok(Sample {
            phase: phase.into(),
            n: n as u64,
            secs: wall.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            ns_each: Some(cpu.as_nanos() as f64 / n.max(1) as f64),
            peak_rss_mb: status("VmHWM:")? as f64 / f64::from(1 << 20),
            ..Sample::default()
        })
    }

    /// Wall time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }

    /// Growth of the process's resident memory since the start, in bytes; 0 if it shrank.
    pub(crate) fn grown(&self) -> Result<u64, Error> {
        Ok(status("VmRSS:")?.saturating_sub(self.resident))
    }
}

/// Reads the machine's monotonic clock.
#[allow(clippy::disallowed_methods, reason = "the program measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Processor time of all threads of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (secs, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(secs) + Duration::from_nanos(nanos)
}

/// Reads a line of `/proc/self/status`, converted from kB to bytes.
fn status(field: &str) -> Result<u64, Error> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib: u64 = line
        .unwrap_or_default()
        .trim()
        .trim_end_matches(" kB")
        .parse()?;
    Ok(kib * 1024)
}
