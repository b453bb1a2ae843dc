//! The service: generation and enforcement side by side, with the team's plugins in tower's layers.

use std::{future::Future, sync::Arc, time::Duration};

use annealing_checks::{RateLayer, Scope};
use annealing_enforcer::{Enforcer, Settle, store::MemoryStore};
use plugin_sdk::{
    AssetPlugin, AssetType, BoxError, CheckPlugin, Quota, SourceOfTruth,
    service::{AssetService, CheckLayer},
};
use prodspec_gen::{
    Durable, Pipeline, Regeneration,
    runtime::TokioRuntime,
    shell,
    store::Store,
    validators::{KnownTypes, References},
};
use prodspec_model::PartitionId;
use tower::ServiceBuilder;

use crate::model::{Page, Readable, Sites};

/// The service, ready to run.
pub struct Service {
    generation: Regeneration<TokioRuntime>,
    enforcer: Enforcer<TokioRuntime>,
    handle: Handle,
}

/// The service from outside.
#[derive(Clone)]
pub struct Handle {
    /// Reads the source, and says what is wrong with it.
    pub generation: prodspec_gen::Handle,
    /// Says how production stands, and takes orders.
    pub enforcer: annealing_enforcer::Handle<TokioRuntime>,
}

impl Service {
    /// Puts the service together, inside a tokio runtime.
    ///
    /// It keeps nothing but pages: incarnations and decisions are in memory, and what production has is seen by looking
    /// at it. For memory over restarts, put another store here; for more than one process generation has to be fenced too,
    /// as `control-plane` does.
    ///
    /// # Errors
    /// When the parts do not fit together.
    pub fn new(
        source: impl SourceOfTruth,
        pages: impl AssetPlugin,
        check: impl CheckPlugin,
    ) -> Result<Self, BoxError> {
        let runtime = TokioRuntime::current();
        let partition = PartitionId::new("embedded")?;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());

        let pipeline = Pipeline::builder(partition.clone())
            .source(source)
            .generator(Sites)
            .asset_type(AssetType::<Page>::new())
            .validator(References)
            .validator(KnownTypes)
            .validator(Readable)
            .build()?;
        let seals = Arc::new(Durable::new(store.clone(), partition.clone()));
        let (generation, of_generation) = Regeneration::new(runtime.clone(), pipeline, seals);

        // Stock tower around a plugin is a plugin still.
        let pages = ServiceBuilder::new()
            .concurrency_limit(8)
            .timeout(Duration::from_secs(5))
            .service(AssetService::new(pages));
        let enforcer = Enforcer::builder(runtime, partition, store)
            .asset_plugin::<Page>(pages)
            .checks(|base| {
                // Read from above: an answer in time, few at once, nobody working by hand, not too many a second.
                ServiceBuilder::new()
                    .timeout(Duration::from_secs(2))
                    .concurrency_limit(64)
                    .layer(CheckLayer::new(check))
                    .layer(RateLayer::new("page-rate", Scope::all(), GENTLE))
                    .service(base)
            })
            .build()?;
        let handle = Handle {
            generation: of_generation,
            enforcer: enforcer.handle(),
        };
        Ok(Self {
            generation,
            enforcer,
            handle,
        })
    }

    /// What others may ask of it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Generates and enforces until `shutdown` completes.
    ///
    /// # Errors
    /// When the store is broken.
    pub async fn run(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), annealing_enforcer::Error> {
        let generation = tokio::spawn(shell::until(self.generation, std::future::pending()));
        let ended = self.enforcer.run(shutdown).await;
        generation.abort();
        ended
    }
}

/// Twenty pages at once, then one in 50 ms.
const GENTLE: Quota = Quota {
    burst: 20,
    every: Duration::from_millis(50),
};

impl Handle {
    /// Reads the source now, and waits until production is as it says.
    ///
    /// # Errors
    /// Every problem of the source; or that it took longer than `within`.
    pub async fn settle(&self, within: Duration) -> Result<(), BoxError> {
        let status = self.generation.next_run().await;
        if status.problems.any_error() {
            return Err(status.problems.into());
        }
        let newest = status.incarnation.ok_or("nothing was sealed")?;
        let all = Settle::All(newest.id.no);
        Ok(self.enforcer.wait_settled(all, within).await?)
    }
}
