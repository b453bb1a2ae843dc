//! R21: health policies in intent through the whole control plane.

use control_plane::{prelude::*, strategist::State};
use plugin_sdk::{Expression, MetricQuery, MetricReading, MetricSource, Series};

use crate::{
    rollouts::{manifest, of_size, passes, until},
    world::{LONG, Production, Running, Text, Virtual, plane_on},
};

/// A server that measures the size of each service in production.
#[derive(Clone)]
struct Sizes(Production);

#[async_trait]
impl MetricSource for Sizes {
    fn accepts(&self, expression: &Expression) -> Result<(), Problem> {
        match expression.to_string().as_str() {
            "size" => Ok(()),
            other => Err(Problem::new(format!("there is no metric `{other}`"))),
        }
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let end = query.windows.last;
        let sizes = self.0.state().sizes.clone().into_iter();
        let series = sizes.map(|(id, size)| {
            let series = Series::new([(end, size as f64)]);
            series.label("service", id.as_str())
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of: end,
            infos: Vec::new(),
        })
    }
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
    let plane = plane_on(Virtual::current(), production)
        .store(MemoryStore::new())
        .source(text.clone())
        .validators(validators::standard())
        .metrics("sizes", Sizes(production.clone()))
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
