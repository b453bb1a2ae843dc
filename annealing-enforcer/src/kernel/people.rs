//! What people said, as far as the kernel heeds it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use plane_store::records::{Approval, Override, Pause, Scope};
use prodspec_model::{AssetId, Digest};
use serde::{Deserialize, Serialize};

/// A person's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// No pushes here.
    Pause(Pause),
    /// Pushes again.
    Resume(Scope),
    /// This very change may destroy.
    Approve(Approval),
    /// This check does not delay this very change.
    Override(Override),
    /// Look at it now.
    LookNow(AssetId),
    /// This orphan is known about; forget it.
    Acknowledge(AssetId),
}

/// Everything people said that still holds.
#[derive(Debug, Default)]
pub(super) struct People {
    pauses: BTreeMap<Scope, Pause>,
    approvals: BTreeSet<(AssetId, Digest)>,
    overrides: BTreeSet<(AssetId, Digest, String)>,
}

impl People {
    pub(super) fn hear(&mut self, command: &Command) {
        match command {
            Command::Pause(pause) => {
                self.pauses.insert(pause.scope.clone(), pause.clone());
            }
            Command::Resume(scope) => {
                self.pauses.remove(scope);
            }
            Command::Approve(approval) => {
                self.approvals
                    .insert((approval.asset.clone(), approval.change));
            }
            Command::Override(word) => {
                self.overrides
                    .insert((word.asset.clone(), word.change, word.check.clone()));
            }
            Command::LookNow(_) | Command::Acknowledge(_) => {}
        }
    }

    /// Drops the pauses that have ended by themselves, and says which.
    pub(super) fn ended(&mut self, now: Timestamp) -> Vec<Scope> {
        let over = |pause: &Pause| pause.until.is_some_and(|until| until <= now);
        let ended = self.pauses.extract_if(.., |_, pause| over(pause));
        ended.map(|(scope, _)| scope).collect()
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
            .find(|pause| covers(&pause.scope) && pause.until.is_none_or(|until| now < until))
    }

    /// Whether no approval and no override holds.
    pub(super) fn said_nothing(&self) -> bool {
        self.approvals.is_empty() && self.overrides.is_empty()
    }

    /// What was said of an asset's changes, or of one of them, is used up. Says which: changes, with the check if it was
    /// an override.
    pub(super) fn spend(
        &mut self,
        asset: &AssetId,
        change: Option<Digest>,
    ) -> Vec<(Digest, Option<String>)> {
        let spent = |of: Digest| change.is_none_or(|change| change == of);
        let approvals = self
            .approvals
            .extract_if(.., |(id, of)| id == asset && spent(*of));
        let approvals: Vec<_> = approvals.map(|(_, of)| (of, None)).collect();
        let overrides = self
            .overrides
            .extract_if(.., |(id, of, _)| id == asset && spent(*of));
        let overrides = overrides.map(|(_, of, check)| (of, Some(check)));
        approvals.into_iter().chain(overrides).collect()
    }

    pub(super) fn approved(&self, asset: &AssetId, change: Digest) -> bool {
        self.approvals.contains(&(asset.clone(), change))
    }

    pub(super) fn overridden(&self, asset: &AssetId, change: Digest, check: &str) -> bool {
        !self.overrides.is_empty()
            && self
                .overrides
                .contains(&(asset.clone(), change, check.to_owned()))
    }
}
