//! The durable state in the control plane's directory.

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

/// Durable state of the partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// Incarnation in force; `None` if there is none yet.
    pub(crate) latest: Option<Sealed>,
    /// Total time for which the partition has been owned.
    pub(crate) owned: Duration,
    /// Open pushes, each with the value of `owned` at which it has certainly ended.
    pub(crate) open: BTreeMap<String, Duration>,
}

/// Number and digest of an incarnation.
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

    /// Reads the state in `dir`. No process may have it open.
    pub(crate) async fn at_rest(dir: &Path) -> Self {
        Self::read(&SqliteStore::open(dir.join("state")).unwrap()).await
    }
}

/// Reads the versions of the incarnation in force in `dir`. No process may have it open.
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

/// Reads the total time for which the partition has been owned, according to the store.
pub(crate) async fn owned(store: &SqliteStore) -> Duration {
    let owned = record::load::<Owned>(store, &partition(), "").await;
    owned.unwrap().map_or(Duration::ZERO, |it| it.value.total)
}

fn partition() -> PartitionId {
    PartitionId::new(PARTITION).unwrap()
}
