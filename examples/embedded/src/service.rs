//! The service: generation and enforcement side by side, with the team's plugins inside tower layers.

use std::{future::Future, sync::Arc, time::Duration};

use annealing_checks::{RateLayer, Scope};
use annealing_enforcer::{Enforcer, Settle, store::MemoryStore};
use plugin_sdk::{
    AssetPlugin, AssetType, BoxError, CheckPlugin, Quota, SourceOfTruth,
    service::{AssetService, CheckLayer},
};
use prodspec_gen::{
    Pipeline, Regeneration, StoreSealer,
    runtime::TokioRuntime,
    shell,
    store::Store,
    validators::{KnownTypes, References},
};
use prodspec_model::PartitionId;
use tower::ServiceBuilder;

use crate::model::{Page, Readable, Sites};

/// The assembled service, ready to run.
#[derive(Debug)]
pub struct Service {
    generation: Regeneration<TokioRuntime>,
    enforcer: Enforcer<TokioRuntime>,
    handle: Handle,
}

/// A cloneable handle for asking and commanding the running service.
#[derive(Debug, Clone)]
pub struct Handle {
    /// Reads the source on request and reports its problems.
    pub generation: prodspec_gen::Handle,
    /// Reports the state of production and accepts commands.
    pub enforcer: annealing_enforcer::Handle<TokioRuntime>,
}

impl Service {
    /// Puts the service together. Must be called inside a tokio runtime.
    ///
    /// Incarnations and decisions are kept in memory only, so a restart forgets them; the state of production is read
    /// from the pages. To keep them, use another store here. To run more than one process, generation has to be fenced
    /// as well, as the `control-plane` crate does.
    ///
    /// # Errors
    /// When the pipeline or the enforcer refuses its configuration.
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
        let seals = Arc::new(StoreSealer::new(store.clone(), partition.clone()));
        let (generation, of_generation) = Regeneration::new(runtime.clone(), pipeline, seals);

        // A plugin inside stock tower layers is still a plugin.
        let pages = ServiceBuilder::new()
            .concurrency_limit(8)
            .timeout(Duration::from_secs(5))
            .service(AssetService::new(pages));
        let enforcer = Enforcer::builder(runtime, partition, store)
            .asset_plugin::<Page>(pages)
            .checks(|base| {
                // From the outside in: a time limit for each check, at most 64 checks at once, the team's own check,
                // and a limit on pushes per second.
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

    /// Returns a handle to this service.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Generates and enforces until `shutdown` completes.
    ///
    /// # Errors
    /// When the enforcer stops, for instance because the store fails.
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

/// Push rate: a burst of 20 pages, then one page every 50 ms.
const GENTLE: Quota = Quota::new(20, Duration::from_millis(50));

impl Handle {
    /// Reads the source now, then waits until every page is settled, for at most `within`.
    ///
    /// # Errors
    /// All problems of the source, or an error when the pages are not settled in time.
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
