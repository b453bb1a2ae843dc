//! An outage of the store for an hour, for all processes: no push begins without a lease, no pin moves, and afterwards
//! production reaches its intent as usual.

use std::time::Duration;

use simulation::{
    Scenario,
    faults::{Fault, Rates},
    run_all,
};

const HOUR: Duration = Duration::from_secs(3600);

/// An hour without the store, with edits, manual changes of production, commands of operators, and faults of clocks.
fn away(seed: u64) -> Scenario {
    Scenario {
        rates: Rates::only(&[
            (Fault::EditRevises, 700),
            (Fault::EditResizes, 300),
            (Fault::PersonPins, 500),
            (Fault::DriftContent, 300),
            (Fault::ClockStops, 100),
            (Fault::Crash, 20),
        ]),
        store_faults: [0; 7],
        edit_every: Duration::from_secs(20),
        trouble: HOUR + Duration::from_secs(600),
        away: Some((Duration::from_secs(300), HOUR)),
        ..Scenario::choose(seed)
    }
}

#[test]
fn s10_an_hour_without_the_store_pushes_nothing_and_moves_no_pin() {
    let sum = run_all(2000, 10, away, |_| false);
    assert!(sum.violations.is_empty(), "{:?}", sum.violations);
    for seen in [
        "judged lease",
        "judged R8",
        "judged L1",
        "judged L2",
        "store unreachable",
    ] {
        assert!(sum.counts[seen] > 0, "{seen}");
    }
}
