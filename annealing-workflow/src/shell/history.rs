//! Which executions that have ended are kept.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use plugin_sdk::{
    operation::{ExecutionId, StartCause},
    workflow::WorkflowName,
};
use prodspec_model::{AssetId, Digest, operation};

use crate::{
    Config,
    definition::Outcome,
    record::{Ended, FeedPosition},
};

/// Time for which every execution is kept after its end, so that those who wait for the end find it.
const RECENT: Duration = Duration::from_secs(60);

/// What has to be known of an execution that has ended, to decide how long it is kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    pub(super) id: ExecutionId,
    pub(super) ended: Timestamp,
    pub(super) key: Option<Arc<str>>,
    definition: Digest,
    /// `None`: neither a success nor a failure.
    succeeded: Option<bool>,
    /// The asset of the schedule or the watch that started it. Its runs are counted apart, also from those of another asset
    /// whose runs have the same workflow name.
    trigger: Option<AssetId>,
    /// How many runs are kept of the schedule or the watch that started it.
    history: Option<operation::History>,
    /// The place in the feed that has its end, or one after it. `None`: all listeners have heard it, or there are none.
    told: Option<FeedPosition>,
}

impl Kept {
    pub(super) fn of(ended: &Ended, told: Option<FeedPosition>) -> Self {
        Self {
            id: ended.id.clone(),
            ended: ended.ended,
            key: ended.live.key.clone(),
            definition: ended.live.origin.definition,
            succeeded: match ended.outcome {
                Outcome::Succeeded => Some(true),
                Outcome::Cancelled | Outcome::Terminated => None,
                _ => Some(false),
            },
            trigger: match &ended.live.origin.cause {
                StartCause::Slot { schedule, .. } => Some(schedule.clone()),
                StartCause::Watch { watch, .. } => Some(watch.clone()),
                _ => None,
            },
            history: ended.live.origin.history,
            told,
        }
    }

    /// Whether all listeners have heard its end. `heard`: the last place that all have heard; `None`: there are no listeners.
    pub(super) fn is_heard(&self, heard: Option<&FeedPosition>) -> bool {
        let told = self.told.as_ref();
        told.is_none_or(|told| heard.is_none_or(|heard| told <= heard))
    }

    fn group(&self) -> Group {
        (self.id.workflow.clone(), self.trigger.clone())
    }
}

/// What is counted together: the executions of a workflow, or the runs of a schedule or a watch.
type Group = (WorkflowName, Option<AssetId>);

/// The executions that have ended and are kept, in memory.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The oldest end first.
    groups: BTreeMap<Group, BTreeMap<(Timestamp, ExecutionId), Kept>>,
    ends: BTreeMap<ExecutionId, (Timestamp, Group)>,
    /// Number of executions that keep to each definition.
    definitions: BTreeMap<Digest, usize>,
}

impl History {
    pub(super) fn add(&mut self, kept: Kept) {
        self.remove(&kept.id);
        *self.definitions.entry(kept.definition).or_default() += 1;
        let group = kept.group();
        self.ends
            .insert(kept.id.clone(), (kept.ended, group.clone()));
        let group = self.groups.entry(group).or_default();
        group.insert((kept.ended, kept.id.clone()), kept);
    }

    /// Whether this very end is among them.
    pub(super) fn is_kept(&self, kept: &Kept) -> bool {
        let group = self.groups.get(&kept.group());
        let end = group.and_then(|group| group.get(&(kept.ended, kept.id.clone())));
        end == Some(kept)
    }

    /// Whether an execution is among them.
    pub(super) fn has_ended(&self, id: &ExecutionId) -> bool {
        self.ends.contains_key(id)
    }

    /// Whether a kept execution has this definition.
    pub(super) fn has(&self, definition: &Digest) -> bool {
        self.definitions.contains_key(definition)
    }

    /// Removes an execution.
    pub(super) fn remove(&mut self, id: &ExecutionId) -> Option<Kept> {
        let (end, name) = self.ends.remove(id)?;
        let group = self.groups.get_mut(&name)?;
        let kept = group.remove(&(end, id.clone()))?;
        if group.is_empty() {
            self.groups.remove(&name);
        }
        let count = self.definitions.get_mut(&kept.definition)?;
        *count -= 1;
        if *count == 0 {
            self.definitions.remove(&kept.definition);
        }
        Some(kept)
    }

    /// The executions that are over a limit: more of their workflow have ended since than are kept, or they are too old.
    /// The newest success and the newest failure of each group are never among them, nor what has just ended.
    pub(super) fn over(&self, config: &Config, now: Timestamp) -> Vec<Kept> {
        let oldest = now.checked_sub(config.history_age);
        let oldest = oldest.unwrap_or(Timestamp::MIN);
        let recent = now.checked_sub(RECENT).unwrap_or(Timestamp::MIN);
        let mut over = Vec::new();
        for group in self.groups.values() {
            let newest = |succeeded: bool| {
                let mut ended = group.values().rev();
                ended.find(|kept| kept.succeeded == Some(succeeded))
            };
            let spared = [newest(true), newest(false)];
            let last = group.values().next_back();
            if let Some(history) = last.and_then(|last| last.history) {
                let surplus = surplus_runs(group.values().rev(), history, oldest);
                over.extend(
                    surplus
                        .filter(|kept| !spared.contains(&Some(*kept)))
                        .cloned(),
                );
                continue;
            }
            let surplus = group.len().saturating_sub(config.history);
            let ended = group.values().enumerate();
            let first = ended.take_while(|(n, kept)| *n < surplus || kept.ended < oldest);
            let gone = first.map(|(_, kept)| kept);
            over.extend(gone.filter(|kept| !spared.contains(&Some(*kept))).cloned());
        }
        over.retain(|kept| kept.ended < recent);
        over
    }
}

