//! `select`: one selection among the targets of a large rollout, through a policy of five layers.
//!
//! Phases: `start` with no target selected, `middle` with half of the targets updated, `back` during a rollback.
//! `p50_us` is the wall time of a whole selection, `ns_each` its processor time per target. The peer `limit` reads each
//! target and its domain once, without a policy.

use std::{hint::black_box, time::Duration};

use annealing_strategist::policy::{
    CanaryLayer, MaxInFlightLayer, MaxUnavailableLayer, OneDomainAtATimeLayer, WavesLayer,
    share_domains,
};
use futures::FutureExt;
use jiff::Timestamp;
use plugin_sdk::{
    Direction, Health, Progress, RolloutId, SelectRequest, Selection, Target, TargetSelection,
    service::AllTargets,
};
use prodspec_model::{
    AssetId, IncarnationId, IncarnationNo, PartitionId,
    rollout::{Amount, Canary, RolloutPolicy, Wave},
};
use tower::ServiceBuilder;

use super::{OURS, Scenario, Sizes};
use crate::{
    Error, assets,
    measure::{Meter, Sample, now},
};

/// The scenario `select` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "select",
    about: "one selection through domains, waves, canary and two limits",
    target: "p50 2 ms",
    sizes: Sizes {
        named: 100_000,
        all: 100_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours), ("limit", limit)],
};

/// Number of measured selections per phase.
const TIMES: usize = 50;
/// Wall clock time of the selections; any time would do.
const NOW: Timestamp = Timestamp::constant(1_772_625_600, 0);
/// Number of failure domains among the targets.
const DOMAINS: usize = 50;

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let policy = ServiceBuilder::new()
        .layer(MaxInFlightLayer::by_policy())
        .layer(MaxUnavailableLayer::by_policy())
        .layer(CanaryLayer::by_policy())
        .layer(WavesLayer::by_policy())
        .layer(OneDomainAtATimeLayer::by_policy())
        .service(AllTargets);
    measure(n, |request| {
        let selection = policy.select(request.clone()).now_or_never();
        selection.ok_or("a layer did not answer at once")?
    })
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    measure(n, |request| {
        let first = request.targets.first().and_then(Target::domain);
        let targets = (0..).zip(request.targets.iter());
        let here = targets.filter(|(_, target)| target.is_waiting() && target.domain() == first);
        Ok(Selection {
            now: here.map(|(place, _)| place).collect(),
            ..Selection::default()
        })
    })
}

fn measure(
    n: usize,
    select: impl Fn(&SelectRequest) -> Result<Selection, Error>,
) -> Result<Vec<Sample>, Error> {
    let mut samples = Vec::new();
    let request = request(n)?;
    for (phase, updated, direction) in [
        ("start", 0, Direction::Forward),
        ("middle", n / 2, Direction::Forward),
        ("back", 0, Direction::Back),
    ] {
        let mut request = request.clone();
        request.direction = direction;
        update(&mut request, updated);
        let mut latencies = Vec::with_capacity(TIMES);
        let meter = Meter::start()?;
        for _ in 0..TIMES {
            touch(&mut request);
            let start = now();
            black_box(select(&request)?);
            latencies.push(start.elapsed());
        }
        let sample = meter.stop(phase, TIMES * n)?;
        samples.push(sample.latencies(latencies));
    }
    Ok(samples)
}

/// Sets the progress of a target to what it is, so that the next selection does not find the summary of the last one.
/// In a rollout, targets change between selections.
fn touch(request: &mut SelectRequest) {
    let first = request.targets.first().map(|target| target.progress);
    if let Some(progress) = first {
        request.targets.set_progress(0, progress);
    }
}

/// Marks the first `updated` targets, in the order of their domains, as updated within an hour a day ago.
fn update(request: &mut SelectRequest, updated: usize) {
    let yesterday = NOW - Duration::from_secs(24 * 3600);
    let mut places: Vec<usize> = (0..request.targets.len()).collect();
    places.sort_by_key(|place| request.targets[*place].domains.first().cloned());
    let targets = request.targets.edit();
    for (nth, place) in (0..).zip(places.into_iter().take(updated)) {
        let at = yesterday + Duration::from_secs(nth % 3600);
        targets[place].progress = Progress::Updated { at };
    }
}

fn request(n: usize) -> Result<SelectRequest, Error> {
    let id = |no| -> Result<_, Error> {
        let partition = PartitionId::new("bench")?;
        Ok(IncarnationId::new(partition, IncarnationNo(no)))
    };
    let (asset, targets) = (AssetId::new("policy/bench")?, targets(n)?.into());
    let request = SelectRequest::new(RolloutId(1), asset, id(2)?, targets, NOW);
    let mut request = request.policy(policy()).from(id(1)?);
    request.health = Some(Health::healthy(NOW));
    Ok(request)
}

fn policy() -> RolloutPolicy {
    let wave = |percent| Wave {
        upto: Amount::Percent(percent),
        bake_secs: 600,
    };
    RolloutPolicy {
        domains: (0..DOMAINS / 2).map(domain).collect(),
        canary: Some(Canary {
            count: 10,
            bake_secs: 1800,
        }),
        waves: [1, 10, 50].map(wave).into(),
        bake_secs: 600,
        max_in_flight: Some(1_000),
        max_unavailable: Some(100),
        ..RolloutPolicy::default()
    }
}

fn domain(no: usize) -> String {
    format!("cluster-{no:02}")
}

/// Makes `n` targets, sorted by id as in a real rollout.
fn targets(n: usize) -> Result<Vec<Target>, Error> {
    let mut targets: Vec<Target> = (0..n)
        .map(|no| {
            Ok(Target {
                asset: AssetId::new(&assets::id(no))?,
                domains: [domain(no % DOMAINS).into()].into(),
                silent: false,
                late: false,
                order: 0,
                progress: Progress::Waiting,
            })
        })
        .collect::<Result<_, Error>>()?;
    targets.sort_by(|a, b| a.asset.cmp(&b.asset));
    share_domains(&mut targets);
    Ok(targets)
}
