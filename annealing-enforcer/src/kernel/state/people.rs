//! Commands of operators that are in force: pauses, approvals and overrides.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use control_plane_store::records::{AllowedBy, Approval, Ended, Override, Pause, Scope, Used};
use jiff::Timestamp;
use plugin_sdk::{By, CheckName};
use prodspec_model::{AssetId, Digest};
use serde::{Deserialize, Serialize};

/// Default lifetime of an approval or an override.
const HOLDS: Duration = Duration::from_secs(24 * 3600);

/// A command of an operator. It is refused if its object does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Starts no push in a scope from now on. Pushes under way go on.
    Pause {
        /// The assets that are paused: one, a type or the partition.
        scope: Scope,
        /// Time at which the pause ends by itself. `None`: an operator has to resume.
        until: Option<Timestamp>,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Ends the pause of a scope before its time.
    Resume {
        /// The scope that was named by the pause.
        scope: Scope,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Approves a change: one that is destructive, for one push, or one that a policy asks about.
    Approve {
        /// Id of the asset that is to be pushed.
        asset: AssetId,
        /// Digest of the change, as shown by `explain` and `plan`.
        change: Digest,
        /// Time at which the approval expires. `None`: in 24 h.
        until: Option<Timestamp>,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Approves all changes of a set at once. It must be as it was when its digest was shown.
    ApproveSet {
        /// The digest of the set.
        set: Digest,
        /// Number of changes in the set.
        size: usize,
        /// Time at which the approvals expire. `None`: in 24 h.
        until: Option<Timestamp>,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Skips one check for one push of this change.
    Override {
        /// Id of the asset that the check delays.
        asset: AssetId,
        /// Digest of the change, as shown by `explain` and `plan`.
        change: Digest,
        /// Name under which the check is registered.
        check: CheckName,
        /// Time at which the override expires. `None`: in 24 h.
        until: Option<Timestamp>,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Diffs an asset now, whatever it waits for.
    LookNow {
        /// Id of the asset to diff.
        asset: AssetId,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Forgets an orphan; production keeps its resource.
    Acknowledge {
        /// Id of the asset that left intent.
        asset: AssetId,
        /// The operator who gives the command, and the reason.
        by: By,
    },
    /// Ends the wait for a push of unknown outcome: the operator confirms that it no longer runs.
    PushIsOver {
        /// Id of the asset that was pushed.
        asset: AssetId,
        /// The operator who gives the command, and the reason.
        by: By,
    },
}

impl Command {
    /// Returns the operator who gives the command, and the reason.
    pub fn by(&self) -> &By {
        match self {
            Self::Pause { by, .. }
            | Self::Resume { by, .. }
            | Self::Approve { by, .. }
            | Self::ApproveSet { by, .. }
            | Self::Override { by, .. }
            | Self::LookNow { by, .. }
            | Self::Acknowledge { by, .. }
            | Self::PushIsOver { by, .. } => by,
        }
    }
}

/// All commands of operators that are in force.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Interventions {
    /// The pauses: no push starts in their scopes.
    pub pauses: Vec<Pause>,
    /// The approvals: each lets one push of a destructive change through.
    pub approvals: Vec<Approval>,
    /// The overrides: each skips one check for one push.
    pub overrides: Vec<Override>,
}

/// A command that lets one push through.
#[derive(Debug, Clone)]
pub(in crate::kernel) enum Waiver {
    Approval(Approval),
    Override(Override),
}

impl Waiver {
    /// Marks the command as spent by a push. `None`: as not spent after all.
    pub(in crate::kernel) fn mark(&mut self, used: Option<Used>) {
        match self {
            Self::Approval(word) => word.used = used,
            Self::Override(word) => word.used = used,
        }
    }

    /// Marks the command as replaced by the repeated command `newer`.
    fn replaced_by(&mut self, newer: &Self) {
        let (by, at) = match newer {
            Self::Approval(word) => (word.by.clone(), word.at),
            Self::Override(word) => (word.by.clone(), word.at),
        };
        let ended = Some(Ended { by, at });
        match self {
            Self::Approval(word) => word.replaced = ended,
            Self::Override(word) => word.replaced = ended,
        }
    }

    pub(in crate::kernel) fn allowed_by(&self) -> AllowedBy {
        match self {
            Self::Approval(word) => AllowedBy {
                word: "approval".into(),
                by: word.by.clone(),
                at: word.at,
            },
            Self::Override(word) => AllowedBy {
                word: format!("override of {}", word.check),
                by: word.by.clone(),
                at: word.at,
            },
        }
    }
}

/// The commands in force, by the object that they name. Approvals and overrides that have expired stay until they are
/// repeated: the clock of this owner may be fast, and to the next one they may be in force.
#[derive(Debug, Default)]
pub(in crate::kernel) struct People {
    pauses: BTreeMap<Scope, Pause>,
    /// By the person too: each approves for themselves.
    approvals: BTreeMap<(AssetId, Digest, String), Approval>,
    overrides: BTreeMap<(AssetId, Digest, CheckName), Override>,
}

impl People {
    /// Returns the expiry of a command: the given time, or 24 h from now.
    pub(in crate::kernel) fn until(now: Timestamp, until: Option<Timestamp>) -> Timestamp {
        until.unwrap_or_else(|| now.checked_add(HOLDS).unwrap_or(Timestamp::MAX))
    }

    /// Takes in the pauses of `words` that are in force at `now`, and the approvals and overrides that are neither used
    /// nor replaced.
    pub(in crate::kernel) fn remember(&mut self, words: Interventions, now: Timestamp) {
        let pauses = words.pauses.into_iter().filter(|word| word.holds(now));
        pauses.for_each(|word| self.pause_in(word));
        let approvals = words.approvals.into_iter();
        let approvals = approvals.filter(|word| word.used.is_none() && word.replaced.is_none());
        approvals.for_each(|word| drop(self.heed(Waiver::Approval(word))));
        let overrides = words.overrides.into_iter();
        let overrides = overrides.filter(|word| word.used.is_none() && word.replaced.is_none());
        overrides.for_each(|word| drop(self.heed(Waiver::Override(word))));
    }

    pub(in crate::kernel) fn pause_in(&mut self, pause: Pause) {
        self.pauses.insert(pause.scope.clone(), pause);
    }

    /// Ends the pause of a scope. Returns the ended pause, or `None` if there was none.
    pub(in crate::kernel) fn resume(&mut self, scope: &Scope, ended: Ended) -> Option<Pause> {
        let pause = self.pauses.remove(scope)?;
        let resumed = Some(ended);
        Some(Pause { resumed, ..pause })
    }

    /// Takes in an approval or an override. Returns the one that it replaces, marked so: a repeated command is one
    /// command (R12).
    pub(in crate::kernel) fn heed(&mut self, word: Waiver) -> Option<Waiver> {
        let newer = word.clone();
        let mut older = match word {
            Waiver::Approval(word) => Waiver::Approval(self.approvals.insert(key_of(&word), word)?),
            Waiver::Override(word) => {
                let key = (word.asset.clone(), word.change, word.check.clone());
                Waiver::Override(self.overrides.insert(key, word)?)
            }
        };
        older.replaced_by(&newer);
        Some(older)
    }

    /// Takes a command back in that a push did not use after all. Returns it as its record must be: if it was repeated
    /// meanwhile, the repeated one stays in force.
    pub(in crate::kernel) fn take_back(&mut self, mut word: Waiver) -> Waiver {
        word.mark(None);
        let newer = match &word {
            Waiver::Approval(own) => self
                .approvals
                .get(&key_of(own))
                .cloned()
                .map(Waiver::Approval),
            Waiver::Override(own) => {
                let key = (own.asset.clone(), own.change, own.check.clone());
                self.overrides.get(&key).cloned().map(Waiver::Override)
            }
        };
        match newer {
            Some(newer) => word.replaced_by(&newer),
            None => drop(self.heed(word.clone())),
        }
        word
    }

    /// Moves the pause of the asset `from` to `to`, the same asset under a new id, and ends the approvals and overrides of
    /// `from`. Returns the records of what changed.
    pub(in crate::kernel) fn rename(
        &mut self,
        from: &AssetId,
        to: &AssetId,
        ended: &Ended,
    ) -> (Vec<Pause>, Vec<Waiver>) {
        let mut pauses = Vec::new();
        if let Some(pause) = self.resume(&Scope::Asset(from.clone()), ended.clone()) {
            let scope = Scope::Asset(to.clone());
            let moved = Pause {
                scope: scope.clone(),
                resumed: None,
                ..pause.clone()
            };
            pauses.push(pause);
            if let Entry::Vacant(free) = self.pauses.entry(scope) {
                pauses.push(free.insert(moved).clone());
            }
        }
        let mut words = self.end_approvals(from, |_| true, ended);
        let ended = Some(ended.clone());
        let overrides = self.overrides.extract_if(.., |(of, ..), _| of == from);
        words.extend(overrides.map(|(_, word)| {
            let replaced = ended.clone();
            Waiver::Override(Override { replaced, ..word })
        }));
        (pauses, words)
    }

    /// Drops pauses that have expired. Their records stay.
    pub(in crate::kernel) fn expire(&mut self, now: Timestamp) {
        self.pauses.retain(|_, pause| pause.holds(now));
    }

    /// Returns a pause in force that covers an asset of a type.
    pub(in crate::kernel) fn pause(
        &self,
        asset: &AssetId,
        type_name: &str,
        now: Timestamp,
    ) -> Option<&Pause> {
        if self.pauses.is_empty() {
            return None;
        }
        let covers = |scope: &Scope| match scope {
            Scope::Asset(id) => id == asset,
            Scope::Type(name) => name.as_str() == type_name,
            Scope::Partition => true,
            _ => false,
        };
        self.pauses
            .values()
            .find(|pause| covers(&pause.scope) && pause.holds(now))
    }

    /// Returns the names of the paused scopes.
    pub(in crate::kernel) fn paused(&self) -> Vec<String> {
        self.pauses.keys().map(ToString::to_string).collect()
    }

    /// Returns the approvals of a change that are in force, one for each person.
    pub(in crate::kernel) fn approvals(
        &self,
        asset: &AssetId,
        change: Digest,
        now: Timestamp,
    ) -> impl Iterator<Item = &Approval> {
        let first = (asset.clone(), change, String::new());
        let all = self.approvals.range(first..).map(|(_, word)| word);
        let ours = all.take_while(move |word| word.asset == *asset && word.change == change);
        ours.filter(move |word| word.holds(now))
    }

    /// Whether there is no approval at all.
    pub(in crate::kernel) fn has_no_approval(&self) -> bool {
        self.approvals.is_empty()
    }

    /// Ends the approvals of an asset whose changes are over. Returns the records that changed.
    pub(in crate::kernel) fn end_approvals(
        &mut self,
        asset: &AssetId,
        is_over: impl Fn(&Digest) -> bool,
        ended: &Ended,
    ) -> Vec<Waiver> {
        let ours = self
            .approvals
            .extract_if(.., |(of, change, _), _| of == asset && is_over(change));
        let ended = ours.map(|(_, word)| {
            let replaced = Some(ended.clone());
            Waiver::Approval(Approval { replaced, ..word })
        });
        ended.collect()
    }

    /// Returns the override of a check for a change, if one is in force.
    pub(in crate::kernel) fn overridden(
        &self,
        asset: &AssetId,
        change: Digest,
        check: &CheckName,
        now: Timestamp,
    ) -> Option<&Override> {
        if self.overrides.is_empty() {
            return None;
        }
        let key = (asset.clone(), change, check.clone());
        self.overrides.get(&key).filter(|word| word.holds(now))
    }

    /// Removes a command that a push spends.
    pub(in crate::kernel) fn spend(&mut self, word: &Waiver) {
        match word {
            Waiver::Approval(word) => {
                self.approvals.remove(&key_of(word));
            }
            Waiver::Override(word) => {
                let key = (word.asset.clone(), word.change, word.check.clone());
                self.overrides.remove(&key);
            }
        }
    }

    /// Returns all commands in force; with an asset and its type, those that apply to it.
    pub(in crate::kernel) fn interventions(
        &self,
        of: Option<(&AssetId, &str)>,
        now: Timestamp,
    ) -> Interventions {
        let concerns = |scope: &Scope| match (scope, of) {
            (_, None) | (Scope::Partition, _) => true,
            (Scope::Asset(id), Some((asset, _))) => id == asset,
            (Scope::Type(name), Some((_, type_name))) => name.as_str() == type_name,
            _ => false,
        };
        let about = |id: &AssetId| of.is_none_or(|(asset, _)| id == asset);
        let pauses = self.pauses.values();
        let pauses = pauses.filter(|it| it.holds(now) && concerns(&it.scope));
        let approvals = self.approvals.values();
        let approvals = approvals.filter(|it| it.holds(now) && about(&it.asset));
        let overrides = self.overrides.values();
        let overrides = overrides.filter(|it| it.holds(now) && about(&it.asset));
        Interventions {
            pauses: pauses.cloned().collect(),
            approvals: approvals.cloned().collect(),
            overrides: overrides.cloned().collect(),
        }
    }
}

/// The key of an approval.
fn key_of(word: &Approval) -> (AssetId, Digest, String) {
    (word.asset.clone(), word.change, word.by.who.clone())
}
