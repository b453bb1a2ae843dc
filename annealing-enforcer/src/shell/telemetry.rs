//! The metrics and log lines of a partition. Binaries install an exporter and a subscriber; without them, this costs
//! nothing. `docs/operate.md` explains every log line and every metric of all crates, and says what to do.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `annealing_unsettled` | gauge | `partition` | assets with an intent that production does not match |
//! | `annealing_incarnation` | gauge | `partition` | the newest incarnation known |
//! | `annealing_calls_total` | counter | `partition`, `call`, `outcome` | pushes that succeeded or failed; diffs and checks that failed |
//!
//! | log line | level | when |
//! |---|---|---|
//! | `the push ended` | INFO | a push ended, with all its follow-ups |
//! | `the push is delayed` | INFO | checks or an operator hold a push, for another reason than before |
//! | `a push failed` | WARN | the first failure of a class since the asset was in sync or pushed |
//! | `an asset does not converge` | WARN | its pushes succeed, and the third one in a row had no effect |
//! | `something else changes an asset again` | WARN | five repairs of drift in a row |
//! | `a circuit breaker opened` | WARN | the calls of so many assets fail that the plugin is only probed |
//! | `a circuit breaker closed` | INFO | a probe succeeded |

use metrics::{Counter, Gauge, counter, gauge};
use prodspec_model::PartitionId;

use crate::kernel::{Event, Kernel, Notice};

/// The metrics of one partition. They have no asset ids as labels: a partition may have a million.
pub(super) struct Telemetry {
    partition: PartitionId,
    /// `annealing_unsettled`: assets with an intent that production does not match.
    unsettled: Gauge,
    /// `annealing_incarnation`: the newest incarnation known.
    incarnation: Gauge,
    /// `annealing_calls_total{call, outcome}`: successful and failed pushes, failed diffs and checks.
    pushed: Counter,
    push_failed: Counter,
    diff_failed: Counter,
    check_failed: Counter,
}

impl Telemetry {
    pub(super) fn new(partition: &PartitionId) -> Self {
        let name = || partition.to_string();
        let calls = |call: &'static str, outcome: &'static str| counter!("annealing_calls_total", "partition" => name(), "call" => call, "outcome" => outcome);
        Self {
            partition: partition.clone(),
            unsettled: gauge!("annealing_unsettled", "partition" => name()),
            incarnation: gauge!("annealing_incarnation", "partition" => name()),
            pushed: calls("push", "ok"),
            push_failed: calls("push", "failed"),
            diff_failed: calls("diff", "failed"),
            check_failed: calls("check", "failed"),
        }
    }

    /// Counts the end of a call.
    pub(super) fn ended(&self, event: &Event) {
        match event {
            Event::PushDone { answer: Ok(_), .. } => self.pushed.increment(1),
            Event::PushDone { .. } => self.push_failed.increment(1),
            Event::DiffDone { answer: Err(_), .. } => self.diff_failed.increment(1),
            Event::DiffsDone(all) => {
                let failed = all.iter().filter(|(_, answer)| answer.is_err());
                self.diff_failed.increment(failed.count() as u64);
            }
            Event::CheckDone { answer: Err(_), .. } => self.check_failed.increment(1),
            _ => {}
        }
    }

    /// Writes a log line for a notice of the kernel.
    pub(super) fn tell(&self, notice: Notice) {
        let partition = &self.partition;
        match notice {
            Notice::PushEnded {
                asset,
                incarnation,
                outcome,
                took,
            } => {
                tracing::info!(%partition, %asset, %incarnation, outcome, ?took, "the push ended");
            }
            Notice::Delayed { asset, why } => {
                tracing::info!(%partition, %asset, why, "the push is delayed");
            }
            Notice::PushFailed { asset, class, why } => {
                tracing::warn!(%partition, %asset, class, why, "a push failed; retrying as its failure class says");
            }
            Notice::NotConverging { asset, why } => {
                tracing::warn!(%partition, %asset, why, "an asset does not converge; it is pushed once per drift period until its diff finds it in sync");
            }
            Notice::Contested { asset, repairs } => {
                tracing::warn!(%partition, %asset, repairs, "something else changes an asset again each time that it was repaired; look for another control plane, program or person that works on it");
            }
            Notice::BreakerOpened { type_name, call } => {
                tracing::warn!(%partition, %type_name, call, "a circuit breaker opened: calls fail for most assets; the plugin is only probed");
            }
            Notice::BreakerClosed { type_name, call } => {
                tracing::info!(%partition, %type_name, call, "a circuit breaker closed: the plugin answers again");
            }
        }
    }

    /// Updates the gauges after an asset settled or stopped being settled.
    pub(super) fn settled(&self, kernel: &Kernel) {
        self.unsettled.set(f64::from(kernel.unsettled()));
        self.incarnation.set(f64::from(kernel.latest().no().0));
    }
}
