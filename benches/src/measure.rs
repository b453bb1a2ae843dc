//! What is measured, and how: processor time, memory and latencies of this process.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::Error;

/// The figures of one phase. Fields that do not apply are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Which part of the scenario; `all` when there is one only.
    pub(crate) phase: String,
    /// Units of work.
    pub(crate) n: u64,
    /// Time taken; virtual time where the scenario runs in it.
    pub(crate) secs: f64,
    /// Processor time, of all threads.
    pub(crate) cpu_s: f64,
    /// Processor nanoseconds per unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ns_each: Option<f64>,
    /// Bytes per unit, beyond the assets' own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_each: Option<f64>,
    /// Calls of the plugin to compare, per unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diffs_each: Option<f64>,
    /// The most memory the process has had, in MiB.
    pub(crate) peak_rss_mb: f64,
    /// Median latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_us: Option<f64>,
    /// The latency that one in a hundred exceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99_us: Option<f64>,
}

impl Sample {
    /// What runs are ordered by to find the middle one.
    pub(crate) fn cost(&self) -> f64 {
        self.p50_us.or(self.ns_each).unwrap_or(self.cpu_s)
    }

    /// With `bytes` of memory or output for all units.
    pub(crate) fn bytes(mut self, bytes: u64) -> Self {
        self.bytes_each = Some(bytes as f64 / self.n.max(1) as f64);
        self
    }

    /// With latencies, one per unit.
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

    /// In virtual time: the phase stands for `secs`, whatever it took.
    pub(crate) fn lasting(mut self, virtual_time: Duration) -> Self {
        self.secs = virtual_time.as_secs_f64();
        self
    }
}

/// A phase under way.
#[derive(Debug)]
pub(crate) struct Meter {
    wall: Instant,
    cpu: Duration,
    resident: u64,
}

impl Meter {
    /// Starts a phase.
    pub(crate) fn start() -> Result<Self, Error> {
        Ok(Self {
            resident: status("VmRSS:")?,
            wall: now(),
            cpu: cpu(),
        })
    }

    /// Ends it after `n` units of work.
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

    /// By how many bytes the process has grown since the start.
    pub(crate) fn grown(&self) -> Result<u64, Error> {
        Ok(status("VmRSS:")?.saturating_sub(self.resident))
    }
}

/// The machine's clock.
#[allow(clippy::disallowed_methods, reason = "real time is what is measured")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Processor time of all threads of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (secs, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(secs) + Duration::from_nanos(nanos)
}

/// A line of `/proc/self/status`, in bytes.
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
