//! Reads the incarnations and the records of earlier owners from the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use control_plane_runtime::{Outage, Runtime};
use control_plane_store::{
    Store,
    incarnations::{self, Incarnations},
    record::{self, Record, Rewrites},
    records::{Approval, AssetRecord, Floor, Orphaned, Override, Owned, Pause, Taken},
};
use futures::{StreamExt, channel::mpsc::UnboundedSender, future::Either};
use plugin_sdk::{GroupHead, Pin};
use prodspec_model::{Asset, AssetId, Incarnation, IncarnationNo, PartitionId};

use super::{error::Error, input::Input};
use crate::kernel::{AtFloor, Event, Interventions, Recovered};

/// The period at which the newest incarnation is looked up even without a hint: hints may be lost.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The wait before a read that failed is tried again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Reads one partition's incarnations and records.
pub(super) struct Intent<R> {
    runtime: R,
    store: Arc<dyn Store>,
    partition: PartitionId,
    incarnations: Arc<Incarnations<dyn Store>>,
    /// What is unknown in the records that were read: the journal writer keeps it.
    rewrites: Rewrites,
    /// Whether reads are repeated while the store cannot be reached; otherwise they fail.
    patient: bool,
}

impl<R: Runtime> Intent<R> {
    pub(super) fn new(
        runtime: R,
        store: Arc<dyn Store>,
        partition: PartitionId,
        incarnations: Arc<Incarnations<dyn Store>>,
        rewrites: Rewrites,
    ) -> Self {
        Self {
            runtime,
            store,
            partition,
            incarnations,
            rewrites,
            patient: false,
        }
    }

    /// What is unknown in the records that were read.
    pub(super) fn rewrites(&self) -> Rewrites {
        self.rewrites.clone()
    }

    /// Repeats a read that fails because the store cannot be reached, and only that read, so that a takeover succeeds with
    /// a store that often fails.
    pub(super) fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// Reads all records of the partition, whose newest incarnation is `newest`.
    pub(super) async fn recover(self, newest: Incarnation) -> Result<(Recovered, Self), Error> {
        let recovered = self.remembered(newest).await?;
        Ok((recovered, self))
    }

    /// Whether the partition has an incarnation.
    pub(super) async fn has_any(&self) -> Result<bool, Error> {
        let head = async || self.incarnations.head().await.map_err(Error::Incarnation);
        Ok(self.read(head).await?.is_some())
    }

