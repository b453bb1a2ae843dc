//! Laws of target selection: layers choose among the targets selected beneath them, and a rollout reaches its end.

use std::{
    future::{Ready, ready},
    task::{Context, Poll},
    time::Duration,
};

use jiff::Timestamp;
use tower_layer::Layer;
use tower_service::Service;

use super::Violation;
use crate::{
    Health, Progress, SelectRequest, Selection, Target, TargetSelection, Until, error::BoxError,
};

/// Maximum number of selections per target, plus as many once per rollout.
const ROUNDS: usize = 20;

/// The service that the tests put beneath a layer. It always returns the same selection, or an error.
#[derive(Debug, Clone)]
pub struct Offers(Option<Selection>);

impl Service<SelectRequest> for Offers {
    type Response = Selection;
    type Error = BoxError;
    type Future = Ready<Result<Selection, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: SelectRequest) -> Self::Future {
        let offered = self.0.clone();
        ready(offered.ok_or_else(|| "the selection beneath failed".into()))
    }
}

/// Tests the laws of policy layers for `layer`, with each of `requests`. The layer chooses among the targets that the
/// service beneath selected, keeps the reasons to wait of that service, gives a reason for targets that it holds back,
/// answers equal requests equally, and selects nothing when the service beneath fails.
///
/// ```
/// use plugin_sdk::{conformance, testing::{select_request, target}};
/// use plugin_sdk::{SelectRequest, Selection, service::NarrowLayer};
///
/// # futures::executor::block_on(async {
/// let layer = NarrowLayer::new(|_: &SelectRequest, beneath: Selection| beneath); // yours instead
/// let request = select_request([target("job/eu", &["eu"]), target("job/us", &["us"])]);
/// conformance::select_layer(layer, [request]).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn select_layer<L>(
    layer: L,
    requests: impl IntoIterator<Item = SelectRequest>,
) -> Result<(), Violation>
where
    L: Layer<Offers>,
    L::Service: TargetSelection,
{
    for request in requests {
        for offered in offers(&request) {
            let service = layer.layer(Offers(Some(offered.clone())));
            let selection = lawful(&service, &request).await?;
            if !selection
                .now
                .iter()
                .all(|place| offered.now.contains(place))
            {
                let law = "a layer chooses from the selection beneath it";
                return Err(broken(law, (selection, offered)));
            }
            if !offered
                .waits
                .iter()
                .all(|wait| selection.waits.contains(wait))
            {
                let law = "a layer keeps what the selection beneath waits for";
                return Err(broken(law, (selection, offered)));
            }
            if selection.now.len() < offered.now.len() && selection.waits == offered.waits {
                let law = "a layer gives a reason for targets that it holds back";
                return Err(broken(law, selection));
            }
        }
        if let Ok(selection) = layer.layer(Offers(None)).select(request).await
            && !selection.now.is_empty()
        {
            let law = "nothing is selected when the selection beneath fails";
            return Err(broken(law, selection));
        }
    }
    Ok(())
}

/// Tests the laws of complete policies for `policy`, starting from each of `requests`. The policy selects only targets
/// that wait, in ascending order, and answers equal requests equally. It selects every target in the end, if time
/// passes, selected targets settle after `settles_after`, and everything is healthy. Pass no request that is on hold.
///
/// ```
/// use plugin_sdk::{conformance, service::AllTargets, testing::{select_request, target}};
/// use std::time::Duration;
///
/// # futures::executor::block_on(async {
/// let request = select_request([target("job/eu", &["eu"]), target("job/us", &["us"])]);
/// conformance::select(&AllTargets, [request], Duration::from_secs(60)).await
/// # }).unwrap();
/// ```
///
/// # Errors
/// The first law that does not hold.
pub async fn select<P>(
    policy: &P,
    requests: impl IntoIterator<Item = SelectRequest>,
    settles_after: Duration,
) -> Result<(), Violation>
where
    P: TargetSelection + ?Sized,
{
    for mut request in requests {
        lawful(policy, &request).await?;
        let rounds = ROUNDS * (request.targets.len() + 1);
        let mut last = Selection::default();
        for _ in 0..rounds {
            if !request.targets.iter().any(Target::is_waiting) {
                break;
            }
            request.health = Some(Health::healthy(request.now));
            last = lawful(policy, &request).await?;
            pass(&mut request, &last, settles_after);
        }
        if request.targets.iter().any(Target::is_waiting) {
            let law = "every target is selected in the end";
            return Err(broken(law, last));
        }
    }
    Ok(())
}

/// Lets the selected targets settle, and time pass up to the next event that can change the selection.
fn pass(request: &mut SelectRequest, selection: &Selection, settles_after: Duration) {
    let settled = after(request.now, settles_after);
    let time = |until: Until| match until {
        Until::Time(at) | Until::Healthy { since: at } => Some(at).filter(|at| *at > request.now),
        _ => None,
    };
    let next = selection.waits.iter().filter_map(|wait| time(wait.until));
    let moves = |target: &Target| !target.is_waiting() && target.settled().is_none();
    let moving = !selection.now.is_empty() || request.targets.iter().any(moves);
    let next = next.min().unwrap_or(settled);
    let now = if moving { settled } else { next };
    for (place, target) in (0..).zip(request.targets.edit()) {
        if moves(target) || selection.now.binary_search(&place).is_ok() {
            target.progress = Progress::Updated { at: now };
        }
    }
    request.now = now;
}

