//! Tests of selection by policies. Each file has one topic; the requests that several of them need are here.

mod ask_checks;
mod gates;
mod laws;
mod layers;
mod refused;

use std::time::Duration;

use futures::executor::block_on;
use jiff::Timestamp;
use plugin_sdk::{
    Progress, SelectRequest, Selection, TargetSelection, Until,
    testing::{NOW, select_request, target},
};

const MINUTE: Duration = Duration::from_secs(60);

fn minutes(minutes: u64) -> Duration {
    MINUTE * minutes as u32
}

fn at(minute: u64) -> Timestamp {
    NOW + minutes(minute)
}

fn set(request: &mut SelectRequest, place: usize, progress: Progress) {
    request.targets.set_progress(place, progress);
}

fn updated(minute: u64) -> Progress {
    Progress::Updated { at: at(minute) }
}

fn selected(policy: &impl TargetSelection, request: &SelectRequest) -> Selection {
    block_on(policy.select(request.clone())).unwrap()
}

/// Four targets, `a` to `d`: two in eu, two in us.
fn four() -> SelectRequest {
    let all = [
        ("job/a", "us"),
        ("job/b", "eu"),
        ("job/c", "us"),
        ("job/d", "eu"),
    ];
    select_request(all.map(|(id, domain)| target(id, &[domain])))
}

fn until(selection: &Selection) -> Vec<Until> {
    selection.waits.iter().map(|wait| wait.until).collect()
}
