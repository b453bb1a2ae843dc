//! The two incarnations between which a change moves its targets.
//!
//! In both, the targets and the policy are of a group of their own: the targets name the key of the change as their policy,
//! and the asset with that key is the policy that the change names, as of the newest incarnation.

use std::collections::BTreeMap;

use plugin_sdk::{BoxError, Cause, GroupHead, Pin, RolloutId, Standing, SyncState};
use prodspec_model::{
    Asset, AssetId, AssetRef, Digest, Incarnation,
    addons::RolloutPolicyRef,
    rollout::{RolloutPolicy, Update},
};

use super::{
    form::Form,
    record::{PlannedTarget, RollOutTarget, Stored, Version},
};
use crate::{
    group::policy_of,
    kernel::{Joins, Recovered, edited},
    record::TargetRecord,
};

/// The intent of a change, as the kernel of its rollout sees it.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    key: AssetId,
    policy: AssetId,
    /// The targets as they were.
    from: Incarnation,
    /// The targets with all fields set, in the newest form that the kernel knows.
    to: Incarnation,
    /// Digest of the policy asset that `to` was made with. `None`: there was none.
    policy_digest: Option<Digest>,
    /// The versions before the present one, oldest first.
    earlier: Vec<Version>,
    /// The contents of the targets in these.
    had: BTreeMap<(usize, AssetId), Option<Digest>>,
}

impl Intent {
    /// Makes the two incarnations of a stored change beside the newest real one.
    ///
    /// # Errors
    /// When a stored asset cannot be read.
    pub(crate) fn of(stored: &Stored, latest: &Incarnation) -> Result<Self, BoxError> {
        let key = stored.rollout.policy.clone();
        let policy = stored.record.change.policy.id.clone();
        let (mut before, mut after, mut had) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (id, target) in &stored.targets {
            let earlier = target.earlier.iter();
            had.extend(earlier.map(|it| ((it.version, id.clone()), it.content)));
            before.push(renamed(&key, &Asset::try_from(target.before.as_str())?)?);
            after.push(renamed(&key, &Asset::try_from(target.after.as_str())?)?);
        }
        before.extend(policy_asset(&key, latest.asset(&policy).as_ref())?);
        let base = stored.record.base;
        let from = edited(latest, base, before, &[]);
        let to = edited(&from, stored.rollout.to, after, &[]);
        Ok(Self {
            policy_digest: latest.asset(&policy).map(|asset| asset.digest()),
            key,
            policy,
            from,
            to,
            earlier: stored.record.earlier.clone(),
            had,
        })
    }

    /// The number of the present version of the change, from 0.
    pub(crate) fn version(&self) -> usize {
        self.earlier.len()
    }

    /// The form of a target's fields by a pin.
    pub(super) fn form(&self, pin: Pin) -> Form {
        if pin.is_at(self.from.no()) {
            return Form::Before;
        }
        let no = pin.incarnation().unwrap_or(self.to.no());
        let over = self.earlier.iter().filter(|it| no > it.last);
        Form::Set(over.count())
    }

    /// The content of an asset with its fields in this form.
    fn content(&self, asset: &AssetId, form: Form) -> Option<Digest> {
        let of = match form {
            Form::Before => &self.from,
            Form::Set(version) if version == self.version() => &self.to,
            Form::Set(version) => return *self.had.get(&(version, asset.clone()))?,
        };
        of.asset(asset).map(|asset| asset.digest())
    }

    /// Replaces the values of the change by those of these targets, in the rollout `next`. Notes in their records the
    /// version until now.
    ///
    /// # Errors
    /// When a target cannot be read.
    pub(crate) fn hand_over(
        &mut self,
        next: RolloutId,
        targets: &mut [(AssetId, RollOutTarget)],
    ) -> Result<(), BoxError> {
        let (version, mut after) = (self.version(), Vec::new());
        for (id, target) in targets {
            after.push(renamed(
                &self.key,
                &Asset::try_from(target.after.as_str())?,
            )?);
            let content = self.content(id, Form::Set(version));
            if let Some(earlier) = target.earlier.last_mut() {
                earlier.content = content;
            }
            self.had.insert((version, id.clone()), content);
        }
        self.earlier.push(Version {
            until: next,
            last: self.to.no(),
        });
        self.to = edited(&self.to, self.to.no().next(), after, &[]);
        Ok(())
    }

    /// The incarnation with all fields set.
    pub(crate) fn to(&self) -> &Incarnation {
        &self.to
    }

    /// The versions before the present one, oldest first.
    pub(crate) fn earlier(&self) -> &[Version] {
        &self.earlier
    }

    /// Returns the incarnation after `latest` as it would be with all fields set, for questions about the pushes that
    /// follow. Targets that are not as they were stay as they are: the contents that their fields would give them are not
    /// known.
    pub(crate) fn foreseen(&self, latest: &Incarnation) -> Incarnation {
        let own = self.to.snapshot().referrers(self.key.as_str());
        let set = own.iter().filter_map(|id| {
            let now = latest.asset(id)?;
            let as_it_was = renamed(&self.key, &now).ok()?.digest();
            let unchanged = self.content(id, Form::Before) == Some(as_it_was);
            let policy = policy_of(&now).filter(|_| unchanged)?;
            renamed(&policy, &self.to.asset(id)?).ok()
        });
        edited(latest, latest.no().next(), set.collect(), &[])
    }

