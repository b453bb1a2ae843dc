//! A store whose commits can be held back.

use async_trait::async_trait;
use control_plane::store::{
    Batch, CommitError, Error, Key, KeyRange, MemoryStore, Page, Store, Topic, Version, Versioned,
    Write,
};
use futures::stream::BoxStream;
use std::sync::Arc;
use tokio::sync::watch;

/// A store that holds back the commits which delete a record of one kind.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    store: Arc<MemoryStore>,
    /// The kind of these records. Empty: none is held back.
    holds: watch::Sender<&'static str>,
    /// The kind of the records whose commits are made without an answer. Empty: none is.
    loses: watch::Sender<&'static str>,
}

impl Gate {
    pub(crate) fn hold_deletions_of(&self, kind: &'static str) {
        self.holds.send_replace(kind);
    }

    /// The commits that write a record of this kind are made, and their answers are lost.
    pub(crate) fn lose_answers_of(&self, kind: &'static str) {
        self.loses.send_replace(kind);
    }

    pub(crate) fn let_go(&self) {
        self.holds.send_replace("");
        self.loses.send_replace("");
    }
}

#[async_trait]
impl Store for Gate {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Error> {
        self.store.get(keys).await
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, Error> {
        self.store.scan(range, limit).await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        let mut holds = self.holds.subscribe();
        let is_held = |kind: &&'static str| {
            let of_kind = |key: &Key| !kind.is_empty() && key.as_str().contains(*kind);
            let mut writes = batch.writes.iter();
            writes.any(|write| matches!(write, Write::Delete(key) if of_kind(key)))
        };
        // It ends with the test.
        let _ = holds.wait_for(|kind| !is_held(kind)).await;
        let lost = *self.loses.borrow();
        let of_kind = |key: &Key| !lost.is_empty() && key.as_str().contains(lost);
        let mut writes = batch.writes.iter();
        let is_lost = writes.any(|write| matches!(write, Write::Put(key, _) if of_kind(key)));
        let made = self.store.commit(batch).await;
        match is_lost {
            true => made.and(Err(CommitError::unknown("the connection was lost"))),
            false => made,
        }
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        self.store.watch(topic)
    }
}
