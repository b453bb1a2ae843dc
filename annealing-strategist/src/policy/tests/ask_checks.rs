//! The layer that asks the checks: targets that they delay take no room from the others, however many wait.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use plugin_sdk::{
    ChecksAhead, Delay, Recheck, SelectRequest, Selection, TargetSelection, Until,
    service::AllTargets,
    testing::{NOW, select_request, target},
};
use prodspec_model::AssetId;
use tower::ServiceBuilder;

use crate::policy::{AskChecks, MaxInFlightLayer};

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// Checks that delay some assets. They remember which ones they have delayed, as enforcement does.
#[derive(Clone)]
struct Checks {
    delays: fn(&AssetId) -> Option<Recheck>,
    /// The assets of each question.
    questions: Arc<Mutex<Vec<Vec<AssetId>>>>,
}

impl Checks {
    fn ahead(&self) -> ChecksAhead {
        let (delays, questions) = (self.delays, self.questions.clone());
        ChecksAhead::new(move |assets| {
            let mut questions = questions.lock().unwrap();
            questions.push(assets);
            let all = questions.iter().flatten();
            let wait = all.filter_map(|asset| {
                let delay = Delay::new("frozen", delays(asset)?).check("calendar");
                Some((asset.clone(), vec![delay]))
            });
            futures::future::ready(wait.collect()).boxed()
        })
    }
}

/// A request with `targets` targets, whose pushes `delays` delays.
fn request(targets: usize, delays: fn(&AssetId) -> Option<Recheck>) -> (SelectRequest, Checks) {
    let targets: Vec<_> = (0..targets)
        .map(|no| target(&format!("t{no:03}"), &[]))
        .collect();
    let mut request = select_request(targets);
    let questions = Arc::default();
    let checks = Checks { delays, questions };
    request.checks = checks.ahead();
    (request, checks)
}

fn select(request: &SelectRequest) -> Selection {
    let stack = ServiceBuilder::new()
        .layer(AskChecks)
        .layer(MaxInFlightLayer::new(2))
        .service(AllTargets);
    let answer = stack.select(request.clone()).now_or_never();
    answer.unwrap().unwrap()
}

#[test]
fn r18_targets_that_checks_delay_leave_their_room_to_others() {
    let frozen = |asset: &AssetId| (asset.as_str() < "t003").then_some(Recheck::At(NOW + HOUR));
    let (request, _) = request(6, frozen);
    let selection = select(&request);
    assert_eq!(selection.now, [3, 4]);
    let frozen = selection
        .waits
        .iter()
        .find(|it| it.why.contains("calendar"))
        .unwrap();
    assert_eq!(frozen.why, "`t000`, `t001`, `t002`: calendar: frozen");
    let (again, ends) = (NOW + HOUR / 1800, Some(NOW + HOUR));
    assert_eq!(frozen.until, Until::Checks { again, ends });
}

#[test]
fn r18_one_selection_asks_about_64_targets_and_the_next_about_others() {
    let frozen = |asset: &AssetId| (asset.as_str() < "t150").then_some(Recheck::At(NOW + HOUR));
    let (request, checks) = request(200, frozen);
    for look in 1..=2 {
        let selection = select(&request);
        assert_eq!(selection.now, Vec::<u32>::new());
        let next = |it: &plugin_sdk::Wait| {
            let again = NOW + std::time::Duration::from_secs(1);
            it.until == Until::Checks { again, ends: None }
        };
        assert!(
            selection.waits.iter().any(next),
            "look {look}: {:?}",
            selection.waits
        );
        let judged: usize = checks.questions.lock().unwrap().iter().map(Vec::len).sum();
        assert_eq!(judged, 64 * look);
    }
    assert_eq!(select(&request).now, [150, 151]);
}

/// A layer above may keep all of them back: then the checks must not run again at once.
#[test]
fn r18_targets_left_over_after_a_selection_are_judged_ten_seconds_later() {
    let (request, _) = request(100, |_| None);
    let stack = ServiceBuilder::new().layer(AskChecks).service(AllTargets);
    let selection = stack.select(request).now_or_never().unwrap().unwrap();
    assert_eq!(selection.now.len(), 64);
    let again = NOW + HOUR / 360;
    assert_eq!(
        selection.waits[0].until,
        Until::Checks { again, ends: None }
    );
}

#[test]
fn r7_an_end_is_known_only_if_all_delays_have_one() {
    let wait = |delays: &[Recheck]| {
        let (mut request, _) = request(1, |_| None);
        let delay = |again: &Recheck| Delay::new("frozen", again.clone()).check("calendar");
        let delays: Vec<Delay> = delays.iter().map(delay).collect();
        request.checks = ChecksAhead::new(move |_| {
            let wait = vec![(AssetId::new("t000").unwrap(), delays.clone())];
            futures::future::ready(wait).boxed()
        });
        match select(&request).waits[0].until {
            Until::Checks { ends, .. } => ends,
            _ => panic!("it waits for something else"),
        }
    };
    let at = |hours: u32| Recheck::At(NOW + HOUR * hours);
    assert_eq!(wait(&[at(1), at(3)]), Some(NOW + HOUR * 3));
    assert_eq!(wait(&[at(1), Recheck::After(HOUR)]), None);
}

#[test]
fn r19_a_wait_for_another_asset_keeps_no_target_back() {
    let other = |_: &AssetId| Some(Recheck::WhenSettled(AssetId::new("other").unwrap()));
    let (request, _) = request(2, other);
    assert_eq!(select(&request).now, [0, 1]);
}

#[test]
fn r6_the_way_back_asks_no_check() {
    let frozen = |_: &AssetId| Some(Recheck::At(NOW + HOUR));
    let (mut request, checks) = request(2, frozen);
    request.direction = plugin_sdk::Direction::Back;
    assert_eq!(select(&request).now, [0, 1]);
    assert!(checks.questions.lock().unwrap().is_empty());
}
