//! The stored data of a change. The rollout of it, and the records of its targets, are stored as those of policy groups, with
//! the key of the change in the place of the policy asset.

use std::collections::BTreeSet;

use control_plane_store::{Batch, Error, Expect, Record, Store, Version as Stamp, limit, record};
use jiff::Timestamp;
use plugin_sdk::{BoxError, By, ChangeId, FieldEdit, Holder, RolloutId};
use prodspec_model::{
    Asset, AssetId, Digest, IncarnationNo, PartitionId, SourceName, rollout::RollOut,
};
use serde::{Deserialize, Serialize};

use crate::record::{Quarantined, Rollout, State, TargetRecord, name, named};

/// Maximum number of assets beside a change that are stored for other reasons than a person's edit, so that the record fits
/// into the store. Others are found again.
pub(crate) const BESIDE: usize = 2000;

/// Maximum length of the name of a change that is requested, in bytes.
const NAME: usize = 60;

/// Room for the other records of the commit that hands a change over, in bytes.
const REST: usize = 256 * 1024;

/// The beginning of the keys of changes.
const KEYS: &str = "rollout/";

/// The key of the change with this name: the name under which its rollout is recorded and commanded.
///
/// # Errors
/// When the name is not one of a change.
pub fn key_of(name: &str) -> Result<AssetId, BoxError> {
    Ok(AssetId::new(&format!("{KEYS}{name}"))?)
}

/// The key of a change that a person or an asset requests: 1 to 60 letters, digits, hyphens, dots and underscores. Names with
/// other characters are those of stages of trains.
///
/// # Errors
/// When the name is not one.
pub fn requested_key(name: &str) -> Result<AssetId, BoxError> {
    let is_known = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_known) {
        let why = format!(
            "`{name}` is not the name of a change: use 1 to {NAME} letters, digits, hyphens, dots and underscores"
        );
        return Err(why.into());
    }
    key_of(name)
}

/// Whether this is the key of a change, and not a policy asset.
pub fn is_key(id: &AssetId) -> bool {
    name_of(id).is_some()
}

/// The name of the change with this key. `None`: it is that of a policy asset.
pub fn name_of(key: &AssetId) -> Option<&str> {
    key.as_str().strip_prefix(KEYS)
}

/// A change that has begun, for ever: its name is given once for each number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RollOutRecord {
    /// The change, as it was requested.
    pub(crate) change: RollOut,
    /// Which of the changes with this name it is, from 1.
    pub(crate) number: u64,
    /// The source whose fields it sets.
    pub(crate) source: SourceName,
    /// The person who began it, and the reason.
    pub(crate) by: By,
    /// Time at which it began.
    pub(crate) at: Timestamp,
    /// The incarnation that was in force then.
    pub(crate) base: IncarnationNo,
    /// Assets that match its filter and are not its targets: they had the values already, or a person has set their fields.
    #[serde(default)]
    pub(crate) beside: BTreeSet<AssetId>,
    /// The values that it set before those of `change`, oldest first.
    #[serde(default)]
    pub(crate) earlier: Vec<Version>,
}

/// One version of the values of a change, until it was handed over to the next one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// The rollout that took over with the next version.
    pub(crate) until: RolloutId,
    /// The last number that the incarnation with these values had.
    pub(crate) last: IncarnationNo,
}

impl Record for RollOutRecord {
    const KIND: &'static str = "roll-out";
}

/// One target of a live change. Named by key and asset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RollOutTarget {
    /// The key of the change.
    pub(crate) key: AssetId,
    /// The fields that it sets for the target, with their values before and after.
    pub(crate) edits: Vec<FieldEdit>,
    /// The edit by which they were reserved.
    pub(crate) reserved: ChangeId,
    /// Canonical JSON of the target before the change.
    pub(crate) before: String,
    /// Canonical JSON of the target with all fields of the change set.
    pub(crate) after: String,
    /// The rollout in which it came, if the asset was not there when the change began.
    #[serde(default)]
    pub(crate) late_in: Option<RolloutId>,
    /// Its values and contents in earlier versions of the change, oldest first.
    #[serde(default)]
    pub(crate) earlier: Vec<Earlier>,
}

