//! What the control plane's directory holds while no control plane runs.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use control_plane::{
    prelude::*,
    store::{
        incarnations::Incarnations,
        record,
        records::{AssetRecord, Owned},
    },
};
use serde::{Deserialize, Serialize};

use crate::child::{PARTITION, Service};

/// See the module.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// The incarnation in force.
    pub(crate) latest: Option<Sealed>,
    /// For how long the partition has been owned.
    pub(crate) owned: Duration,
    /// Pushes without an outcome, each with when it is over for certain, as a value of `owned`.
    pub(crate) open: BTreeMap<String, Duration>,
}

/// An incarnation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Sealed {
    pub(crate) no: u32,
    pub(crate) digest: String,
}

impl Remembered {
    pub(crate) async fn read(store: &SqliteStore) -> Self {
        let assets = record::load_all::<AssetRecord>(store, &partition()).await;
        let open = |(asset, record): (String, record::Stored<AssetRecord>)| {
            Some((asset, record.value.open?.until))
        };
        let incarnations = Incarnations::new(Arc::new(store.clone()), partition());
        let head = incarnations.head().await.unwrap();
        Self {
            latest: head.map(|head| Sealed {
                no: head.no.0,
                digest: head.digest.to_string(),
            }),
            owned: owned(store).await,
            open: assets.unwrap().into_iter().filter_map(open).collect(),
        }
    }

    /// What is in `dir`, which no process has open.
    pub(crate) async fn at_rest(dir: &Path) -> Self {
        Self::read(&SqliteStore::open(dir.join("state")).unwrap()).await
    }
}

/// What the incarnation in force has, in `dir`, which no process has open.
pub(crate) async fn in_force(dir: &Path) -> BTreeMap<String, u64> {
    let store = SqliteStore::open(dir.join("state")).unwrap();
    let incarnations = Incarnations::new(Arc::new(store), partition());
    let latest = incarnations.latest().await.unwrap().unwrap();
    let version = |asset: Asset| asset.payload::<Service>().unwrap().version;
    let assets = latest.snapshot().iter();
    assets
        .map(|asset| (asset.id_str().to_owned(), version(asset)))
        .collect()
}

/// For how long the partition has been owned, as far as that is durable.
pub(crate) async fn owned(store: &SqliteStore) -> Duration {
    let owned = record::load::<Owned>(store, &partition(), "").await;
    owned.unwrap().map_or(Duration::ZERO, |it| it.value.total)
}

fn partition() -> PartitionId {
    PartitionId::new(PARTITION).unwrap()
}
