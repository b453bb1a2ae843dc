//! Tests of previews: steps, times, stalls and limits.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use plugin_sdk::{
    BoxError, SelectRequest, Selection, TargetSelection, Until,
    service::{AllTargets, NarrowLayer},
    testing::{NOW, select_request, target},
};
use prodspec_model::rollout::{Canary, RolloutPolicy};
use tower::{Layer, ServiceBuilder};

use super::*;
use crate::policy::{self, CanaryLayer, HoldLayer, MaxInFlightLayer, OneDomainAtATimeLayer};

const MINUTE: Duration = Duration::from_secs(60);

fn request() -> SelectRequest {
    let all = [
        ("job/a", "us"),
        ("job/b", "eu"),
        ("job/c", "us"),
        ("job/d", "eu"),
    ];
    let mut request = select_request(all.map(|(id, domain)| target(id, &[domain])));
    request.policy = Arc::new(RolloutPolicy {
        domains: vec!["eu".into()],
        canary: Some(Canary {
            count: 1,
            bake_secs: 1800,
        }),
        bake_secs: 600,
        ..RolloutPolicy::default()
    });
    request
}

#[test]
fn schedule_lists_targets_with_times_and_the_end() {
    let schedule = preview(&policy::standard(), request(), MINUTE).unwrap();
    let steps: Vec<_> = schedule
        .steps
        .iter()
        .map(|step| {
            let ids: Vec<&str> = step.selected.iter().map(|id| id.as_str()).collect();
            let minute = step.at.duration_since(NOW).as_secs() / 60;
            (minute, step.stage.as_deref(), ids.join(" "))
        })
        .collect();
    let expected = [
        (0, Some("eu, canary"), "job/b".into()),
        (31, Some("eu"), "job/d".into()),
        (42, Some("us"), "job/a job/c".into()),
    ];
    assert_eq!(steps, expected);
    assert_eq!(schedule.done, NOW + 53 * MINUTE);
}

#[test]
fn r18_stall_lists_its_time_its_waits_and_the_targets_left() {
    let stack = ServiceBuilder::new()
        .layer(OneDomainAtATimeLayer::new(["eu", "us"]))
        .layer(CanaryLayer::new(1))
        .service(AllTargets);
    let Err(Error::Stalls(stall)) = preview(&stack, request(), MINUTE) else {
        panic!("no stall");
    };
    assert_eq!((stall.at, stall.left.len()), (NOW, 4));
    assert!(stall.waits.iter().all(|wait| wait.until == Until::Settled));
    let held = HoldLayer::new("a hold").layer(AllTargets);
    assert!(matches!(
        preview(&held, request(), MINUTE),
        Err(Error::Stalls(_))
    ));
}

#[test]
fn rollout_longer_than_four_weeks_has_no_schedule() {
    let slow = MaxInFlightLayer::new(1).layer(AllTargets);
    let fortnight = Duration::from_secs(14 * 24 * 3600);
    let long = preview(&slow, request(), fortnight).unwrap_err();
    assert!(matches!(long, Error::TooLong { left: 1, .. }), "{long}");
    let late = NarrowLayer::new(|request: &SelectRequest, beneath: Selection| {
        let until = Until::Time(request.now + MINUTE);
        beneath
            .narrowed(|_| false)
            .waiting("always a little later", until)
    });
    let long = preview(&late.layer(AllTargets), request(), MINUTE).unwrap_err();
    assert!(
        matches!(
            long,
            Error::TooLong {
                rounds: 10_000,
                left: 4,
                ..
            }
        ),
        "{long}"
    );
}

struct NeverAnswers;

#[async_trait]
impl TargetSelection for NeverAnswers {
    async fn select(&self, _: SelectRequest) -> Result<Selection, BoxError> {
        std::future::pending().await
    }
}

#[test]
fn layer_that_does_not_answer_at_once_is_refused() {
    assert!(matches!(
        preview(&NeverAnswers, request(), MINUTE),
        Err(Error::NotAtOnce)
    ));
}
