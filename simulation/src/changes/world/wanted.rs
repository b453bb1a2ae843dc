//! The changes that people have requested, as the judge knows them.

use std::collections::BTreeMap;

use control_plane::{
    model::{
        AssetId,
        rollout::{RollOut, RolloutPolicy},
    },
    strategist::{Command, State as How, change},
};

use crate::{changes::manifest::is_sick, executor::Instant};

/// A change that people have requested.
pub(in crate::changes) struct Wanted {
    pub(in crate::changes) change: RollOut,
    pub(super) field: &'static str,
    /// The value that it sets.
    pub(super) value: u64,
    /// All values that people have wanted it to set.
    pub(super) values: Vec<u64>,
    pub(super) policy: RolloutPolicy,
    /// The times at which it was requested.
    pub(in crate::changes) requested: Vec<Instant>,
    /// The times at which it was known to have begun.
    pub(in crate::changes) begun: Vec<Instant>,
    /// Whether it may have begun at other times, too.
    pub(in crate::changes) unsure: bool,
    /// Whether it is in the text, and begins by itself.
    pub(in crate::changes) declared: bool,
    /// Number of times that people had it tried again.
    pub(in crate::changes) retries: usize,
    /// Number of commands that people have given.
    pub(in crate::changes) commands: usize,
    /// Time since which it is known to be paused.
    pub(in crate::changes) paused: Option<Instant>,
    /// How its newest rollout has ended. `None`: it has not ended, or never began.
    pub(in crate::changes) end: Option<How>,
    /// The values of the field before it, by service.
    pub(super) before: BTreeMap<String, u64>,
    /// The number of times that it has set the field of each service.
    pub(super) forward: BTreeMap<String, usize>,
    /// The last time at which it has set the field of a service that was there when it was requested.
    pub(super) last: Option<Instant>,
    /// Whether targets have gone back, or were set by people: then its pace is not judged.
    pub(super) disturbed: bool,
}

impl Wanted {
    pub(in crate::changes) fn new(
        change: RollOut,
        (field, value): (&'static str, u64),
        policy: RolloutPolicy,
    ) -> Self {
        Self {
            change,
            field,
            value,
            values: vec![value],
            policy,
            requested: Vec::new(),
            begun: Vec::new(),
            unsure: false,
            declared: false,
            retries: 0,
            commands: 0,
            paused: None,
            end: None,
            before: BTreeMap::new(),
            forward: BTreeMap::new(),
            last: None,
            disturbed: false,
        }
    }

    /// The key of its rollout.
    #[allow(clippy::expect_used, reason = "its name is drawn here and valid")]
    pub(in crate::changes) fn key(&self) -> AssetId {
        change::key_of(&self.change.name).expect("the name is valid")
    }

    /// All values that people have wanted it to set, in their order.
    pub(in crate::changes) fn values(&self) -> &[u64] {
        &self.values
    }

    /// The change with another value, to which a person hands it over.
    pub(in crate::changes) fn with(&mut self, value: u64) -> RollOut {
        self.values.push(value);
        self.disturbed = true;
        self.is_commanded();
        self.change.clone().set(self.field, value)
    }

    /// A person gives a command: from now on it may go on.
    pub(in crate::changes) fn is_commanded(&mut self) {
        self.commands += 1;
        self.paused = None;
    }

    /// A command was obeyed, and it was the `commands`th one.
    pub(in crate::changes) fn obeyed(&mut self, now: Instant, command: Command, commands: usize) {
        if command == Command::Pause && commands == self.commands {
            self.paused = Some(now);
        }
    }

    /// Notes the value to which it was handed over last, by the history of its rollouts.
    pub(in crate::changes) fn note_value(&mut self, history: &[String]) {
        let to = |what: &String, value: u64| {
            *what == format!("handed over to `{}` = {value}", self.field)
        };
        let known = |what| self.values.iter().find(|value| to(what, **value));
        if let Some(value) = history.iter().rev().find_map(known) {
            self.value = *value;
        }
    }

    pub(super) fn is_sick(&self) -> bool {
        is_sick(self.value)
    }
}
