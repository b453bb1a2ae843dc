//! The check behind [`CapacityLayer`](super::CapacityLayer).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures::future::join_all;
use plugin_sdk::{
    BoxError, Cause, Causes, CheckInfo, CheckPlugin, CheckRequest, Claim, DEAD_END, Delay,
    Expression, MetricQuery, MetricSource, PartitionView, Recheck, Served, Serving, Transition,
    Verdict,
};
use prodspec_model::{Asset, AssetId, Message, addons::Turndown, policy::AssetField};
use serde_json::json;

use super::{
    Rule,
    history::{History, Peak},
};
use crate::{Scope, cache::Cache, members::Members};

/// Time after which a source that failed is read again.
const AGAIN: Duration = Duration::from_secs(5);
/// Maximum number of assets that one check observes because their capacity is not known.
const OBSERVED: usize = 256;
/// The end of a wait that no push at the present pins makes.
const WAY_OUT: &str = "no other asset is about to grow: let one grow, wait for usage to fall, except the asset, or override the check";

/// Keeps the serving capacity of each part of a scope at its peak usage.
///
/// ```
/// use annealing_checks::{Scope, capacity::Capacity};
/// use plugin_sdk::{MetricSource, Problem};
///
/// # fn check(prometheus: impl MetricSource) -> Result<(), Problem> {
/// // No cluster ends with less capacity than 120% of the largest usage of a week.
/// let kept = Capacity::of("qps")
///     .within(Scope::per_cluster(), "cluster")
///     .headroom(1.2)
///     .measured("sum by (cluster) (rate(http_requests_total[$window]))", prometheus)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Capacity {
    rule: Arc<Rule>,
    usage: Arc<Usage>,
    members: Arc<Mutex<Members>>,
}

/// How much is needed.
#[derive(Debug)]
pub(super) enum Usage {
    Measured(Box<Measured>),
    /// The sum of a field of the assets.
    Modelled(AssetField),
}

/// Usage by an expression.
#[derive(Debug)]
pub(super) struct Measured {
    expression: Expression,
    cache: Cache<dyn MetricSource, History>,
    history: Mutex<History>,
}

/// The capacity that has to remain, with its reason.
struct Floor {
    units: u64,
    why: String,
}

impl Measured {
    pub(super) fn new(expression: Expression, source: impl MetricSource) -> Self {
        Self {
            expression,
            cache: Cache::new(Box::new(source)),
            history: Mutex::default(),
        }
    }

    /// The history up to now. All checks share one reading; a source that failed is read again after a while.
    async fn read(&self, rule: &Rule, request: &CheckRequest) -> Result<Arc<History>, String> {
        let known = || self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = known().missing(request.now, rule.back);
        let again = AGAIN.try_into().unwrap_or_default();
        let answer = self.cache.answer(
            request,
            |answer| match (&answer.result, missing) {
                (Ok(_), None) => true,
                (Ok(_), Some(_)) | (Err(_), _) => answer.passed(request.mono).abs() < again,
            },
            async {
                let mut history = known().clone();
                if let Some(windows) = history.missing(request.now, rule.back) {
                    let expression = self.expression.clone();
                    let query = MetricQuery {
                        expression,
                        windows,
                    };
                    let reading = self.cache.source.read(query).await?;
                    history.take(windows, &reading, rule.label.as_deref())?;
                    history.forget(request.now, rule.back);
                    *known() = history.clone();
                }
                Ok(history)
            },
        );
        let read = answer.await.result;
        read.map_err(|why| format!("`{}` cannot be read: {why}", self.expression))
    }
}

impl Capacity {
    /// Makes a rule named `capacity` about capacity in one unit, such as `qps`.
    pub fn of(unit: &str) -> Rule {
        Rule::new(unit)
    }

    pub(super) fn new(rule: Rule, usage: Usage) -> Self {
        Self {
            rule: Arc::new(rule),
            usage: Arc::new(usage),
            members: Arc::default(),
        }
    }

    /// The capacity of an asset before and after its push.
    fn change(&self, request: &CheckRequest, asset: &Asset) -> Transition<u64> {
        let unit = &self.rule.unit;
        let has = request.observed.capacity.get(unit).copied();
        let has = has.unwrap_or_default();
        let named = request.change.effects.capacity.get(unit).copied();
        let change = named.unwrap_or(match asset.has_addon(Turndown::TYPE) {
            true => Transition { from: has, to: 0 },
            false => Transition { from: has, to: has },
        });
        Transition {
            from: change.from.max(has),
            ..change
        }
    }

    /// The parts that a push takes capacity from, with the capacity that it leaves there: those of the newest content, of which
    /// nothing is left if the pushed content is in other parts, and those of the pushed content.
    fn shrinks(
        &self,
        request: &CheckRequest,
        asset: &Asset,
    ) -> Result<BTreeMap<String, u64>, BoxError> {
        let (scope, change) = (&self.rule.scope, self.change(request, asset));
        let newest = request.newest.get(request.asset_id());
        let newest = newest.map(|it| scope.parts_of(&it)).unwrap_or_default();
        let mut parts: BTreeMap<String, u64> = newest.into_iter().map(|it| (it, 0)).collect();
        let pushed = scope.values(request)?.into_iter();
        parts.extend(pushed.map(|it| (it, change.to)));
        parts.retain(|_, to| *to < change.from);
        Ok(parts)
    }

