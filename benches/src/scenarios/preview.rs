//! `preview`: a rollout of four weeks played in virtual time, with windows in three time zones.
//!
//! The phase `all` is a whole preview: `p50_us` is its wall time, `ns_each` its processor time per target.

use std::{hint::black_box, time::Duration};

use annealing_checks::calendar::{Calendar, WindowLayer};
use annealing_strategist::{policy, preview::preview};
use jiff::Timestamp;
use plugin_sdk::{Progress, RolloutId, SelectRequest, Target};
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

/// The scenario `preview` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "preview",
    about: "a rollout of nearly four weeks in virtual time, windows in three zones",
    target: "p50 15 ms",
    sizes: Sizes {
        named: 1_000,
        all: 1_000,
        smoke: 100,
    },
    sides: &[(OURS, ours)],
};

/// Number of measured previews.
const TIMES: usize = 20;
/// Start of the preview: a Monday.
const NOW: Timestamp = Timestamp::constant(1_772_409_600, 0);
/// The failure domains with their time zones.
const ZONES: [(&str, &str); 3] = [
    ("eu", "Europe/Zurich"),
    ("jp", "Asia/Tokyo"),
    ("us", "America/New_York"),
];
/// Seconds of a day.
const DAY: u64 = 24 * 3600;

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let calendars = ZONES.map(|(domain, zone)| {
        let calendar = Calendar::weekdays(zone)?;
        Ok::<_, Error>(WindowLayer::new(calendar).domains([domain]))
    });
    let [eu, jp, us] = calendars;
    let policy = ServiceBuilder::new()
        .layer(eu?)
        .layer(jp?)
        .layer(us?)
        .service(policy::standard());
    let request = request(n)?;
    let mut latencies = Vec::with_capacity(TIMES);
    let meter = Meter::start()?;
    let mut weeks = 0.0;
    for _ in 0..TIMES {
        let start = now();
        let schedule = preview(&policy, request.clone(), Duration::from_secs(600))?;
        latencies.push(start.elapsed());
        weeks = schedule.done.duration_since(NOW).as_secs_f64() / (7 * DAY) as f64;
        black_box(schedule);
    }
    if !(3.0..=4.0).contains(&weeks) {
        return Err(format!("the rollout takes {weeks:.1} weeks, nearly four are wanted").into());
    }
    let sample = meter.stop("all", TIMES * n)?;
    Ok(vec![sample.latencies(latencies)])
}

fn request(n: usize) -> Result<SelectRequest, Error> {
    let id = |no| -> Result<_, Error> {
        let partition = PartitionId::new("bench")?;
        Ok(IncarnationId::new(partition, IncarnationNo(no)))
    };
    let (policy, targets) = (AssetId::new("policy/bench")?, targets(n)?.into());
    let request = SelectRequest::new(RolloutId(1), policy, id(2)?, targets, NOW);
    Ok(request.policy(rollout_policy(n)).from(id(1)?))
}

fn rollout_policy(n: usize) -> RolloutPolicy {
    let wave = |percent| Wave {
        upto: Amount::Percent(percent),
        bake_secs: 2 * DAY,
    };
    RolloutPolicy {
        domains: ZONES.map(|(domain, _)| domain.into()).into(),
        canary: Some(Canary {
            count: 1,
            bake_secs: 2 * DAY,
        }),
        waves: [5, 20, 50].map(wave).into(),
        bake_secs: 4 * DAY,
        // A few hundred steps for every number of targets.
        max_in_flight: Some((n / 250).max(1) as u32),
        ..RolloutPolicy::default()
    }
}

fn targets(n: usize) -> Result<Vec<Target>, Error> {
    let mut targets: Vec<Target> = (0..n)
        .map(|no| {
            Ok(Target {
                asset: AssetId::new(&assets::id(no))?,
                domains: [ZONES[no % ZONES.len()].0.into()].into(),
                silent: false,
                late: false,
                order: 0,
                progress: Progress::Waiting,
            })
        })
        .collect::<Result<_, Error>>()?;
    targets.sort_by(|a, b| a.asset.cmp(&b.asset));
    Ok(targets)
}
