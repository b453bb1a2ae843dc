//! The metrics of the workflows of one partition, and the log lines about what waits for the word of a person. Binaries
//! install an exporter and a subscriber; without them, this costs nothing.
//!
//! | metric | kind | labels | meaning |
//! |---|---|---|---|
//! | `annealing_executions_live` | gauge | `partition` | executions that are live |
//! | `annealing_executions_ended_total` | counter | `partition`, `outcome` | executions that have ended |
//! | `annealing_executions_parked_total` | counter | `partition` | steps and executions that began to wait for the word of a person |

use metrics::{Counter, Gauge, counter, gauge};
use plugin_sdk::operation::ExecutionId;
use prodspec_model::PartitionId;

use crate::{
    definition::Outcome,
    kernel::Record,
    record::{Entry, What},
};

/// The metrics of one partition. They have no workflows as labels: operations may have any name.
pub(super) struct Telemetry {
    partition: PartitionId,
    live: Gauge,
    parked: Counter,
    succeeded: Counter,
    failed: Counter,
    cancelled: Counter,
    stuck: Counter,
}

impl Telemetry {
    pub(super) fn new(partition: &PartitionId) -> Self {
        let name = || partition.to_string();
        let ended = |outcome: &'static str| counter!("annealing_executions_ended_total", "partition" => name(), "outcome" => outcome);
        Self {
            partition: partition.clone(),
            live: gauge!("annealing_executions_live", "partition" => name()),
            parked: counter!("annealing_executions_parked_total", "partition" => name()),
            succeeded: ended("succeeded"),
            failed: ended("failed"),
            cancelled: ended("cancelled"),
            stuck: ended("stuck"),
        }
    }

    /// Counts what a commit with these records says, after which so many executions are live.
    pub(super) fn wrote(&self, records: &[Record], live: usize) {
        self.live.set(live as f64);
        for record in records {
            match record {
                Record::Log(execution, _, log) => {
                    log.0.iter().for_each(|entry| self.tell(execution, entry))
                }
                Record::Ended(ended) => match ended.outcome {
                    Outcome::Succeeded => self.succeeded.increment(1),
                    Outcome::Failed => self.failed.increment(1),
                    Outcome::Cancelled | Outcome::Terminated => self.cancelled.increment(1),
                    Outcome::Stuck { .. } => self.stuck.increment(1),
                },
                _ => {}
            }
        }
    }

    /// Warns of a step that is parked, and of an execution that is paused at its maximum number of transitions.
    fn tell(&self, execution: &ExecutionId, entry: &Entry) {
        let What::Parked(why) = &entry.what else {
            return;
        };
        self.parked.increment(1);
        let partition = &self.partition;
        match &entry.machine {
            Some(machine) => {
                tracing::warn!(%partition, %execution, %machine, why, "a step is parked; a person has to say what happened");
            }
            None => {
                tracing::warn!(%partition, %execution, why, "an execution is paused; a person has to resume or cancel it");
            }
        }
    }
}

impl Drop for Telemetry {
    /// The partition has another owner now, or none.
    fn drop(&mut self) {
        self.live.set(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{
            Arc, Mutex,
            atomic::{AtomicU64, Ordering},
        },
    };

    use jiff::Timestamp;
    use metrics::{Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

    use super::*;
    use crate::record::LogRecord;

    /// Counts by the name of a metric and the values of its labels.
    #[derive(Default)]
    struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Counts {
        fn of(&self, key: &Key) -> Arc<AtomicU64> {
            let labels = key.labels().map(|label| format!(" {}", label.value()));
            let name = key.name().to_owned() + &labels.collect::<String>();
            self.0.lock().unwrap().entry(name).or_default().clone()
        }
    }

    impl Recorder for Counts {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.of(key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.of(key))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn r41_what_is_live_and_what_is_parked_are_metrics() {
        let counts = Counts::default();
        let telemetry =
            metrics::with_local_recorder(&counts, || Telemetry::new(&"test".parse().unwrap()));
        let entry = |machine: Option<&str>, what| Entry {
            at: Timestamp::UNIX_EPOCH,
            machine: machine.map(Into::into),
            what,
        };
        let entries = vec![
            entry(Some("send"), What::Parked("unknown".to_owned())),
            entry(None, What::Parked("50 transitions".to_owned())),
            entry(None, What::Note("nothing".to_owned())),
        ];
        let log = Record::Log(ExecutionId::new("w", 1), 0, LogRecord(entries));
        telemetry.wrote(&[log], 3);
        let count = |name: &str| counts.0.lock().unwrap()[name].load(Ordering::Relaxed);
        assert_eq!(count("annealing_executions_parked_total test"), 2);
        assert_eq!(count("annealing_executions_ended_total test failed"), 0);
        let live = || f64::from_bits(count("annealing_executions_live test"));
        assert_eq!(live(), 3.0);
        drop(telemetry);
        assert_eq!(live(), 0.0, "another process may own the partition");
    }
}
