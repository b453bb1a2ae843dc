//! One run: a rollout of one asset, looked at in each window.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use annealing_strategist::health::policies::Policies;
use async_trait::async_trait;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use plugin_sdk::{
    BoxError, Expression, Health, HealthRequest, HealthValidator, IncarnationReader, Judgement,
    MetricQuery, MetricReading, MetricSource, Problem, RolloutId, Series, Sources, Watched,
};
use prodspec_model::{
    Asset, AssetId, Filter, Incarnation, IncarnationId, IncarnationNo, PartitionId, Snapshot,
    addons::Owner,
    incarnation::Header,
    policy::{Counter, HealthPolicy, HealthRule, Worse},
};
use rand::{RngExt, rngs::SmallRng};

use crate::{
    Error,
    cases::{Case, Line},
};

/// Number of looks of a run, one for each window.
pub(crate) const LOOKS: u32 = 1_000;
/// Number of windows before the rollout.
const BEFORE: usize = 740;
/// The length of a window.
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
/// The time at which the rollout began; any time would do.
const BEGAN: Timestamp = Timestamp::constant(1_772_625_600, 0);

/// The end of a run.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Whether a look was unhealthy by the rule whose guard is 1.
    pub(crate) alarm_at_1: bool,
    /// The same by the rule whose guard is 1.5.
    pub(crate) alarm: bool,
    /// Whether the last look judged nothing.
    pub(crate) not_judged: bool,
    /// The number of windows after which the fault was seen.
    pub(crate) seen: Option<u32>,
}

/// A server with the values of a run.
struct Values(Arc<BTreeMap<AssetId, Line>>);

#[async_trait]
impl MetricSource for Values {
    fn accepts(&self, _: &Expression) -> Result<(), Problem> {
        Ok(())
    }

    async fn read(&self, query: MetricQuery) -> Result<MetricReading, BoxError> {
        let is_whole = query.expression.to_string() == "requests";
        let series = self.0.iter().map(|(id, line)| {
            let value = |end: Timestamp| {
                let after = end.duration_since(BEGAN).as_secs() / WINDOW.as_secs();
                let at = usize::try_from(after + BEFORE as i64 - 1).ok()?;
                let (value, whole) = line.get(at)?;
                let value = if is_whole { Some(*whole) } else { *value };
                Some((end, value?))
            };
            Series::new(query.windows.ends().filter_map(value)).label("unit", id.as_str())
        });
        Ok(MetricReading {
            series: series.collect(),
            as_of: query.windows.last,
            infos: Vec::new(),
        })
    }
}

/// Runs a case. The moved unit is `times` as bad as the others since the fault began; 1: there is no fault.
pub(crate) fn run(case: &Case, times: f64, rng: &mut SmallRng) -> Result<Ended, Error> {
    let units = case.controls + 1;
    let ids: Vec<AssetId> = (0..units)
        .map(|nth| format!("unit/{nth}").parse())
        .collect::<Result<_, _>>()?;
    let from = BEFORE + case.fault as usize;
    let windows = BEFORE + LOOKS as usize;
    let lines = case.world.lines((units, windows), (times, from), rng)?;
    let values = ids.iter().cloned().zip(lines).collect();
    let sources = Sources::default().metrics("study", Values(Arc::new(values)));
    let policies = Policies::over(&sources);
    // Windows in which all values are equal are judged by the rollout's own draw.
    let request = request(case, RolloutId(rng.random()), &ids)?;
    let mut ended = Ended::default();
    for look in 1..=LOOKS {
        let health = looked_at(&policies, &request, case, look)?;
        let of = |policy: &str| {
            let name = format!("{policy}/study/worse");
            health.findings.iter().find(|it| *it.validator == *name)
        };
        let is_bad = |policy| of(policy).is_some_and(|it| it.judgement == Judgement::Unhealthy);
        ended.alarm_at_1 |= is_bad("guard-1");
        ended.alarm |= is_bad("guard-1.5");
        if look > case.fault && is_bad("guard-1.5") && ended.seen.is_none() {
            ended.seen = Some(look - case.fault);
        }
        ended.not_judged = of("guard-1.5").is_some_and(|it| it.summary.starts_with("not judged"));
        let fault_is_seen = times > 1.0 && ended.seen.is_some();
        if fault_is_seen || (ended.alarm && ended.alarm_at_1) {
            break;
        }
    }
    Ok(ended)
}

/// The verdict of one look.
fn looked_at(
    policies: &Policies,
    request: &HealthRequest,
    case: &Case,
    look: u32,
) -> Result<Health, Error> {
    let mut request = request.clone();
    request.now = BEGAN + WINDOW * i32::try_from(look)? + SignedDuration::from_secs(15);
    if case.churn {
        // One stays; the others come and go, each in a rhythm of its own.
        let nth = |it: &Watched| {
            it.asset
                .as_str()
                .trim_start_matches("unit/")
                .parse()
                .unwrap_or(0)
        };
        request
            .control
            .retain(|it| nth(it) < 2 || look / 50 % nth(it) < 2);
    }
    let health = policies.validate(request).now_or_never();
    health.ok_or("the validator did not answer at once")?
}

/// A rollout that has moved the first unit.
fn request(case: &Case, rollout: RolloutId, ids: &[AssetId]) -> Result<HealthRequest, Error> {
    let partition = PartitionId::new("study")?;
    let to = IncarnationId::new(partition, IncarnationNo(1));
    let assets: Vec<Asset> = ids
        .iter()
        .map(|id| {
            Asset::builder(id.clone())
                .payload(&Owner::new("study"))?
                .build()
        })
        .collect::<Result<_, _>>()?;
    let policies = [("guard-1", 1.0), ("guard-1.5", 1.5)];
    let policies: Vec<Asset> = policies
        .into_iter()
        .map(|(name, guard)| policy(case, name, guard))
        .collect::<Result<_, _>>()?;
    let watched = |id: &AssetId| Watched::new(id.clone(), BEGAN);
    let control: Vec<Watched> = ids[1..].iter().map(watched).collect();
    let request = HealthRequest::new(rollout, to.clone(), BEGAN)
        .updated(vec![watched(&ids[0])])
        .control(control)
        .began(BEGAN)
        .reader(reader(&to, assets))
        .newest(reader(&to, policies));
    Ok(request)
}

fn policy(case: &Case, name: &str, guard: f64) -> Result<Asset, Error> {
    let worse = Worse {
        guard,
        than_past: case.than_past,
        same_traffic: true,
        ..Worse::default()
    };
    let rule = match case.world.is_share() {
        true => HealthRule::share("study", Counter::of("errors"), Counter::of("requests")),
        false => HealthRule::expression("study", "value"),
    };
    let mut policy = HealthPolicy::of(Filter::default().under("unit/"))
        .meets("unit", "id")
        .rule(rule.worse(worse));
    policy.warm_up = Some(Duration::ZERO);
    Ok(Asset::builder(name.parse()?).payload(&policy)?.build()?)
}

fn reader(id: &IncarnationId, assets: Vec<Asset>) -> IncarnationReader {
    let snapshot = Snapshot::empty().edit(id.no, assets, &[]);
    let header = Header::new(id.clone(), None, &snapshot, BEGAN);
    IncarnationReader::new(Incarnation::new(header, snapshot))
}