/// The runs of a schedule or a watch, the newest first, without those that are kept. Cancelled ones count as failed.
fn surplus_runs<'k>(
    newest_first: impl Iterator<Item = &'k Kept>,
    history: operation::History,
    oldest: Timestamp,
) -> impl Iterator<Item = &'k Kept> {
    let (mut succeeded, mut failed) = (history.succeeded, history.failed);
    newest_first.filter(move |kept| {
        let left = match kept.succeeded {
            Some(true) => &mut succeeded,
            _ => &mut failed,
        };
        let over = *left == 0 || kept.ended < oldest;
        *left = left.saturating_sub(1);
        over
    })
}

/// Time for which a key is kept after the history of its execution.
pub(super) const KEY: Duration = Duration::from_secs(30 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(n: u64, day: i64, succeeded: Option<bool>) -> Kept {
        Kept {
            id: ExecutionId::new("season", n),
            ended: Timestamp::from_second(day * 86_400).unwrap(),
            key: None,
            definition: Digest([n as u8 % 2; 32]),
            succeeded,
            trigger: None,
            history: None,
            told: None,
        }
    }

    fn over(all: impl IntoIterator<Item = Kept>, history: usize, today: i64) -> Vec<u64> {
        let mut kept = History::default();
        all.into_iter().for_each(|it| kept.add(it));
        let config = Config {
            history,
            ..Config::default()
        };
        let now = Timestamp::from_second(today * 86_400).unwrap();
        kept.over(&config, now).iter().map(|it| it.id.n).collect()
    }

    #[test]
    fn r41_history_has_a_number_and_an_age_and_keeps_the_newest_success_and_failure() {
        let days = || (1..=9).map(|n| kept(n, n as i64, Some(true)));
        assert_eq!(over(days(), 100, 9), [0_u64; 0]);
        assert_eq!(over(days(), 7, 9), [1, 2]);
        assert_eq!(over(days(), 100, 34), [1, 2, 3]);
        assert_eq!(over(days(), 100, 1000), [1, 2, 3, 4, 5, 6, 7, 8]);
        let mixed = [
            kept(1, 1, Some(false)),
            kept(2, 2, Some(true)),
            kept(3, 3, None),
            kept(4, 4, Some(false)),
            kept(5, 5, None),
        ];
        assert_eq!(over(mixed, 0, 6), [1, 3, 5]);
    }

    /// A caller that asks for the end a moment after it finds it, however many others have ended meanwhile.
    #[test]
    fn r41_what_has_just_ended_is_kept() {
        let all = (1..=9).map(|n| kept(n, if n < 3 { 1 } else { 2 }, Some(true)));
        assert_eq!(over(all, 1, 2), [1, 2]);
    }

    #[test]
    fn r41_definition_goes_with_the_last_execution_that_keeps_to_it() {
        let mut history = History::default();
        (1..=3).for_each(|n| history.add(kept(n, 1, None)));
        history.add(kept(3, 2, None));
        let season = |n| ExecutionId::new("season", n);
        let has = |history: &History| [0, 1].map(|n| history.has(&Digest([n; 32])));
        let mut seen = Vec::new();
        for n in 1..=3 {
            assert!(history.remove(&season(n)).is_some());
            seen.push(has(&history));
        }
        assert_eq!(seen, [[true, true], [false, true], [false, false]]);
        assert!(history.remove(&season(3)).is_none());
        assert!(history.groups.is_empty() && history.ends.is_empty());
    }

    #[test]
    fn r41_of_a_schedule_as_many_runs_are_kept_as_its_asset_says() {
        let (succeeded, failed) = (2, 1);
        let history = Some(operation::History { succeeded, failed });
        let run = |n, succeeded| Kept {
            history,
            ..kept(n, 10, succeeded)
        };
        let all = [
            run(1, Some(true)),
            run(2, Some(false)),
            run(3, Some(true)),
            run(4, Some(true)),
            run(5, Some(false)),
            run(6, None),
        ];
        // The cancelled one takes the place of the failed ones, but the newest failure stays.
        let mut gone = over(all, 100, 11);
        gone.sort_unstable();
        assert_eq!(gone, [1, 2]);
    }

    /// The runs of `cron/db/eu` and of `cron/db.eu` have the same workflow name.
    #[test]
    fn r41_runs_of_different_assets_are_counted_apart() {
        let (succeeded, failed) = (1, 1);
        let of = |n, asset: &str| Kept {
            trigger: Some(AssetId::new(asset).unwrap()),
            history: Some(operation::History { succeeded, failed }),
            ..kept(n, 10, Some(true))
        };
        let all = [
            of(1, "cron/db/eu"),
            of(2, "cron/db.eu"),
            of(3, "cron/db.eu"),
        ];
        assert_eq!(over(all, 100, 11), [2]);
    }

    /// An execution that was restarted while a pass looked for what is old has ended anew.
    #[test]
    fn r41_only_the_end_that_was_found_old_is_removed() {
        let mut history = History::default();
        let old = kept(1, 2, Some(false));
        history.add(old.clone());
        assert!(history.is_kept(&old));
        history.add(kept(1, 3, Some(true)));
        assert!(!history.is_kept(&old));
    }
}