    /// Takes in the policy of a newer incarnation. Returns the incarnation for the kernel, if it has changed.
    pub(crate) fn took(&mut self, latest: &Incarnation) -> Option<Incarnation> {
        let policy = latest.asset(&self.policy);
        let digest = policy.as_ref().map(|asset| asset.digest());
        if digest == self.policy_digest {
            return None;
        }
        self.policy_digest = digest;
        // A policy that cannot be read is like one that is gone: the kernel says so.
        let there = policy_asset(&self.key, policy.as_ref()).unwrap_or_default();
        let gone: Vec<AssetId> = there
            .is_none()
            .then(|| self.key.clone())
            .into_iter()
            .collect();
        self.to = edited(
            &self.to,
            self.to.no().next(),
            there.into_iter().collect(),
            &gone,
        );
        Some(self.to.clone())
    }

    /// Lets a target leave the change. Returns the incarnation for the kernel.
    pub(crate) fn leaves(&mut self, asset: &AssetId) -> Incarnation {
        let there = self.to.asset(asset);
        // Without a policy it would still belong to the group by its head.
        let other = there.and_then(|there| renamed(&self.policy, &there).ok());
        let other: Vec<Asset> = other.into_iter().collect();
        self.to = edited(&self.to, self.to.no().next(), other, &[]);
        self.to.clone()
    }

    /// Adds targets. Returns them for the kernel.
    ///
    /// # Errors
    /// When a target cannot be read.
    pub(crate) fn join(&mut self, targets: &[PlannedTarget]) -> Result<Vec<Joins>, BoxError> {
        let renamed = |target: &PlannedTarget| {
            let before = renamed(&self.key, &target.before)?;
            let after = renamed(&self.key, &target.after)?;
            Ok::<_, BoxError>(Joins { before, after })
        };
        let joins = targets.iter().map(renamed).collect::<Result<Vec<_>, _>>()?;
        let before = joins.iter().map(|it| it.before.clone()).collect();
        let after = joins.iter().map(|it| it.after.clone()).collect();
        self.from = edited(&self.from, self.from.no(), before, &[]);
        self.to = edited(&self.to, self.to.no(), after, &[]);
        Ok(joins)
    }

    /// The stored data as the kernel takes it over.
    pub(crate) fn recovered(&self, stored: &Stored) -> Recovered {
        let mut recovered = Recovered::nothing(self.key.clone(), self.to.clone(), Vec::new());
        recovered.head = Some(GroupHead::At(self.from.clone()));
        recovered.newest = Some(stored.rollout.clone());
        recovered.is_change = true;
        recovered.to = Some(self.to.clone());
        recovered.rolling = stored.targets.iter().map(|(id, _)| id.clone()).collect();
        let own = stored.rollout.id;
        let late = stored
            .targets
            .iter()
            .filter(|(_, it)| it.late_in == Some(own));
        recovered.late = late.map(|(id, _)| id.clone()).collect();
        recovered.rows.clone_from(&stored.rows);
        // Those of earlier changes with the name do not count.
        let mut quarantine = stored.quarantine.clone();
        for (_, failed) in &mut quarantine {
            failed.failed.retain(|failed| failed.rollout == own);
        }
        quarantine.retain(|(_, failed)| !failed.failed.is_empty());
        recovered.quarantine = quarantine;
        let standing = |(asset, row): &(AssetId, TargetRecord)| {
            let standing = self.standing(asset, self.pin_by(row), row.updated_at.is_some());
            (asset.clone(), standing)
        };
        recovered.pins = stored.rows.iter().map(standing).collect();
        recovered
    }

    /// The pin that the record of a target stands for.
    pub(crate) fn pin_by(&self, row: &TargetRecord) -> Pin {
        let version = self.earlier.iter().find(|it| row.rollout < it.until);
        let no = version.map_or(self.to.no(), |it| it.last);
        match row.back_at {
            None => Pin::At(no, Cause::Intent),
            Some(_) => Pin::At(self.from.no(), Cause::Rollback),
        }
    }

    /// The standing of a target at a pin, as its last look found it.
    pub(crate) fn standing(&self, asset: &AssetId, pin: Pin, is_updated: bool) -> Standing {
        let since = self.from.header().sealed_at;
        let form = self.form(pin);
        let state = match is_updated && form != Form::Before {
            true => SyncState::InSync { since },
            false => SyncState::out_of_sync(since),
        };
        Standing::at(pin, self.content(asset, form), state)
    }
}

/// The target in the policy group with this key.
fn renamed(key: &AssetId, asset: &Asset) -> Result<Asset, BoxError> {
    let policy = AssetRef::to(key.clone());
    let bare = asset.edit().without_addon::<RolloutPolicyRef>();
    Ok(bare.addon(&RolloutPolicyRef { policy })?.build()?)
}

/// The policy under the key of the change. A change ends by itself, so its group follows nothing.
fn policy_asset(key: &AssetId, policy: Option<&Asset>) -> Result<Option<Asset>, BoxError> {
    let Some(policy) = policy else {
        return Ok(None);
    };
    let policy = policy.payload::<RolloutPolicy>()?.update(Update::Pins);
    Ok(Some(Asset::builder(key.clone()).payload(&policy)?.build()?))
}