    /// The assets of a part, in the newest incarnation.
    fn members(&self, request: &CheckRequest, part: &str) -> Arc<BTreeSet<AssetId>> {
        let newest = request.newest.bound_to();
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = newest.or_else(|| request.reader().bound_to()) {
            members.follow(&self.rule.scope, newest.snapshot());
        }
        members.of(part)
    }

    /// The floor of a part.
    async fn floor(
        &self,
        request: &CheckRequest,
        part: &str,
        members: &BTreeSet<AssetId>,
    ) -> Result<Floor, String> {
        let rule = &self.rule;
        let (usage, of) = match &*self.usage {
            Usage::Measured(measured) => {
                let history = measured.read(rule, request).await?;
                let series = rule.label.as_ref().map_or("", |_| part);
                let Peak { usage, at } = history.peak(series, request.now, &rule.excluded)?;
                (usage, format!("peak {usage} at {at}"))
            }
            Usage::Modelled(field) => {
                let reader = &request.newest;
                let assets = members.iter().filter_map(|id| reader.get(id));
                let numbers = assets.filter_map(|it| field.of(&it)?.parse::<f64>().ok());
                let numbers: Vec<f64> = numbers.filter(|it| it.is_finite()).collect();
                if numbers.is_empty() {
                    return Err(format!("no asset has a number as `{field}`"));
                }
                let usage: f64 = numbers.iter().sum();
                (usage, format!("modelled {usage}"))
            }
        };
        // 100 x 1.1 is 110, and a little more as a float.
        let units = (usage.max(0.0) * rule.headroom * (1.0 - 1e-12)).ceil() as u64;
        let why = format!("{of} x {}", rule.headroom);
        Ok(Floor { units, why })
    }

    /// The verdict about one part.
    async fn part(&self, request: &CheckRequest, part: &str, to: u64) -> Verdict {
        let members = self.members(request, part);
        let floor = match self.floor(request, part, &members).await {
            Ok(floor) => floor,
            Err(why) => return self.not_known(request, part, &why),
        };
        let serving = Serving {
            key: Scope::key(&self.rule.name, part),
            unit: self.rule.unit.clone(),
            assets: members,
        };
        let claim = Claim::Keep {
            key: serving.key.clone(),
            keeps: to,
            at_least: floor.units,
        };
        let verdict = request.proceed().claim(claim);
        let Some(view) = &request.view else {
            return verdict;
        };
        let served = match served(view.as_ref(), &serving, request.asset_id()).await {
            Ok(served) => served,
            Err(error) => return self.not_known(request, part, &error.to_string()),
        };
        let left = served.units.saturating_add(to);
        match left < floor.units {
            // Without the claim: an override of the check lets the push through, and the kernel counts it all the same.
            true => self.too_little(request, part, left, &floor, (serving, served)),
            false => verdict,
        }
    }

    fn too_little(
        &self,
        request: &CheckRequest,
        part: &str,
        left: u64,
        floor: &Floor,
        (serving, served): (Serving, Served),
    ) -> Verdict {
        let ids = |all: &[AssetId]| {
            let named = all.iter().take(3).map(|it| it.as_str());
            named.collect::<Vec<_>>().join(", ")
        };
        let (unit, needed) = (&self.rule.unit, floor.units);
        let mut reason = format!(
            "would leave {left} {unit} in {part}, {needed} are needed ({})",
            floor.why
        );
        if !served.unknown.is_empty() {
            let count = served.unknown.len();
            reason += &format!(
                "; {count} assets are not known yet, such as {}",
                ids(&served.unknown)
            );
        }
        let mut evidence = json!({"unit": unit, "left": left, "needed": needed, "served": served});
        match served.growing.is_empty() {
            true if served.unknown.is_empty() => evidence[DEAD_END] = WAY_OUT.into(),
            true => {}
            false => reason += &format!("; waits for {} to grow", ids(&served.growing)),
        }
        let delay = Delay::new(reason, Recheck::WhenFree(serving.key));
        Verdict::delay(request.now, delay.because(evidence))
    }

    fn not_known(&self, request: &CheckRequest, part: &str, why: &str) -> Verdict {
        let reason = format!(
            "takes {} from {part}, whose need is not known: {why}",
            self.rule.unit
        );
        let delay = Delay::new(reason, Recheck::After(AGAIN * 6));
        Verdict::delay(request.now, delay)
    }
}

/// The capacity of the other assets. Those that are not known are observed once.
async fn served(
    view: &dyn PartitionView,
    serving: &Serving,
    but: &AssetId,
) -> Result<Served, plugin_sdk::observe::Error> {
    let first = view.served(serving, but).await?;
    if first.unknown.is_empty() {
        return Ok(first);
    }
    let unknown = first.unknown.iter().take(OBSERVED);
    join_all(unknown.map(|it| view.observe(it))).await;
    view.served(serving, but).await
}

#[async_trait]
impl CheckPlugin for Capacity {
    fn info(&self) -> CheckInfo {
        let causes = Causes::of(&[Cause::Intent, Cause::Drift, Cause::Rollback]);
        CheckInfo::new(self.rule.name.clone()).only_for(causes)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let asset = request.asset()?;
        let parts = self.shrinks(&request, &asset)?;
        let verdicts = parts
            .iter()
            .map(|(part, to)| self.part(&request, part, *to));
        let verdicts = join_all(verdicts).await.into_iter();
        Ok(verdicts.fold(request.proceed(), Verdict::join))
    }
}
