//! R9, R16: what counts of a capacity that several holders share.

use plugin_sdk::testing;

use super::*;

fn shared() -> Shared {
    Shared {
        provider: testing::asset("p").id(),
        unit: "qps".into(),
    }
}

/// Amounts of a provider with the consumers 1 to 3, none of which was diffed.
fn watched() -> (Amounts<u32>, Key) {
    let (mut amounts, shared) = (Amounts::default(), shared());
    assert!(amounts.watch(&shared, Mono(0)));
    amounts.set_consumers(&shared, BTreeSet::from([1, 2, 3]), Vec::new());
    (amounts, Key::capacity(&shared.provider, &shared.unit))
}

/// Notes a diff of a consumer: started at `at`, found `level`, and its coming push would leave `soon`.
fn found(amounts: &mut Amounts<u32>, holder: u32, at: u64, (level, soon): (u64, Option<u64>)) {
    let started = Now {
        mono: Mono(at),
        wall: testing::NOW,
    };
    let capacity = |_: &str| Some((level, soon));
    amounts.observed(&holder, capacity, started, soon.is_some(), |_| true);
}

#[test]
fn r9_a_smaller_claim_of_the_same_holder_gives_nothing_back() {
    let (mut amounts, key) = watched();
    amounts.claim(&1, &key, 60);
    amounts.claim(&1, &key, 20);
    assert!(!amounts.fits(&2, &key, 41, 100));
    assert!(amounts.fits(&2, &key, 40, 100));
}

#[test]
fn r16_older_diff_does_not_replace_a_newer_one() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 20, (60, None));
    found(&mut amounts, 1, 10, (5, None));
    assert!(!amounts.fits(&2, &key, 41, 100));
}

#[test]
fn r16_diff_of_other_content_keeps_the_level_after_the_coming_push() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (60, Some(30)));
    found(&mut amounts, 1, 20, (60, None));
    let sum = amounts.sum(&key, &2, Mono(0), 9, |_| false);
    assert_eq!(sum.shrinking, [(1, 60)]);
}

#[test]
fn r9_claim_counts_after_its_holder_is_no_longer_a_consumer() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (80, None));
    amounts.claim(&1, &key, 60);
    amounts.set_consumers(&shared(), BTreeSet::from([2, 3]), Vec::new());
    assert!(!amounts.fits(&2, &key, 41, 100), "its push is under way");
    assert!(
        amounts.fits(&2, &key, 40, 100),
        "its usage no longer counts"
    );
    amounts.release(&1, &key);
    assert!(amounts.fits(&2, &key, 100, 100));
}

#[test]
fn r16_amounts_asked_about_within_the_evidence_age_are_kept() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (60, None));
    let age = Duration::from_secs(60);
    amounts.forget(Mono(0) + age, age);
    assert!(!amounts.fits(&2, &key, 41, 100), "it is as old as the age");
    amounts.forget(Mono(1) + age * 2, age);
    assert!(amounts.fits(&2, &key, 100, 100), "older than that");
    assert_eq!(amounts.size(), 0);
}

#[test]
fn r16_consumer_being_pushed_counts_with_its_last_observation() {
    let (mut amounts, key) = watched();
    found(&mut amounts, 1, 10, (60, None));
    found(&mut amounts, 3, 90, (1, None));
    let unknown = |in_flight: &[u32], amounts: &Amounts<u32>| {
        let sum = amounts.sum(&key, &3, Mono(50), 9, |holder| in_flight.contains(holder));
        sum.unknown
    };
    assert_eq!(
        unknown(&[], &amounts),
        [2, 1],
        "2 was never observed, the observation of 1 is too old"
    );
    assert_eq!(unknown(&[1], &amounts), [2]);
    assert_eq!(
        unknown(&[1, 2], &amounts),
        [2],
        "2 was never observed, pushed or not"
    );
}
