//! The conformance suite (feature `testing`): checks that a backend keeps the guarantees of [`Store`]. Every backend
//! has to pass it. [`record()`] and [`words()`] check a type of records.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test suite: a failure is a panic"
)]

use std::sync::Arc;

use async_trait::async_trait;

use crate::Store;

mod commits;
mod reads;
mod record;

pub use record::{record, words};

/// Creates stores of the backend under test.
///
/// ```
/// use std::sync::Arc;
/// use control_plane_store::{MemoryStore, Store, conformance::{self, Factory}};
///
/// struct Memory;
/// #[async_trait::async_trait]
/// impl Factory for Memory {
///     type Store = MemoryStore;
///     async fn create(&self) -> MemoryStore { MemoryStore::new() }
///     async fn reopen(&self, store: MemoryStore) -> MemoryStore { store.crash() }
/// }
/// futures::executor::block_on(conformance::run(&Memory));
/// ```
#[async_trait]
pub trait Factory: Send + Sync {
    /// Type of the backend under test.
    type Store: Store;

    /// Creates a new, empty store that shares no data with earlier ones.
    async fn create(&self) -> Self::Store;

    /// Ends `store` as abruptly as possible and opens it again.
    async fn reopen(&self, store: Self::Store) -> Self::Store;
}

/// Runs every case of the suite, each on a store of its own.
///
/// # Panics
/// If the backend breaks a guarantee.
pub async fn run<F: Factory>(factory: &F) {
    commits::versions_rise(&*shared(factory).await).await;
    commits::versions_are_above_the_requested_version(factory).await;
    commits::all_or_nothing(&*shared(factory).await).await;
    commits::expectations(&*shared(factory).await).await;
    commits::writes_take_effect_in_order(&*shared(factory).await).await;
    commits::ranges_are_deleted(&*shared(factory).await).await;
    commits::a_resubmitted_batch_is_committed_once(factory).await;
    commits::limits_are_exact(&*shared(factory).await).await;
    commits::concurrent_commits_are_serial(&*shared(factory).await).await;
    commits::acknowledged_commits_survive_a_reopening(factory).await;
    reads::answers_are_in_the_order_of_the_keys(&*shared(factory).await).await;
    reads::scans_page_through(&*shared(factory).await).await;
    reads::pages_end_when_large(&*shared(factory).await).await;
    reads::reads_see_what_was_acknowledged(&*shared(factory).await).await;
    reads::reads_are_snapshots(shared(factory).await).await;
    reads::keys_are_ordered_by_bytes(&*shared(factory).await).await;
    reads::watchers_get_hints(&*shared(factory).await).await;
}

async fn shared<F: Factory>(factory: &F) -> Arc<dyn Store> {
    Arc::new(factory.create().await)
}