/// A target in an earlier version of its change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Earlier {
    /// The number of the version, from 0.
    pub(crate) version: usize,
    /// The fields that the version sets, with their values before and after.
    pub(crate) edits: Vec<FieldEdit>,
    /// Digest of the target with these, in the group of the change.
    pub(crate) content: Option<Digest>,
}

impl Record for RollOutTarget {
    const KIND: &'static str = "roll-out-target";
    const SAME: &'static [&'static str] = &["key"];
}

/// A change with all its stored data.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) record: RollOutRecord,
    pub(crate) rollout: Rollout,
    pub(crate) targets: Vec<(AssetId, RollOutTarget)>,
    pub(crate) rows: Vec<(AssetId, TargetRecord)>,
    pub(crate) quarantine: Vec<(AssetId, Quarantined)>,
}

/// A target of a change that is going to begin.
#[derive(Debug, Clone)]
pub struct PlannedTarget {
    /// The asset before the change.
    pub before: Asset,
    /// The asset with all fields of the change set.
    pub after: Asset,
    /// The fields that are set for it. Targets with the same field are updated together.
    pub edits: Vec<FieldEdit>,
    /// The edit by which its fields were reserved. A target that is removed and comes again has another one.
    pub reserved: ChangeId,
}

impl PlannedTarget {
    fn stored(&self, key: &AssetId, late_in: Option<RolloutId>) -> (AssetId, RollOutTarget) {
        let row = RollOutTarget {
            key: key.clone(),
            edits: self.edits.clone(),
            reserved: self.reserved.clone(),
            before: self.before.canonical().to_owned(),
            after: self.after.canonical().to_owned(),
            late_in,
            earlier: Vec::new(),
        };
        (self.before.id(), row)
    }
}

/// A live change with the fields of its targets.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LiveChange {
    /// The key of the change.
    pub key: AssetId,
    /// The change, as it was requested.
    pub change: RollOut,
    /// The person who began it, and the reason.
    pub by: By,
    /// The program that holds its fields.
    pub holder: Holder,
    /// The source whose fields it sets.
    pub source: SourceName,
    /// The assets that have come and may join it, sorted by id.
    pub arrivals: Vec<AssetId>,
    /// The fields of the targets so far, with the values that the change knows and the newest one, each with its targets.
    pub known: Vec<(FieldEdit, Vec<AssetId>)>,
    /// The number of its present version, from 0.
    pub(crate) version: usize,
    /// Its rollout.
    pub(crate) rollout: RolloutId,
}

impl LiveChange {
    /// The commit of the records of new targets.
    ///
    /// # Errors
    /// When a record is too large.
    pub fn batch(
        &self,
        partition: &PartitionId,
        targets: &[PlannedTarget],
    ) -> Result<Batch, Error> {
        let rows = targets
            .iter()
            .map(|it| it.stored(&self.key, Some(self.rollout)));
        put_targets(Batch::new(), partition, &self.key, rows)
    }
}

/// Other values of a live change, which were tried.
#[derive(Debug, Clone)]
pub struct HandOver {
    pub(crate) key: AssetId,
    pub(crate) holder: Holder,
    pub(crate) change: RollOut,
    /// The number of the version with these values.
    pub(crate) version: usize,
    /// The targets with the other values.
    pub(crate) targets: Vec<(AssetId, RollOutTarget)>,
}

