//! Log lines about rollouts. A change of a rollout is logged once, even if the rollout is stored repeatedly.

use std::collections::BTreeMap;

use plugin_sdk::{Judgement, RolloutId};
use prodspec_model::{AssetId, PartitionId};

use crate::record::{Lasting, Rollout, State};

/// The state logged last of each group's rollout.
#[derive(Debug, Default)]
pub(super) struct Logged(BTreeMap<AssetId, LoggedState>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct LoggedState {
    rollout: RolloutId,
    word: &'static str,
    stage: Option<String>,
    unhealthy: bool,
    unknown: bool,
    idle: bool,
}

impl LoggedState {
    fn of(rollout: &Rollout) -> Self {
        let health = rollout.health.as_ref();
        let flagged = |lasting: Option<Lasting>| lasting.is_some_and(|it| it.flagged);
        Self {
            rollout: rollout.id,
            word: rollout.state.word(),
            stage: rollout.stage.clone(),
            unhealthy: health.is_some_and(|it| it.judgement == Judgement::Unhealthy),
            unknown: flagged(rollout.unknown),
            idle: flagged(rollout.idle),
        }
    }

    /// Returns the logged state of a rollout that has just begun.
    fn nothing(id: RolloutId) -> Self {
        Self {
            rollout: id,
            word: State::Running.word(),
            stage: None,
            unhealthy: false,
            unknown: false,
            idle: false,
        }
    }
}

impl Logged {
    /// Takes in a rollout that an earlier owner has stored, and has logged. Only later changes are logged.
    pub(super) fn recovered(&mut self, rollout: &Rollout) {
        self.0
            .insert(rollout.policy.clone(), LoggedState::of(rollout));
    }

    /// Logs the changes of a rollout since it was last logged. Called when the rollout is stored.
    pub(super) fn tell(&mut self, partition: &PartitionId, rollout: &Rollout) {
        let (policy, id) = (&rollout.policy, rollout.id);
        let before = self.0.get(policy).filter(|said| said.rollout == id);
        if before.is_none() {
            let from = rollout.from.map(|no| no.0);
            tracing::info!(%partition, %policy, rollout = id.0, from, to = rollout.to.0, "a rollout began");
        }
        let before = before.cloned().unwrap_or_else(|| LoggedState::nothing(id));
        let said = LoggedState::of(rollout);
        if let Some(stage) = said.stage.as_ref().filter(|_| said.stage != before.stage) {
            tracing::info!(%partition, %policy, rollout = id.0, stage, "a rollout entered a stage");
        }
        if said.unhealthy && !before.unhealthy {
            tracing::warn!(%partition, %policy, rollout = id.0, "the targets updated by the rollout are unhealthy; see its findings");
        }
        if said.unknown && !before.unknown {
            tracing::warn!(%partition, %policy, rollout = id.0, "the health of the rollout has been unknown for too long; inspect it, then promote it or roll it back");
        }
        if said.idle && !before.idle {
            tracing::warn!(%partition, %policy, rollout = id.0, "the rollout makes no progress; explain its targets to find the cause");
        }
        if said.word != before.word {
            tell_state(partition, rollout);
        }
        self.0.insert(policy.clone(), said);
    }
}

fn tell_state(partition: &PartitionId, rollout: &Rollout) {
    let (policy, id) = (&rollout.policy, rollout.id.0);
    match &rollout.state {
        State::Stopped { why } => {
            tracing::warn!(%partition, %policy, rollout = id, %why, "the rollout stopped; retry it, roll it back, or edit the assets that it moved");
        }
        State::RollingBack { why, paused: false } => {
            tracing::warn!(%partition, %policy, rollout = id, %why, "the rollout is rolling back");
        }
        State::RolledBack { why } => {
            tracing::info!(%partition, %policy, rollout = id, %why, "the rollout was rolled back");
        }
        State::Completed => {
            let took = rollout
                .ended_at
                .map(|end| end.duration_since(rollout.started_at));
            tracing::info!(%partition, %policy, rollout = id, ?took, "the rollout completed");
        }
        state => {
            tracing::info!(%partition, %policy, rollout = id, state = state.word(), "the rollout changed its state");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use jiff::Timestamp;
    use plugin_sdk::{Finding, Health};
    use prodspec_model::IncarnationNo;

    use super::*;

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

    fn rollout() -> Rollout {
        Rollout {
            id: RolloutId(7),
            policy: AssetId::new("policy/p").unwrap(),
            from: Some(IncarnationNo(1)),
            to: IncarnationNo(2),
            state: State::Running,
            started_at: Timestamp::UNIX_EPOCH,
            moved_at: None,
            evidence_from: None,
            ended_at: None,
            drawn: None,
            stage: None,
            promoted: None,
            health: None,
            verdicts: Vec::new(),
            watched: Duration::ZERO,
            unknown: None,
            idle: None,
            removed_policy: None,
            history: Vec::new(),
        }
    }

    /// Returns the lines logged when each of these rollouts is stored three times, by an owner that took over
    /// `recovered`.
    fn logged_after(recovered: Option<&Rollout>, all: &[Rollout]) -> Vec<String> {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        let partition = PartitionId::new("test").unwrap();
        // With a single subscriber, a log line that another test's thread reaches first would be off for all threads.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::subscriber::with_default(subscriber, || {
            let mut logged = Logged::default();
            recovered.iter().for_each(|it| logged.recovered(it));
            for rollout in all {
                (0..3).for_each(|_| logged.tell(&partition, rollout));
            }
        });
        let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        said.lines().map(str::to_owned).collect()
    }

    fn logged(all: &[Rollout]) -> Vec<String> {
        logged_after(None, all)
    }

    #[test]
    fn begin_stages_and_completion_of_a_rollout_are_logged_once_each() {
        let in_stage = |stage: &str| Rollout {
            stage: Some(stage.to_owned()),
            ..rollout()
        };
        let completed = Rollout {
            state: State::Completed,
            ended_at: Some(Timestamp::UNIX_EPOCH + Duration::from_secs(90)),
            ..rollout()
        };
        let all = [
            rollout(),
            in_stage("canary"),
            in_stage("the rest"),
            completed,
        ];
        let lines = logged(&all);
        let expected = [
            "a rollout began",
            "stage=\"canary\"",
            "stage=\"the rest\"",
            "the rollout completed",
        ];
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, text) in lines.iter().zip(expected) {
            assert!(line.contains(text) && line.contains("INFO"), "{line}");
        }
        assert!(lines[0].contains("from=1 to=2"), "{}", lines[0]);
    }

    #[test]
    fn new_owner_does_not_log_again_what_the_last_one_logged() {
        let stopped = Rollout {
            state: State::Stopped {
                why: "it fails".to_owned(),
            },
            stage: Some("canary".to_owned()),
            ..rollout()
        };
        assert_eq!(
            logged_after(Some(&stopped), std::slice::from_ref(&stopped)),
            [""; 0]
        );
        let back = Rollout {
            state: State::Running,
            ..stopped.clone()
        };
        let lines = logged_after(Some(&stopped), &[back]);
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn each_state_of_a_rollout_is_logged_once() {
        let why = || "it fails".to_owned();
        let states = [
            State::Running,
            State::Paused,
            State::Running,
            State::Stopped { why: why() },
            State::rolling_back(why()),
            State::RolledBack { why: why() },
        ];
        let all = states.map(|state| Rollout { state, ..rollout() });
        let lines = logged_after(Some(&rollout()), &all);
        let levels = lines.iter().map(|line| line.contains("WARN"));
        let levels: Vec<bool> = levels.collect();
        assert_eq!(levels, [false, false, true, true, false], "{lines:?}");
        let named = |line: &String| line.contains("policy/p") && line.contains("rollout=7");
        assert!(lines.iter().all(named), "{lines:?}");
        assert!(lines[2].contains("stopped") && lines[2].contains("it fails"));
    }

    #[test]
    fn unhealthy_and_stalled_rollouts_are_logged_each_time_the_condition_begins() {
        let finding = Finding::new(Judgement::Unhealthy, "it fails").validator("errors");
        let ill = Rollout {
            health: Some(Health::found(Timestamp::UNIX_EPOCH, finding)),
            ..rollout()
        };
        let flagged = Lasting {
            since: Duration::ZERO,
            flagged: true,
        };
        let idle = Rollout {
            idle: Some(flagged),
            ..rollout()
        };
        let all = [ill.clone(), rollout(), ill, idle];
        let lines = logged_after(Some(&rollout()), &all);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert!(lines.iter().all(|line| line.contains("WARN")), "{lines:?}");
    }
}
