//! Tests of schedules. Each file has one topic; what several of them need is here.

mod expressions;
mod life;
mod model;
mod records;
mod reference;
mod slots;

use jiff::Timestamp;

use prodspec_model::operation::Concurrency;

use super::{Schedule, Slots, Wanted};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn slots(cron: &str, zone: &str) -> Slots {
    Slots::new(cron, Some(zone)).unwrap()
}

/// A schedule in UTC that was seen for the first time at the start of 2026.
fn schedule(cron: &str, concurrency: Concurrency) -> Schedule {
    let wanted = Wanted {
        concurrency,
        ..Wanted::new(cron)
    };
    Schedule::new(wanted, at("2026-01-01T00:00Z")).unwrap()
}

/// All slots after `after` and not after `until`.
fn all(slots: &Slots, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(slots.next(after), |slot| slots.next(*slot))
        .take_while(|slot| *slot <= until)
        .collect()
}