impl HandOver {
    /// Prepares to give the fields of `live` the values of `change`. `after`: each target with these values set, and its fields.
    ///
    /// # Errors
    /// When the records of the targets cannot be read, or are too large for one commit.
    pub async fn prepare(
        store: &(impl Store + ?Sized),
        partition: &PartitionId,
        live: &LiveChange,
        change: RollOut,
        after: Vec<(Asset, Vec<FieldEdit>)>,
    ) -> Result<Self, BoxError> {
        let (mut targets, mut bytes) = (Vec::new(), 0);
        for (after, edits) in after {
            let asset = after.id();
            let named = name(&live.key, &asset);
            let row = record::load::<RollOutTarget>(store, partition, &named).await?;
            let Some(mut row) = row.map(|row| row.value) else {
                continue;
            };
            row.earlier.push(Earlier {
                version: live.version,
                edits: row.edits.clone(),
                content: Some(after.digest()),
            });
            row.late_in = None;
            for edit in &mut row.edits {
                let other = edits
                    .iter()
                    .find(|it| it.document == edit.document && it.path == edit.path);
                if let Some(other) = other {
                    edit.to.clone_from(&other.to);
                }
            }
            after.canonical().clone_into(&mut row.after);
            bytes += record::put(partition, &named, &row)?.bytes();
            targets.push((asset, row));
        }
        if bytes > limit::BATCH - REST {
            let many = targets.len();
            return Err(format!("the records of {many} targets are too large for one commit: abort the change, and begin one with another name").into());
        }
        Ok(Self {
            key: live.key.clone(),
            holder: live.holder.clone(),
            change,
            version: live.version + 1,
            targets,
        })
    }
}

fn put_targets(
    mut batch: Batch,
    partition: &PartitionId,
    key: &AssetId,
    targets: impl Iterator<Item = (AssetId, RollOutTarget)>,
) -> Result<Batch, Error> {
    for (asset, target) in targets {
        batch = batch.write(record::put(partition, &name(key, &asset), &target)?);
    }
    Ok(batch)
}

/// A change that was tried and may begin.
#[derive(Debug, Clone)]
pub struct Planned(Stored);

impl Planned {
    /// Creates the change number `number` of its name, with these targets, at the incarnation `base`. The assets of
    /// `beside` have the values already.
    ///
    /// # Errors
    /// When the name of the change is not one.
    pub fn new(
        (change, by): (RollOut, By),
        (number, first): (u64, RolloutId),
        (base, at): (IncarnationNo, Timestamp),
        source: SourceName,
        targets: &[PlannedTarget],
        beside: BTreeSet<AssetId>,
    ) -> Result<Self, BoxError> {
        let key = key_of(&change.name)?;
        let mut rollout = Rollout::new(first, key.clone(), Some(base), base.next(), at);
        let many = targets.len();
        rollout.note(at, format!("began with {many} targets"), Some(by.clone()));
        if targets.is_empty() {
            (rollout.state, rollout.ended_at) = (State::Completed, Some(at));
        }
        Ok(Self(Stored {
            targets: targets.iter().map(|it| it.stored(&key, None)).collect(),
            rows: Vec::new(),
            quarantine: Vec::new(),
            rollout,
            record: RollOutRecord {
                change,
                number,
                source,
                by,
                at,
                base,
                beside: beside.into_iter().take(BESIDE).collect(),
                earlier: Vec::new(),
            },
        }))
    }

