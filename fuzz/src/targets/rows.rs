//! Rows of a store with sealed incarnations: a damaged row is noticed, or everything is read as it was sealed.
//!
//! An input is the key of one row in a line, then its value.

use std::sync::Arc;

use control_plane_store::{Batch, Key, KeyRange, MemoryStore, Store, incarnations::Incarnations};
use futures::executor::block_on;
use jiff::Timestamp;
use prodspec_model::{
    Incarnation, IncarnationId, IncarnationNo, PartitionId, Snapshot, incarnation::Header,
};

use super::{parts, snapshots::edited};
use crate::target::{Broken, Class, Effort, Target, law};

/// The rows of a store.
#[derive(Debug)]
pub(crate) struct Rows {
    rows: Vec<(Key, Vec<u8>)>,
    /// What was sealed, the first incarnation first.
    pub(crate) sealed: Vec<Snapshot>,
}

impl Rows {
    /// Seals some incarnations.
    pub(crate) fn new() -> Self {
        let nothing = Self {
            rows: Vec::new(),
            sealed: Vec::new(),
        };
        block_on(seal()).unwrap_or(nothing)
    }
}

fn partition() -> Option<PartitionId> {
    "shop".parse().ok()
}

async fn seal() -> Option<Rows> {
    let store = Arc::new(MemoryStore::new());
    let incarnations = Incarnations::new(Arc::clone(&store), partition()?);
    let (mut head, mut sealed) = (None, Vec::new());
    for (no, assets) in (1..).map(IncarnationNo).zip([3, 40, 39]) {
        let last = sealed.last().cloned().unwrap_or_default();
        let snapshot = edited(&last, no, assets);
        let parent = Some(IncarnationNo(no.0 - 1)).filter(|parent| parent.0 > 0);
        let header = Header::new(
            IncarnationId::new(partition()?, no),
            parent,
            &snapshot,
            Timestamp::UNIX_EPOCH,
        );
        let incarnation = Incarnation::new(header, snapshot.clone());
        head = Some(
            incarnations
                .seal(&incarnation, head.as_ref(), Batch::new())
                .await
                .ok()?,
        );
        sealed.push(snapshot);
    }
    let mut rows = Vec::new();
    let mut rest = Some(KeyRange::all());
    while let Some(range) = rest {
        let page = store.scan(range, 100).await.ok()?;
        rows.extend(
            page.rows
                .into_iter()
                .map(|(key, row)| (key, row.value.to_vec())),
        );
        rest = page.rest;
    }
    Some(Rows { rows, sealed })
}

impl Target for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let line = |(key, value): &(Key, Vec<u8>)| [key.as_str().as_bytes(), b"\n", value].concat();
        self.rows.iter().map(line).collect()
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let (key, value) = parts::line(input);
        let key = String::from_utf8_lossy(key);
        let others = self.rows.iter().filter(|(other, _)| other.as_str() != key);
        let mut batch = Batch::new().put(Key::from(&*key), value.to_vec());
        for (key, value) in others {
            batch = batch.put(key.clone(), value.clone());
        }
        let store = Arc::new(MemoryStore::new());
        match block_on(store.commit(batch)) {
            Ok(_) => block_on(self.read(store)),
            Err(error) => Ok(Class::refused(&error.to_string())),
        }
    }
}

impl Rows {
    /// Reads everything, and compares it with what was sealed.
    async fn read(&self, store: Arc<MemoryStore>) -> Result<Class, Broken> {
        const LAW: &str = "an incarnation is read as it was sealed, or its damage is noticed";
        let Some(partition) = partition() else {
            return Ok(Class::accepted(&[]));
        };
        let incarnations = Incarnations::new(store, partition);
        let mut class = match incarnations.latest().await {
            Ok(latest) => {
                let fits = latest
                    .as_ref()
                    .is_none_or(|latest| self.is_sealed(latest.no(), latest));
                law(fits, LAW, || format!("{latest:?}"))?;
                Class::accepted(&[1])
            }
            Err(error) => Class::refused(&error.to_string()),
        };
        for no in (1..=self.sealed.len() as u32).map(IncarnationNo) {
            class = class.and(match incarnations.load(no).await {
                Ok(loaded) => {
                    law(self.is_sealed(no, &loaded), LAW, || {
                        format!("{no}: {loaded:?}")
                    })?;
                    Class::accepted(&[no.0 as usize])
                }
                Err(error) => Class::refused(&error.to_string()),
            });
        }
        let headers = incarnations.headers(IncarnationNo(0), 100).await;
        Ok(class.and(Class::accepted(&[usize::from(headers.is_ok())])))
    }

    /// Whether the incarnation `no` is the one that was sealed, with all its assets.
    fn is_sealed(&self, no: IncarnationNo, found: &Incarnation) -> bool {
        let sealed =
            no.0.checked_sub(1)
                .and_then(|nth| self.sealed.get(nth as usize));
        let forms = |it: &Snapshot| {
            it.iter()
                .map(|asset| asset.canonical().to_owned())
                .collect::<Vec<_>>()
        };
        let same = |sealed: &Snapshot| {
            sealed.digest() == found.header().digest && forms(sealed) == forms(found.snapshot())
        };
        found.no() == no && sealed.is_some_and(same)
    }
}
