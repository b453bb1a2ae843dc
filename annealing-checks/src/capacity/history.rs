//! The usage of each part of a scope, in steps of 5 min. Pure: the caller reads and passes the time.

use std::{collections::BTreeMap, time::Duration};

use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{MetricReading, Windows};

use super::Excluded;

/// Length of a step.
pub(super) const STEP: Duration = Duration::from_secs(300);
/// Minimum number of steps with a value: 95% of a day.
const FEWEST: usize = 274;
/// Maximum age of the newest step with a value.
const OLDEST: SignedDuration = SignedDuration::from_mins(15);
/// Maximum number of series.
const MOST: usize = 1_000;

/// The steps that were read.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The values of each part, by the end of their step. The empty name: of all parts.
    series: BTreeMap<String, BTreeMap<Timestamp, f64>>,
    /// The end of the last step that was read.
    last: Option<Timestamp>,
}

/// The largest step, and its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peak {
    pub(super) usage: f64,
    pub(super) at: Timestamp,
}

impl History {
    /// The steps that are to be read: as far back as `back`, and not read yet. `None`: all were.
    pub(super) fn missing(&self, now: Timestamp, back: Duration) -> Option<Windows> {
        let newest = Windows::closed(STEP, Windows::SETTLE, now);
        let most = u32::try_from(back.as_secs() / STEP.as_secs()).unwrap_or(u32::MAX);
        let behind = self.last.map(|last| newest.last.duration_since(last));
        let count = match behind.map(|it| it.as_secs() / STEP.as_secs() as i64) {
            // The clock was ahead: these steps have been read.
            Some(..=0) => return None,
            Some(steps) => u32::try_from(steps).unwrap_or(most).min(most),
            None => most,
        };
        Some(newest.many(count))
    }

    /// Takes in the answer about `windows`. `label`: the name of the label that is the name of a part.
    ///
    /// # Errors
    /// The reason why the answer is of no use.
    pub(super) fn take(
        &mut self,
        windows: Windows,
        reading: &MetricReading,
        label: Option<&str>,
    ) -> Result<(), String> {
        let mut seen: BTreeMap<&str, &plugin_sdk::Series> = BTreeMap::new();
        for series in &reading.series {
            let part = label.and_then(|it| series.labels.get(it));
            let part = part.map_or("", String::as_str);
            if seen.insert(part, series).is_some() {
                return Err(format!(
                    "two series of usage for {part:?}: aggregate them to one"
                ));
            }
        }
        if seen.len() > MOST {
            return Err(format!(
                "{} series of usage, and at most {MOST} are read",
                seen.len()
            ));
        }
        for (part, series) in seen {
            let steps = self.series.entry(part.to_owned()).or_default();
            let counts = |(end, value): &&(Timestamp, f64)| windows.has(*end) && value.is_finite();
            steps.extend(series.samples.iter().filter(counts).copied());
        }
        // The rest is read again from a source that is behind.
        let known = Windows::closed(STEP, Duration::ZERO, reading.as_of).last;
        self.last = self.last.max(Some(known.min(windows.last)));
        Ok(())
    }

    /// Forgets the steps that are further back than `back`.
    pub(super) fn forget(&mut self, now: Timestamp, back: Duration) {
        let back = SignedDuration::try_from(back).unwrap_or(SignedDuration::MAX);
        let oldest = now.saturating_sub(back).unwrap_or(Timestamp::MIN);
        for steps in self.series.values_mut() {
            *steps = steps.split_off(&oldest);
        }
        self.series.retain(|_, steps| !steps.is_empty());
    }

    /// The largest step of a part that is not excluded.
    ///
    /// # Errors
    /// The reason why it is not known.
    pub(super) fn peak(
        &self,
        part: &str,
        now: Timestamp,
        excluded: &[Excluded],
    ) -> Result<Peak, String> {
        let none = || "there is no usage data: repair the monitoring".to_owned();
        let steps = self.series.get(part).ok_or_else(none)?;
        let (newest, _) = steps.last_key_value().ok_or_else(none)?;
        if now.duration_since(*newest).abs() > OLDEST {
            return Err(format!(
                "the newest usage data is from {newest}: repair the monitoring"
            ));
        }
        if steps.len() < FEWEST {
            let hours = steps.len() as f64 * STEP.as_secs_f64() / 3600.0;
            return Err(format!(
                "there are only {hours:.1} h of usage data, and 24 h are needed"
            ));
        }
        let is_out = |at: Timestamp| excluded.iter().any(|it| it.from < at && at <= it.until);
        let counted = steps.iter().filter(|(at, _)| !is_out(**at));
        let largest = counted.max_by(|one, other| one.1.total_cmp(other.1));
        let peak = |(at, usage): (&Timestamp, &f64)| Peak {
            usage: *usage,
            at: *at,
        };
        largest
            .map(peak)
            .ok_or_else(|| "all usage data is excluded".to_owned())
    }
}
