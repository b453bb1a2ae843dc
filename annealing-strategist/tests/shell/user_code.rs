//! R21, S9: selections and health checks that panic or block their thread do not stop the rollouts.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use annealing_strategist::{Config, State, StrategistBuilder};
use async_trait::async_trait;
use control_plane_runtime::TokioRuntime;
use futures::channel::mpsc;
use plugin_sdk::{
    BoxError, Health, HealthRequest, HealthValidator, Judgement, SelectRequest,
    service::HealthLayer,
};
use prodspec_model::rollout::{FirstTurnup, RolloutPolicy};
use tower::ServiceBuilder;

use crate::world::{HOUR, P, World, canary, passes, policy, thing, two_groups};

/// A validator that panics while its flag is set.
struct Panics(Arc<AtomicBool>);

#[async_trait]
impl HealthValidator for Panics {
    fn name(&self) -> Arc<str> {
        "panics".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        assert!(!self.0.load(Ordering::SeqCst), "on purpose");
        Ok(Health::healthy(request.now))
    }
}

#[tokio::test(start_paused = true)]
async fn r21_a_validator_that_panics_makes_health_unknown_and_is_asked_again() {
    let panics = Arc::new(AtomicBool::new(true));
    let validator = Panics(panics.clone());
    let with = |builder: StrategistBuilder<TokioRuntime>| {
        builder.health(|base| {
            tower::ServiceBuilder::new()
                .layer(HealthLayer::new(validator))
                .service(base)
        })
    };
    let world = World::with(two_groups("1"), with).await;
    world.put(two_groups("2")).await;
    passes(HOUR).await;
    let rollout = world.view(P).await.rollout.unwrap();
    let health = rollout.health.unwrap();
    assert_eq!(health.judgement, Judgement::Unknown);
    assert!(
        health.findings[0].summary.contains("panicked"),
        "{health:?}"
    );
    panics.store(false, Ordering::SeqCst);
    passes(HOUR).await;
    assert_eq!(world.state(P).await, State::Completed);
}

/// Real time after which a test that blocks a thread has failed.
const HANGS: Duration = Duration::from_secs(10);

/// Blocks the thread that calls it until it is released.
#[derive(Clone)]
struct Blocking {
    entered: mpsc::UnboundedSender<()>,
    free: Arc<(Mutex<bool>, std::sync::Condvar)>,
}

impl Blocking {
    fn block(&self) {
        // The test may be over.
        let _ = self.entered.unbounded_send(());
        let free = self.free.0.lock().unwrap();
        drop(self.free.1.wait_while(free, |free| !*free).unwrap());
    }

    fn let_go(&self) {
        *self.free.0.lock().unwrap() = true;
        self.free.1.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_selection_that_blocks_its_thread_fails_at_its_deadline() {
    let (entered, mut told) = mpsc::unbounded();
    let blocking = Blocking {
        entered,
        free: Arc::default(),
    };
    let blocks = blocking.clone();
    let world = World::start(
        vec![policy(P, &canary()), thing(Some(P), "a", "1")],
        move |builder| {
            let config = Config::default().select_deadline(Duration::from_millis(50));
            let blocked = move |base| {
                let block = move |request: SelectRequest| {
                    blocks.block();
                    request
                };
                ServiceBuilder::new().map_request(block).service(base)
            };
            builder.config(config).rollouts(blocked)
        },
    );
    let world = world.await;
    let answers = world.shows(&mut told, "no answer in time");
    let in_time = tokio::time::timeout(HANGS, answers).await;
    blocking.let_go();
    assert!(in_time.is_ok(), "a blocking selection stops the rollouts");
    world.running.abort();
}

#[async_trait]
impl HealthValidator for Blocking {
    fn name(&self) -> Arc<str> {
        "blocks".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        self.block();
        Ok(Health::healthy(request.now))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s9_health_check_that_blocks_its_thread_counts_as_unknown_at_its_deadline() {
    let (entered, mut told) = mpsc::unbounded();
    let blocking = Blocking {
        entered,
        free: Arc::default(),
    };
    let blocks = blocking.clone();
    let gradual = RolloutPolicy {
        first_turnup: FirstTurnup::Gradual,
        ..canary()
    };
    let assets = ["a", "b"].map(|name| thing(Some(P), name, "1"));
    let assets = [&assets[..], &[policy(P, &gradual)]].concat();
    let world = World::start(assets, move |builder| {
        let config = Config::default()
            .validate_every(Duration::from_millis(10))
            .validate_deadline(Duration::from_millis(50));
        let layer = HealthLayer::new(blocks);
        let blocked = |base| ServiceBuilder::new().layer(layer).service(base);
        builder.config(config).health(blocked)
    });
    let world = world.await;
    let answers = world.shows(&mut told, "no answer in time");
    let in_time = tokio::time::timeout(HANGS, answers).await;
    let health = world
        .view(P)
        .await
        .rollout
        .and_then(|rollout| rollout.health);
    blocking.let_go();
    assert!(
        in_time.is_ok(),
        "a blocking health check stops the rollouts"
    );
    let judgement = health.map(|health| health.judgement);
    assert_eq!(judgement, Some(Judgement::Unknown));
    world.running.abort();
}
