//! What people said, as far as the kernel heeds it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use plane_store::records::{AllowedBy, Approval, By, Ended, Override, Pause, Scope, Used};
use plugin_sdk::CheckName;
use prodspec_model::{AssetId, Digest};
use serde::{Deserialize, Serialize};

/// How long an approval or an override holds if nothing else is said.
const HOLDS: Duration = Duration::from_secs(24 * 3600);

/// A person's word. Refused if it is about nothing that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Starts no push in a scope. Pushes under way go on.
    Pause {
        /// What is paused.
        scope: Scope,
        /// When the pause ends by itself; `None`: a person has to resume.
        until: Option<Timestamp>,
        /// Who says it, and why.
        by: By,
    },
    /// Ends the pause of a scope.
    Resume {
        /// The scope that was paused.
        scope: Scope,
        /// Who says it, and why.
        by: By,
    },
    /// Lets one destructive push of this change through.
    Approve {
        /// The asset that may lose something.
        asset: AssetId,
        /// The digest of the change, as `explain` and `plan` show it.
        change: Digest,
        /// When the approval expires; `None`: in 24 h.
        until: Option<Timestamp>,
        /// Who says it, and why.
        by: By,
    },
    /// Lifts one check for one push of this change.
    Override {
        /// The asset that is delayed.
        asset: AssetId,
        /// The digest of the change, as `explain` and `plan` show it.
        change: Digest,
        /// The check, by the name under which it is registered.
        check: CheckName,
        /// When the override expires; `None`: in 24 h.
        until: Option<Timestamp>,
        /// Who says it, and why.
        by: By,
    },
    /// Looks at an asset now, whatever it waits for.
    LookNow {
        /// The asset to look at.
        asset: AssetId,
        /// Who says it, and why.
        by: By,
    },
    /// Forgets an orphan; production keeps it.
    Acknowledge {
        /// The asset that left intent.
        asset: AssetId,
        /// Who says it, and why.
        by: By,
    },
    /// Ends the wait for a push of unknown outcome: the speaker vouches that it does not run any more.
    PushIsOver {
        /// The asset that was pushed.
        asset: AssetId,
        /// Who says it, and why.
        by: By,
    },
}

impl Command {
    /// Who says it, and why.
    pub fn by(&self) -> &By {
        match self {
            Self::Pause { by, .. }
            | Self::Resume { by, .. }
            | Self::Approve { by, .. }
            | Self::Override { by, .. }
            | Self::LookNow { by, .. }
            | Self::Acknowledge { by, .. }
            | Self::PushIsOver { by, .. } => by,
        }
    }
}

/// Everything people said that still holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Words {
    /// Where no push starts.
    pub pauses: Vec<Pause>,
    /// Destructive changes that may be pushed once.
    pub approvals: Vec<Approval>,
    /// Checks that do not delay one push.
    pub overrides: Vec<Override>,
}

/// A word that lets a push through.
#[derive(Debug, Clone)]
pub(super) enum Word {
    Approval(Approval),
    Override(Override),
}

impl Word {
    /// Marks it as used up by a push, or (`None`) as not used after all.
    pub(super) fn mark(&mut self, used: Option<Used>) {
        match self {
            Self::Approval(word) => word.used = used,
            Self::Override(word) => word.used = used,
        }
    }

    pub(super) fn allowed_by(&self) -> AllowedBy {
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

/// What the kernel goes by: see [`Words`].
#[derive(Debug, Default)]
pub(super) struct People {
    pauses: BTreeMap<Scope, Pause>,
    approvals: BTreeMap<(AssetId, Digest), Approval>,
    overrides: BTreeMap<(AssetId, Digest, CheckName), Override>,
}

impl People {
    /// Takes in what was said, and when it ends unless the word says otherwise.
    pub(super) fn until(now: Timestamp, until: Option<Timestamp>) -> Timestamp {
        until.unwrap_or_else(|| now.checked_add(HOLDS).unwrap_or(Timestamp::MAX))
    }

    /// Heeds everything of `words` that holds at `now`.
    pub(super) fn remember(&mut self, words: Words, now: Timestamp) {
        let pauses = words.pauses.into_iter().filter(|word| word.holds(now));
        pauses.for_each(|word| self.pause_in(word));
        let approvals = words.approvals.into_iter().filter(|word| word.holds(now));
        approvals.for_each(|word| self.heed(Word::Approval(word)));
        let overrides = words.overrides.into_iter().filter(|word| word.holds(now));
        overrides.for_each(|word| self.heed(Word::Override(word)));
    }

    pub(super) fn pause_in(&mut self, pause: Pause) {
        self.pauses.insert(pause.scope.clone(), pause);
    }

    /// Ends the pause of a scope, if there is one.
    pub(super) fn resume(&mut self, scope: &Scope, ended: Ended) -> Option<Pause> {
        let pause = self.pauses.remove(scope)?;
        let resumed = Some(ended);
        Some(Pause { resumed, ..pause })
    }

    /// A word lets a push through from now on.
    pub(super) fn heed(&mut self, word: Word) {
        match word {
            Word::Approval(word) => {
                let key = (word.asset.clone(), word.change);
                self.approvals.insert(key, word);
            }
            Word::Override(word) => {
                let key = (word.asset.clone(), word.change, word.check.clone());
                self.overrides.insert(key, word);
            }
        }
    }

    /// Drops what has ended by itself. Its records stay.
    pub(super) fn expire(&mut self, now: Timestamp) {
        self.pauses.retain(|_, pause| pause.holds(now));
        self.approvals.retain(|_, word| word.holds(now));
        self.overrides.retain(|_, word| word.holds(now));
    }

    /// The pause that holds for an asset of a type now.
    pub(super) fn pause(&self, asset: &AssetId, type_name: &str, now: Timestamp) -> Option<&Pause> {
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

    /// The scopes that are paused, as text.
    pub(super) fn paused(&self) -> Vec<String> {
        self.pauses.keys().map(ToString::to_string).collect()
    }

    /// The approval of a change, if one holds.
    pub(super) fn approval(
        &self,
        asset: &AssetId,
        change: Digest,
        now: Timestamp,
    ) -> Option<&Approval> {
        let word = self.approvals.get(&(asset.clone(), change))?;
        word.holds(now).then_some(word)
    }

    /// The override of a check for a change, if one holds.
    pub(super) fn overridden(
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

    /// A push uses a word up.
    pub(super) fn spend(&mut self, word: &Word) {
        match word {
            Word::Approval(word) => {
                self.approvals.remove(&(word.asset.clone(), word.change));
            }
            Word::Override(word) => {
                let key = (word.asset.clone(), word.change, word.check.clone());
                self.overrides.remove(&key);
            }
        }
    }

    /// Everything that holds; with an asset, what concerns it.
    pub(super) fn words(&self, of: Option<(&AssetId, &str)>, now: Timestamp) -> Words {
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
        Words {
            pauses: pauses.cloned().collect(),
            approvals: approvals.cloned().collect(),
            overrides: overrides.cloned().collect(),
        }
    }
}