    /// Reads the change with this key whose records are in the store, and which has made no step since. `None`: it is over.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn begun(
        store: &(impl Store + ?Sized),
        partition: &PartitionId,
        key: &AssetId,
    ) -> Result<Option<Self>, BoxError> {
        let found = newest(store, partition, key).await?;
        let live = found.filter(|(_, rollout)| !rollout.state.has_ended());
        let Some((stored, rollout)) = live else {
            return Ok(None);
        };
        let all = record::load_all::<RollOutTarget>(store, partition).await?;
        let ours = all.into_iter().filter(|(_, it)| it.value.key == *key);
        let targets = ours.filter_map(|(name, it)| Some((named(key, &name)?, it.value)));
        Ok(Some(Self(Stored {
            targets: targets.collect(),
            rows: Vec::new(),
            quarantine: Vec::new(),
            rollout,
            record: stored.value,
        })))
    }

    /// The key of the change.
    pub fn key(&self) -> &AssetId {
        &self.0.rollout.policy
    }

    /// The program that holds the fields of the change number `number` with a name.
    ///
    /// # Errors
    /// When the name is not one of a change.
    pub fn holder_of(name: &str, number: u64) -> Result<Holder, BoxError> {
        Ok(holder(&key_of(name)?, number))
    }

    /// The commit of the records of the change, which fails if another change has taken the name. The change begins when they
    /// are in the store, and the strategist knows it. `known`: the newest change with the name before.
    ///
    /// # Errors
    /// When a record is too large.
    pub fn batch(&self, partition: &PartitionId, known: Option<&Known>) -> Result<Batch, Error> {
        let Stored {
            record,
            rollout,
            targets,
            ..
        } = &self.0;
        let key = self.key();
        let row = record::key(partition, RollOutRecord::KIND, key.as_str());
        let expected = known.map_or(Expect::Absent, |known| Expect::At(known.version));
        let batch = Batch::new()
            .expect(row, expected)
            .write(record::put(partition, key.as_str(), record)?)
            .write(record::put(
                partition,
                &Rollout::name(key, rollout.id),
                rollout,
            )?);
        let old = Rollout::forgotten_for(rollout.id);
        let old = old.map(|id| record::delete::<Rollout>(partition, &Rollout::name(key, id)));
        let batch = old.into_iter().fold(batch, Batch::write);
        put_targets(batch, partition, key, targets.iter().cloned())
    }

    /// Number of targets that it updates.
    pub fn len(&self) -> usize {
        self.0.targets.len()
    }

    /// Whether all targets have the values already, so that the change has ended.
    pub fn is_empty(&self) -> bool {
        self.0.targets.is_empty()
    }

    pub(crate) fn stored(&self) -> &Stored {
        &self.0
    }

    pub(crate) fn into_stored(self) -> Stored {
        self.0
    }
}

/// The newest change with a name.
#[derive(Debug, Clone)]
pub struct Known {
    /// The change, as it was requested.
    pub change: RollOut,
    /// Which of the changes with this name it is, from 1.
    pub number: u64,
    /// The person or the program that began it, and the reason.
    pub by: By,
    /// The newest rollout of the change.
    pub rollout: Rollout,
    version: Stamp,
}

impl Known {
    /// Reads the newest change with a name. `None`: no change has had the name.
    ///
    /// # Errors
    /// When the name is not one of a change, or the store cannot be read.
    pub async fn of(
        store: &(impl Store + ?Sized),
        partition: &PartitionId,
        name: &str,
    ) -> Result<Option<Self>, BoxError> {
        let key = key_of(name)?;
        let Some((stored, rollout)) = newest(store, partition, &key).await? else {
            return Ok(None);
        };
        Ok(Some(Self {
            change: stored.value.change,
            number: stored.value.number,
            by: stored.value.by,
            rollout,
            version: stored.version,
        }))
    }
}

/// The newest change with a key, and its newest rollout.
async fn newest(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
    key: &AssetId,
) -> Result<Option<(record::Stored<RollOutRecord>, Rollout)>, BoxError> {
    let stored = record::load::<RollOutRecord>(store, partition, key.as_str()).await?;
    let Some(stored) = stored else {
        return Ok(None);
    };
    let rollouts = record::load_all::<Rollout>(store, partition).await?;
    let rollouts = rollouts.into_iter().map(|(_, stored)| stored.value);
    let ours = rollouts.filter(|rollout| rollout.policy == *key);
    let newest = ours.max_by_key(|rollout| rollout.id);
    let rollout = newest.ok_or("the rollout of a change is not in the store")?;
    Ok(Some((stored, rollout)))
}

impl Stored {
    /// The program that holds the fields of the change.
    pub(crate) fn holder(&self) -> Holder {
        holder(&self.rollout.policy, self.record.number)
    }
}

impl RollOutRecord {
    /// Whether a rollout was one to earlier values.
    pub(crate) fn is_over(&self, rollout: RolloutId) -> bool {
        self.earlier.last().is_some_and(|it| rollout < it.until)
    }

    /// The program that holds the fields of the change with this key.
    pub(crate) fn holder(&self, key: &AssetId) -> Holder {
        holder(key, self.number)
    }
}

fn holder(key: &AssetId, number: u64) -> Holder {
    format!("{key}#{number}").into()
}