    /// Reads once; in a recovery, repeats the read until the store can be reached.
    async fn read<T, F>(&self, read: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut told = false;
        loop {
            match read().await {
                Err(error) if error.passes() && self.patient => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(%error, "cannot read the records of the partition; trying again");
                    }
                    self.runtime.sleep(READ_AGAIN).await;
                }
                read => return read,
            }
        }
    }

    async fn load<T: Record>(&self) -> Result<Option<T>, Error> {
        let load = async || Ok(record::load::<T>(&*self.store, &self.partition, "").await?);
        let stored = self.read(load).await?;
        Ok(stored.map(|stored| {
            self.rewrites.note(&self.partition, "", &stored);
            stored.value
        }))
    }

    /// Reads all records of the partition, with `newest` as the newest incarnation.
    pub(super) async fn remembered(&self, newest: Incarnation) -> Result<Recovered, Error> {
        let taken = self.load::<Taken>().await?;
        let taken = match taken.map(|taken| taken.incarnation) {
            Some(no) if no < newest.no() => self.kept(no).await?,
            taken => taken.map(|_| newest.clone()),
        };
        let newer = taken.as_ref().filter(|taken| taken.no() < newest.no());
        let newer = newer.map(|_| newest.clone());
        let floor = self.load::<Floor>().await?;
        let floor = match floor {
            Some(Floor { incarnation, types }) => {
                let kept = self.kept(incarnation).await?;
                kept.map(|incarnation| AtFloor { incarnation, types })
            }
            None => None,
        };
        let mut orphans = Vec::new();
        for (_, orphaned) in self.all::<Orphaned>().await? {
            let last = self.kept(orphaned.last).await?;
            orphans.push((orphaned, last));
        }
        let assets = named(self.all::<AssetRecord>().await?);
        let named = self.named(&newest, &assets).await?;
        let owned = self.load::<Owned>().await?;
        // An earlier owner that recorded the incarnation it took in has seen all assets that left intent before.
        let gone = match &taken {
            Some(_) => Vec::new(),
            None => {
                self.gone(
                    &newest,
                    floor.as_ref().map(|floor| &floor.incarnation),
                    &assets,
                    &orphans,
                )
                .await?
            }
        };
        Ok(Recovered {
            floor,
            orphans,
            gone,
            assets,
            named,
            owned: owned.unwrap_or_default(),
            pins: self.pins().await?,
            heads: self.heads().await?,
            interventions: self.words().await?,
            latest: taken.unwrap_or(newest),
            newer,
        })
    }

    /// The incarnations that records name: those of assets that settled with another content than the newest, and those
    /// of open pushes.
    async fn named(
        &self,
        latest: &Incarnation,
        records: &[(AssetId, AssetRecord)],
    ) -> Result<BTreeMap<IncarnationNo, Incarnation>, Error> {
        let edited = |(id, record): &(AssetId, AssetRecord)| {
            let settled = record.settled.as_ref()?;
            let newest = latest.asset(id).map(|asset| asset.digest());
            (newest != Some(settled.content)).then_some(settled.incarnation)
        };
        let pushed = records
            .iter()
            .filter_map(|(_, record)| Some(record.open.as_ref()?.incarnation));
        let wanted: BTreeSet<IncarnationNo> =
            records.iter().filter_map(edited).chain(pushed).collect();
        let mut named = BTreeMap::new();
        for no in wanted {
            named.extend(self.kept(no).await?.map(|incarnation| (no, incarnation)));
        }
        Ok(named)
    }

    /// Assets that have records, are not orphans, and are not in `latest`: they left intent while no owner ran. Each
    /// comes with the newest incarnation that has it.
    async fn gone(
        &self,
        latest: &Incarnation,
        floor: Option<&Incarnation>,
        records: &[(AssetId, AssetRecord)],
        orphans: &[(Orphaned, Option<Incarnation>)],
    ) -> Result<Vec<(Asset, Incarnation)>, Error> {
        let before = |floor: &Incarnation| floor.snapshot().diff(latest.snapshot());
        let floor = floor.map(before).unwrap_or_default();
        let left = floor.iter().filter(|change| change.after.is_none());
        let known = records.iter().map(|(id, _)| id.clone());
        let mut missing: BTreeSet<AssetId> = known.chain(left.map(|change| change.id())).collect();
        missing.retain(|id| latest.asset(id).is_none());
        for (orphan, _) in orphans {
            if let Ok(asset) = Asset::try_from(orphan.asset.as_str()) {
                missing.remove(&asset.id());
            }
        }
        let (mut found, mut parent) = (Vec::new(), latest.header().parent);
        while let Some(no) = parent.filter(|_| !missing.is_empty()) {
            let Some(older) = self.kept(no).await? else {
                break;
            };
            missing.retain(|id| match older.asset(id) {
                Some(asset) => {
                    found.push((asset, older.clone()));
                    false
                }
                None => true,
            });
            parent = older.header().parent;
        }
        if !missing.is_empty() {
            tracing::warn!(
                ?missing,
                "assets left intent, and their last incarnation is gone; not listing them as orphans"
            );
        }
        Ok(found)
    }

    /// All records of one kind, with their names.
    async fn all<T: Record>(&self) -> Result<Vec<(String, T)>, Error> {
        let load = async || Ok(record::load_all::<T>(&*self.store, &self.partition).await?);
        let all = self.read(load).await?;
        let noted = |(name, stored): (String, record::Stored<T>)| {
            self.rewrites.note(&self.partition, &name, &stored);
            (name, stored.value)
        };
        Ok(all.into_iter().map(noted).collect())
    }

    /// Waits for the first incarnation.
    pub(super) async fn first(&self) -> Result<Incarnation, Error> {
        let mut hints = self.store.watch(self.incarnations.topic());
        loop {
            if let Some(latest) = self.read(|| self.latest()).await? {
                return Ok(latest);
            }
            futures::future::select(hints.next(), self.runtime.sleep(LOOK_EVERY)).await;
        }
    }

    pub(super) async fn latest(&self) -> Result<Option<Incarnation>, Error> {
        self.incarnations.latest().await.map_err(Error::Incarnation)
    }

    /// The newest incarnation, or `None` if it is not newer than `seen`; that costs one small read.
    async fn newer_than(&self, seen: IncarnationNo) -> Result<Option<Incarnation>, Error> {
        let head = self.incarnations.head().await.map_err(Error::Incarnation)?;
        match head {
            Some(head) if head.no > seen => self.latest().await,
            _ => Ok(None),
        }
    }

    /// Loads an incarnation; `None` if retention has removed it.
    async fn kept(&self, no: IncarnationNo) -> Result<Option<Incarnation>, Error> {
        let load = async || match self.incarnations.load(no).await {
            Ok(incarnation) => Ok(Some(incarnation)),
            Err(incarnations::Error::Unknown(_)) => Ok(None),
            Err(error) => Err(Error::Incarnation(error)),
        };
        self.read(load).await
    }

    async fn pins(&self) -> Result<Vec<(AssetId, Pin<Incarnation>)>, Error> {
        let mut pins = Vec::new();
        for (asset, pin) in named(self.all::<Pin>().await?) {
            let pin = match pin {
                Pin::At(incarnation, cause) => match self.kept(incarnation).await? {
                    Some(incarnation) => Pin::At(incarnation, cause),
                    // Fail static: an intent that cannot be read is not replaced by another one.
                    None => Pin::NotYet,
                },
                Pin::NotYet => Pin::NotYet,
                Pin::Default => continue,
            };
            pins.push((asset, pin));
        }
        Ok(pins)
    }

    async fn heads(&self) -> Result<Vec<(AssetId, GroupHead<Incarnation>)>, Error> {
        let mut heads = Vec::new();
        for (policy, head) in named(self.all::<GroupHead>().await?) {
            let no = match head {
                GroupHead::At(no) => no,
                GroupHead::Latest => {
                    heads.push((policy, GroupHead::Latest));
                    continue;
                }
                // The assets are left alone.
                GroupHead::Unknown => continue,
            };
            match self.kept(no).await? {
                Some(incarnation) => heads.push((policy, GroupHead::At(incarnation))),
                None => {
                    tracing::warn!(%policy, %no, "the incarnation that a policy group completed last is gone; leaving its assets alone until the next rollout")
                }
            }
        }
        Ok(heads)
    }

    /// The pauses, approvals and overrides of operators, including those that are used up or have ended.
    pub(super) async fn words(&self) -> Result<Interventions, Error> {
        Ok(Interventions {
            pauses: self
                .all::<Pause>()
                .await?
                .into_iter()
                .map(|(_, word)| word)
                .collect(),
            approvals: self
                .all::<Approval>()
                .await?
                .into_iter()
                .map(|(_, word)| word)
                .collect(),
            overrides: self
                .all::<Override>()
                .await?
                .into_iter()
                .map(|(_, word)| word)
                .collect(),
        })
    }

    /// Publishes every newer incarnation to the kernel, until the enforcer has gone.
    pub(super) async fn follow(self: Arc<Self>, events: UnboundedSender<Input>) {
        let mut hints = self.store.watch(self.incarnations.topic());
        let mut seen = IncarnationNo::default();
        let mut outage = Outage::default();
        loop {
            let newer = self.newer_than(seen).await;
            let now = self.runtime.now().mono;
            if newer.is_ok() {
                outage.over(now, "reading the newest incarnation");
            }
            match newer {
                Ok(Some(latest)) => {
                    seen = latest.no();
                    if events
                        .unbounded_send(Input::Kernel(Event::Publish(latest)))
                        .is_err()
                    {
                        return;
                    }
                }
                Ok(None) => {}
                Err(error) if outage.failed(now) => {
                    tracing::warn!(%error, "cannot read the newest incarnation; the last one stays in force");
                }
                Err(_) => {}
            }
            let hint = futures::future::select(hints.next(), self.runtime.sleep(LOOK_EVERY)).await;
            // The store is closed and gives no more hints: wait for the next look-up.
            if let Either::Left((None, sleep)) = hint {
                sleep.await;
            }
        }
    }
}

fn named<T>(all: Vec<(String, T)>) -> Vec<(AssetId, T)> {
    all.into_iter()
        .filter_map(|(name, value)| Some((AssetId::new(&name).ok()?, value)))
        .collect()
}
