//! Generation while the partition is owned: seals are fenced by the owner's token and handed directly to the enforcer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use annealing_enforcer::Handle as Enforcement;
use async_trait::async_trait;
use control_plane_runtime::Runtime;
use jiff::Timestamp;
use plugin_sdk::{BoxError, FencingToken};
use prodspec_gen::{
    Regeneration, Remarks, Seal, SealOverride, Sealer, StoreSealer, overrides::InForce,
};
use prodspec_model::{Digest, Incarnation, IncarnationNo, Revision, SourceName};
use tokio::sync::watch;

use crate::{desk::Desk, retention, shared::Shared};

/// Runs generation and retention while the partition is owned under `token`.
pub(crate) async fn while_owner<R: Runtime>(
    shared: Arc<Shared<R>>,
    token: FencingToken,
    enforcement: Enforcement<R>,
) {
    let durable = StoreSealer::sharing(
        shared.store.clone(),
        shared.partition.clone(),
        shared.incarnations.clone(),
    );
    let seals = HandedOver {
        durable: durable.owned(token),
        enforcement: enforcement.clone(),
    };
    let (regeneration, handle) = Regeneration::new(
        shared.runtime.clone(),
        shared.pipeline.clone(),
        Arc::new(seals),
    );
    let status = handle.watch();
    let desk = Arc::new(Desk::new(
        shared.runtime.clone(),
        shared.store.clone(),
        shared.pipeline.clone(),
        token,
        handle.clone(),
    ));
    let _edited = Announced::new(&shared.desk, desk.clone());
    let _owned = Announced::new(&shared.owned, handle);
    let retention = retention::follow(&shared, token, &enforcement, status);
    futures::join!(regeneration.run(), retention, desk.compare_held_fields());
}

/// Publishes a handle, and withdraws it when it is dropped.
struct Announced<'s, T>(&'s watch::Sender<Option<T>>);

impl<'s, T> Announced<'s, T> {
    fn new(sender: &'s watch::Sender<Option<T>>, handle: T) -> Self {
        sender.send_replace(Some(handle));
        Self(sender)
    }
}

impl<T> Drop for Announced<'_, T> {
    fn drop(&mut self) {
        self.0.send_replace(None);
    }
}

/// Seals incarnations in the store, and hands each one to the enforcer without waiting for the store's hint.
struct HandedOver<R> {
    durable: StoreSealer,
    enforcement: Enforcement<R>,
}

#[async_trait]
impl<R: Runtime> Sealer for HandedOver<R> {
    async fn latest(&self) -> Result<Option<Incarnation>, BoxError> {
        self.durable.latest().await
    }

    async fn remarks(&self) -> Result<Option<Remarks>, BoxError> {
        self.durable.remarks().await
    }

    async fn overrides(&self, now: Timestamp) -> Result<InForce, BoxError> {
        self.durable.overrides(now).await
    }

    async fn allow(
        &self,
        word: SealOverride,
        parent: Option<IncarnationNo>,
    ) -> Result<(), BoxError> {
        self.durable.allow(word, parent).await
    }

    async fn missing(&self, wanted: &BTreeSet<Digest>) -> Result<BTreeSet<Digest>, BoxError> {
        self.durable.missing(wanted).await
    }

    async fn keep(&self, content: &[u8]) -> Result<(), BoxError> {
        self.durable.keep(content).await
    }

    async fn seal(&self, seal: Seal) -> Result<Incarnation, BoxError> {
        let incarnation = self.durable.seal(seal).await?;
        self.enforcement.publish(incarnation.clone());
        Ok(incarnation)
    }

    async fn seen(&self, sources: &BTreeMap<SourceName, Revision>) -> Result<(), BoxError> {
        self.durable.seen(sources).await
    }
}