fn after(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// The selection of `policy`, if it keeps the laws of a single selection.
async fn lawful<P: TargetSelection + ?Sized>(
    policy: &P,
    request: &SelectRequest,
) -> Result<Selection, Violation> {
    let answer = policy.select(request.clone()).await;
    let selection = answer.map_err(|error| broken("a selection does not fail", error))?;
    let again = policy.select(request.clone()).await;
    if again.ok().as_ref() != Some(&selection) {
        let law = "the same request gives the same selection";
        return Err(broken(law, selection));
    }
    if !selection.now.is_sorted_by(|a, b| a < b) {
        return Err(broken("selected indexes are in ascending order", selection));
    }
    let waits = |place: &u32| {
        let target = request.targets.get(*place as usize);
        target.is_some_and(Target::is_waiting)
    };
    if !selection.now.iter().all(waits) {
        return Err(broken("only targets that wait are selected", selection));
    }
    Ok(selection)
}

fn broken(law: &'static str, found: impl std::fmt::Debug) -> Violation {
    Violation::new("the policy", law, found)
}

/// Selections of the service beneath: every second target, the last target, none with a reason, all with a reason.
fn offers(request: &SelectRequest) -> Vec<Selection> {
    let all = request.targets.census().waiting().to_vec();
    vec![
        Selection::of(all.iter().copied().step_by(2)),
        Selection::of(all.last().copied()),
        Selection::of([]).waiting("beneath", Until::Person),
        Selection::of(all).waiting("beneath", Until::Person),
    ]
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::{
        Wait,
        service::{AllTargets, NarrowLayer},
        testing::{NOW, select_request, target},
    };

    fn request() -> SelectRequest {
        let ids = ["job/a", "job/b", "job/c", "job/d"];
        let mut request = select_request(ids.map(|id| target(id, &["eu"])));
        let targets = request.targets.edit();
        targets[1].progress = Progress::Updated { at: NOW };
        targets[2].progress = Progress::InFlight { since: NOW };
        request
    }

    fn layer_breaks(
        rule: impl Fn(&SelectRequest, Selection) -> Selection + Clone + Send + Sync + 'static,
    ) -> &'static str {
        let checked = block_on(select_layer(NarrowLayer::new(rule), [request()]));
        checked.unwrap_err().law()
    }

    fn policy_breaks(
        rule: impl Fn(&SelectRequest, Selection) -> Selection + Clone + Send + Sync + 'static,
    ) -> &'static str {
        let policy = NarrowLayer::new(rule).layer(AllTargets);
        let minute = Duration::from_secs(60);
        let checked = block_on(select(&policy, [request()], minute));
        checked.unwrap_err().law()
    }

    fn held() -> Wait {
        let why = "a hold without an end".into();
        Wait {
            why,
            until: Until::Settled,
        }
    }

    #[test]
    fn policy_layer_that_breaks_a_law_is_reported() {
        let more = |_: &SelectRequest, mut beneath: Selection| {
            beneath.now = vec![0, 3];
            beneath
        };
        let law = "a layer chooses from the selection beneath it";
        assert_eq!(layer_breaks(more), law);
        let forgets = |_: &SelectRequest, beneath: Selection| Selection {
            waits: Vec::new(),
            ..beneath
        };
        let law = "a layer keeps what the selection beneath waits for";
        assert_eq!(layer_breaks(forgets), law);
        let silent = |_: &SelectRequest, beneath: Selection| beneath.narrowed(|_| false);
        let law = "a layer gives a reason for targets that it holds back";
        assert_eq!(layer_breaks(silent), law);
    }

    #[test]
    fn policy_that_breaks_a_law_is_reported() {
        let updated = |_: &SelectRequest, _| Selection {
            now: vec![1],
            ..Selection::default()
        };
        let law = "only targets that wait are selected";
        assert_eq!(policy_breaks(updated), law);
        let falling = |_: &SelectRequest, mut beneath: Selection| {
            beneath.now.reverse();
            beneath
        };
        assert_eq!(
            policy_breaks(falling),
            "selected indexes are in ascending order"
        );
        let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counts = move |_: &SelectRequest, beneath: Selection| {
            let call = calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            beneath.narrowed(|_| call.is_multiple_of(2))
        };
        let law = "the same request gives the same selection";
        assert_eq!(policy_breaks(counts), law);
        let never = |_: &SelectRequest, beneath: Selection| {
            beneath
                .narrowed(|place| place != 3)
                .waiting(held().why, held().until)
        };
        assert_eq!(policy_breaks(never), "every target is selected in the end");
    }

    #[test]
    fn all_targets_keeps_the_laws() {
        block_on(select(&AllTargets, [request()], Duration::from_secs(60))).unwrap();
    }
}
