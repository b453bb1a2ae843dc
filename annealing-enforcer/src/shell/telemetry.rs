//! What a dashboard wants to know of a partition. Binaries install an exporter; without one this costs nothing.

use metrics::{Counter, Gauge, counter, gauge};
use prodspec_model::PartitionId;

use crate::kernel::{Event, Kernel};

/// The figures of one partition. No asset ids: they would be a label for each of a million.
pub(super) struct Telemetry {
    /// `annealing_unsettled`: assets with an intent that production does not match.
    unsettled: Gauge,
    /// `annealing_incarnation`: the newest incarnation known.
    incarnation: Gauge,
    /// `annealing_calls_total{call, outcome}`: pushes that ended well, pushes that failed, diffs and checks that did.
    pushed: Counter,
    push_failed: Counter,
    diff_failed: Counter,
    check_failed: Counter,
}

impl Telemetry {
    pub(super) fn new(partition: &PartitionId) -> Self {
        let partition = || partition.to_string();
        let calls = |call: &'static str, outcome: &'static str| counter!("annealing_calls_total", "partition" => partition(), "call" => call, "outcome" => outcome);
        Self {
            unsettled: gauge!("annealing_unsettled", "partition" => partition()),
            incarnation: gauge!("annealing_incarnation", "partition" => partition()),
            pushed: calls("push", "ok"),
            push_failed: calls("push", "failed"),
            diff_failed: calls("diff", "failed"),
            check_failed: calls("check", "failed"),
        }
    }

    /// A call has ended.
    pub(super) fn ended(&self, event: &Event) {
        match event {
            Event::PushDone { answer: Ok(_), .. } => self.pushed.increment(1),
            Event::PushDone { .. } => self.push_failed.increment(1),
            Event::DiffDone { answer: Err(_), .. } => self.diff_failed.increment(1),
            Event::CheckDone { answer: Err(_), .. } => self.check_failed.increment(1),
            _ => {}
        }
    }

    /// Some asset settled, or stopped being settled.
    pub(super) fn settled(&self, kernel: &Kernel) {
        self.unsettled.set(f64::from(kernel.unsettled()));
        self.incarnation.set(f64::from(kernel.latest().no().0));
    }
}
