//! Tests of schedules. Each file has one topic; what several of them need is here.

mod expressions;
mod reference;
mod slots;

use jiff::Timestamp;

use super::Slots;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn slots(cron: &str, zone: &str) -> Slots {
    Slots::new(cron, Some(zone)).unwrap()
}

/// All slots after `after` and not after `until`.
fn all(slots: &Slots, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    std::iter::successors(slots.next(after), |slot| slots.next(*slot))
        .take_while(|slot| *slot <= until)
        .collect()
}
