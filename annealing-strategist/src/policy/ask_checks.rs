//! The layer that asks the checks before targets are selected.

use std::{
    collections::{BTreeMap, BTreeSet},
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use jiff::Timestamp;
use plugin_sdk::{
    BoxError, Delay, Recheck, SelectRequest, Selection, TargetSelection, Until,
    service::StackService,
};
use prodspec_model::AssetId;
use tower_layer::Layer;
use tower_service::Service;

/// Maximum number of targets whose pushes the checks judge in one selection. The others take their turn in the next.
const MOST: usize = 64;

/// Maximum number of different delays that a selection shows, and of assets that each of them names.
const SHOWN: usize = 4;

/// The next selection comes after this time even if a delay lasts longer: an operator may have overridden it. It costs
/// little, since the enforcer remembers the delays.
const AGAIN: Duration = Duration::from_secs(2);

/// The shortest time between two selections for which the checks run.
const NEXT: Duration = Duration::from_secs(1);

/// Asks the checks about the targets that the layers beneath select, and leaves out those whose pushes would wait: a
/// target that checks delay fills no room of a canary, wave or limit. Put it around all other layers.
///
/// It applies to cautious requests that have [`checks`](SelectRequest::checks). A wait for another asset delays
/// nothing: if that is a target it moves too, and if not, the rollout has to show it. The way back and emergencies move at
/// once, and their pushes wait.
///
/// ```
/// use annealing_strategist::policy::{AskChecks, MaxInFlightLayer};
/// use plugin_sdk::service::AllTargets;
///
/// let policy = tower::ServiceBuilder::new()
///     .layer(AskChecks)
///     .layer(MaxInFlightLayer::new(10))
///     .service(AllTargets);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct AskChecks;

impl<S> Layer<S> for AskChecks {
    type Service = AskedChecks<S>;

    fn layer(&self, beneath: S) -> Self::Service {
        AskedChecks(beneath)
    }
}

/// The service made by [`AskChecks`]: the layers beneath it, and the checks.
#[derive(Debug, Clone)]
pub struct AskedChecks<S>(S);

impl<S: StackService<SelectRequest, Selection>> Service<SelectRequest> for AskedChecks<S> {
    type Response = Selection;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Selection, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: SelectRequest) -> Self::Future {
        let beneath = self.0.clone();
        Box::pin(async move {
            if request.checks.is_none() || !request.is_cautious() {
                return beneath.select(request).await;
            }
            let known = request.checks.would_wait(Vec::new()).await;
            let mut verdicts = Verdicts::default();
            verdicts.note(&request, known);
            verdicts.choose(&beneath, request).await
        })
    }
}

/// The verdicts of the checks in one selection.
#[derive(Default)]
struct Verdicts {
    /// The targets that would wait, by index, with their delays.
    wait: BTreeMap<u32, Vec<Delay>>,
    /// The targets that would not wait.
    free: BTreeSet<u32>,
}

impl Verdicts {
    /// Selects and asks until all selected targets are known not to wait, or the checks have judged enough targets.
    async fn choose(
        mut self,
        beneath: &impl TargetSelection,
        mut request: SelectRequest,
    ) -> Result<Selection, BoxError> {
        let others = std::mem::take(&mut request.not_now);
        let mut left = MOST;
        loop {
            let not_now = others.iter().chain(self.wait.keys()).copied();
            request.not_now = not_now.collect::<BTreeSet<u32>>().into_iter().collect();
            let selection = beneath.select(request.clone()).await?;
            let is_new =
                |place: &&u32| !self.free.contains(place) && !self.wait.contains_key(place);
            let new: Vec<u32> = selection.now.iter().filter(is_new).copied().collect();
            if new.is_empty() || left == 0 {
                return Ok(self.narrow(&request, selection, new.len()));
            }
            let places: Vec<u32> = new.into_iter().take(left).collect();
            left -= places.len();
            let of = |place: &u32| request.targets.get(*place as usize);
            let assets = places
                .iter()
                .filter_map(of)
                .map(|target| target.asset.clone());
            let waiting = request.checks.would_wait(assets.collect()).await;
            self.free.extend(places);
            self.note(&request, waiting);
        }
    }

    /// Takes in which assets would wait.
    fn note(&mut self, request: &SelectRequest, waiting: Vec<(AssetId, Vec<Delay>)>) {
        let place = |asset: &AssetId| {
            let all = &request.targets;
            all.binary_search_by(|target| target.asset.cmp(asset)).ok()
        };
        for (asset, mut delays) in waiting {
            let Some(of) = place(&asset) else { continue };
            // R19: it may be a target too, or one that the rollout has to name beside those that wait for it.
            delays.retain(|delay| !matches!(delay.recheck, Recheck::WhenSettled(_)));
            if !delays.is_empty() {
                self.free.remove(&(of as u32));
                self.wait.insert(of as u32, delays);
            }
        }
    }

    /// Keeps the targets that would not wait, and names the waits of the others. `more`: number of those selected targets
    /// that the checks have not judged yet.
    fn narrow(&self, request: &SelectRequest, selection: Selection, more: usize) -> Selection {
        let now = request.now;
        let mut selection = selection.narrowed(|place| self.free.contains(&place));
        for (why, (places, ends)) in self.reasons(request).into_iter().take(SHOWN) {
            let named = places.iter().take(SHOWN);
            let named = named.filter_map(|place| request.targets.get(*place as usize));
            let named: Vec<String> = named.map(|target| format!("`{}`", target.asset)).collect();
            let others = match places.len() - named.len() {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let again = ends.unwrap_or(Timestamp::MAX).min(now + AGAIN);
            let again = again.max(now + NEXT);
            let until = Until::Checks { again, ends };
            selection = selection.waiting(format!("{}{others}: {why}", named.join(", ")), until);
        }
        if more > 0 {
            let why = format!("the checks judge {more} more targets next");
            // Each target that settles starts another selection. If a layer above keeps all of them, asking again soon would
            // only cost calls of plugins.
            let again = match selection.now.is_empty() {
                true => now + NEXT,
                false => now + NEXT * 10,
            };
            selection = selection.waiting(why, Until::Checks { again, ends: None });
        }
        selection
    }

    /// The targets that wait, by the first delay of each, with the time at which it ends if that is known.
    fn reasons(&self, request: &SelectRequest) -> BTreeMap<String, (Vec<u32>, Option<Timestamp>)> {
        let mut reasons: BTreeMap<String, (Vec<u32>, Option<Timestamp>)> = BTreeMap::new();
        let waits = |place: u32| {
            request
                .targets
                .get(place as usize)
                .is_some_and(|it| it.is_waiting())
        };
        for (place, delays) in self.wait.iter().filter(|(place, _)| waits(**place)) {
            let Some(first) = delays.first() else {
                continue;
            };
            let end = |delay: &Delay| match delay.recheck {
                Recheck::At(time) => Some(time),
                _ => None,
            };
            let ends: Option<Vec<Timestamp>> = delays.iter().map(end).collect();
            let ends = ends.and_then(|ends| ends.into_iter().max());
            let why = format!("{}: {}", first.check, first.reason);
            let of = reasons.entry(why).or_insert((Vec::new(), ends));
            of.0.push(*place);
            of.1 = of.1.zip(ends).map(|(one, other)| one.max(other));
        }
        reasons
    }
}
