//! R21: health policies in intent through the whole control plane.

use std::sync::{Arc, OnceLock};

use control_plane::{
    prelude::*,
    runtime::Runtime,
    strategist::{State, health::statistics::uniform},
};
use plugin_sdk::{Expression, MetricQuery, MetricReading, MetricSource, Series};

use crate::{
    rollouts::{manifest, of_size, passes, until},
    world::{LONG, Production, Running, Text, Virtual, plane_on},
};

/// A server that measures the size of each service in production, and its latency: about 100, and twice as much for services of
/// size 3.
#[derive(Clone)]
struct Sizes {
    production: Production,
    /// The time before which all have the same latency.
    slow_from: Arc<OnceLock<Timestamp>>,
}

#[async_trait]
impl MetricSource for Sizes {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        match expression.to_string().as_str() {
            "size" | "latency" => Ok(()),
            other => Err(Problem::new(format!("there is no metric `{other}`"))),
        }
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let end = query.windows.last;
        let is_size = query.expression.to_string() == "size";
        let sizes = self.production.state().sizes.clone().into_iter();
        let is_late = |end| self.slow_from.get().is_some_and(|from| end > *from);
        let series = sizes.map(|(id, size)| {
            let value = |end: Timestamp| match (is_size, size) {
                (true, _) => size as f64,
                (false, 3) if is_late(end) => 2.0 * noisy(&id, end),
                (false, _) => noisy(&id, end),
            };
            let samples = query.windows.ends().map(|end| (end, value(end)));
            Series::new(samples).label("service", id.as_str())
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of: end,
            infos: Vec::new(),
        })
    }
}

fn noisy(id: &AssetId, at: Timestamp) -> f64 {
    100.0 + 10.0 * uniform(format!("{id} {at}").as_bytes())
}

/// A manifest in which services of this size are rolled out, and healthy up to another one.
fn healthy_up_to(most: &str, size: u64) -> String {
    let manifest = manifest(size, "{canary: {count: 1, bake_secs: 300}}", 1);
    format!(
        "{manifest}health:
  health/services:
    judges: {{types: [world.v1.Service]}}
    assets: {{service: id}}
    window: 10s
    rules: [{{name: size, expression: size, at_most: {most}}}]
"
    )
}

async fn start(text: &Text, production: &Production) -> Running<Virtual> {
    let sizes = Sizes {
        production: production.clone(),
        slow_from: Arc::default(),
    };
    start_with(Virtual::current(), text, sizes)
}

fn start_with(runtime: Virtual, text: &Text, sizes: Sizes) -> Running<Virtual> {
    let plane = plane_on(runtime, &sizes.production)
        .store(MemoryStore::new())
        .source(text.clone())
        .validators(validators::standard())
        .metrics("sizes", sizes)
        .build();
    Running::start(plane.unwrap())
}

async fn state(running: &Running<Virtual>) -> State {
    let views = running.handle.rollouts().await.unwrap();
    views[0].rollout.clone().unwrap().state
}

#[tokio::test(start_paused = true)]
async fn r21_health_policy_in_intent_takes_a_bad_version_back() {
    let text = Text::new(&healthy_up_to("2", 1));
    let production = Production::default();
    let running = start(&text, &production).await;
    running.handle.settle(LONG).await.unwrap();
    text.edit(&healthy_up_to("2", 2));
    until(&running, "a good version is complete", || {
        of_size(&production, 2) == 4
    })
    .await;
    passes(LONG * 5).await;
    assert_eq!(state(&running).await, State::Completed);
    text.edit(&healthy_up_to("2", 3));
    until(&running, "the canary is updated", || {
        of_size(&production, 3) == 1
    })
    .await;
    until(&running, "it goes back", || of_size(&production, 2) == 4).await;
    passes(LONG).await;
    let ended = state(&running).await;
    assert!(matches!(ended, State::RolledBack { .. }), "{ended:?}");
    let views = running.handle.rollouts().await.unwrap();
    let shown = format!("{:?}", views[0]);
    assert!(
        shown.contains("health/services/size: a: 3 instead of at most 2"),
        "{shown}"
    );
    running.stop().await;
}

/// No bound is broken, and production shows the latency of the version only beside the others.
#[tokio::test(start_paused = true)]
async fn r105_version_that_is_worse_than_the_others_goes_back() {
    let compares = |size| {
        let worse = "rules: [{name: latency, expression: latency, at_most: 1000, worse: {}}]";
        let rule = "rules: [{name: size, expression: size, at_most: 2}]";
        healthy_up_to("2", size).replace(rule, worse)
    };
    let text = Text::new(&compares(1));
    let (runtime, production) = (Virtual::current(), Production::default());
    let slow_from = Arc::<OnceLock<Timestamp>>::default();
    let sizes = Sizes {
        production: production.clone(),
        slow_from: slow_from.clone(),
    };
    let running = start_with(runtime.clone(), &text, sizes);
    running.handle.settle(LONG).await.unwrap();
    text.edit(&compares(2));
    until(&running, "a good version is complete", || {
        of_size(&production, 2) == 4
    })
    .await;
    passes(LONG * 10).await;
    assert_eq!(state(&running).await, State::Completed);
    slow_from.set(runtime.now().wall).unwrap();
    text.edit(&compares(3));
    until(&running, "the canary is updated", || {
        of_size(&production, 3) == 1
    })
    .await;
    until(&running, "it goes back", || of_size(&production, 2) == 4).await;
    let views = running.handle.rollouts().await.unwrap();
    let shown = format!("{:?}", views[0]);
    let why = "health/services/latency/worse: a: 2.0 x the 3 units not moved yet";
    assert!(shown.contains(why), "{shown}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r21_health_policy_that_is_edited_in_a_stage_counts_at_once() {
    let text = Text::new(&healthy_up_to("5", 1));
    let production = Production::default();
    let running = start(&text, &production).await;
    running.handle.settle(LONG).await.unwrap();
    text.edit(&healthy_up_to("5", 4));
    until(&running, "the canary is updated", || {
        of_size(&production, 4) == 1
    })
    .await;
    passes(LONG * 2).await;
    assert_eq!(of_size(&production, 4), 1, "it bakes, and is healthy");
    // Only the policy changes.
    text.edit(&healthy_up_to("3", 4));
    until(&running, "it goes back", || of_size(&production, 1) == 4).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn health_policy_that_could_not_judge_is_refused_before_the_seal() {
    let text = Text::new(&healthy_up_to("2", 1).replace("expression: size", "expression: sise"));
    let running = start(&text, &Production::default()).await;
    let Err(control_plane::Error::Refused(problems)) = running.handle.settle(LONG).await else {
        panic!("it was sealed");
    };
    let problems = problems.to_string();
    assert!(
        problems.contains("payload.rules[0].expression: there is no metric `sise`"),
        "{problems}"
    );
    running.stop().await;
}
