//! The number of assets that one seal can lose or add, and the effect of overrides.

use super::*;
use crate::{
    memo::Memo,
    testing::{self, incarnation, items},
};

/// `n` items; the items in `under` have a `Turndown` addon.
fn manifest(n: usize, under: std::ops::Range<usize>) -> serde_json::Value {
    let item = |at: usize| {
        let item = testing::Written {
            n: 1,
            turndown: under.contains(&at),
            ..Default::default()
        };
        (format!("i{at:04}"), serde_json::to_value(item).unwrap())
    };
    (0..n).map(item).collect::<serde_json::Map<_, _>>().into()
}

/// The result of a change from one manifest to the other: the number of assets, or the problems.
fn outcome(from: serde_json::Value, to: serde_json::Value) -> String {
    let pipeline = testing::builder().build().unwrap();
    match pipeline.dry_run([("docs", items(to))], Some(&incarnation(from))) {
        Ok(candidate) => format!("{} assets", candidate.snapshot.len()),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn r4_losing_more_than_a_tenth_is_refused() {
    let none = 0..0;
    assert_eq!(
        outcome(manifest(100, none.clone()), manifest(90, none.clone())),
        "90 assets"
    );
    let lost = outcome(manifest(100, none.clone()), manifest(89, none.clone()));
    assert!(
        lost.starts_with(
            "11 of 100 assets would be lost; to let it pass once, override shrink-guard for "
        ),
        "{lost}"
    );
}

#[test]
fn r4_three_assets_can_always_be_lost_but_not_the_last() {
    let none = 0..0;
    assert_eq!(
        outcome(manifest(5, none.clone()), manifest(2, none.clone())),
        "2 assets"
    );
    assert!(
        outcome(manifest(5, none.clone()), manifest(1, none.clone())).starts_with("4 of 5 assets")
    );
    assert!(
        outcome(manifest(2, none.clone()), manifest(0, none.clone()))
            .starts_with("no asset would be left")
    );
    assert!(outcome(manifest(2, 0..2), manifest(0, none)).starts_with("no asset would be left"));
}

#[test]
fn r4_removed_turndowns_are_no_losses_and_new_turndowns_are() {
    let none = 0..0;
    assert_eq!(
        outcome(manifest(20, 10..20), manifest(10, none.clone())),
        "10 assets"
    );
    assert!(
        outcome(manifest(20, none.clone()), manifest(20, 10..20)).starts_with("10 of 20 assets")
    );
    assert_eq!(
        outcome(manifest(20, 10..20), manifest(20, 10..20)),
        "20 assets"
    );
    assert_eq!(
        outcome(manifest(20, 10..20), manifest(20, 8..20)),
        "20 assets"
    );
    assert_eq!(
        outcome(manifest(20, none.clone()), manifest(22, 20..22)),
        "22 assets"
    );
}

#[test]
fn r4_override_applies_to_one_change_only() {
    let parent = incarnation(manifest(20, 0..0));
    let pipeline = testing::builder().build().unwrap();
    let judged = |n: usize, overrides: &[SealOverride]| {
        let readings = [(
            prodspec_model::SourceName("docs".into()),
            Ok(items(manifest(n, 0..0)).into()),
        )];
        let draft = Memo::new()
            .draft(&pipeline, readings.into(), Some(&parent))
            .unwrap();
        let judged = judge(&Guards::default(), &draft.candidate, overrides);
        (
            judged.problems.len(),
            judged.used,
            draft.candidate.change_digest(),
        )
    };
    let (problems, used, digest) = judged(10, &[]);
    assert_eq!((problems, used.len()), (1, 0));
    let by = plugin_sdk::By::new("ada", "moved away");
    let now = jiff::Timestamp::UNIX_EPOCH;
    let word = SealOverride::new(SHRINK, digest, by, now, None);
    let (problems, used, _) = judged(10, std::slice::from_ref(&word));
    assert_eq!((problems, used), (0, vec![word.clone()]));
    let (problems, used, _) = judged(9, &[word]);
    assert_eq!(
        (problems, used.len()),
        (1, 0),
        "the override is for another change"
    );
}

#[test]
fn adding_more_than_100_assets_and_100_per_cent_is_refused() {
    let none = 0..0;
    assert_eq!(
        outcome(manifest(2, none.clone()), manifest(102, none.clone())),
        "102 assets"
    );
    let grown = outcome(manifest(2, none.clone()), manifest(103, none.clone()));
    assert!(
        grown.starts_with(
            "101 assets would be added to 2; to let it pass once, override growth-guard"
        ),
        "{grown}"
    );
    assert_eq!(
        outcome(manifest(200, none.clone()), manifest(399, none.clone())),
        "399 assets"
    );
    assert!(
        outcome(manifest(200, none.clone()), manifest(400, none))
            .starts_with("200 assets would be added")
    );
}

/// `n` items under new ids, each moved from the item with that number.
fn renamed(n: usize, turndown: bool) -> serde_json::Value {
    let item = |at: usize| {
        let item = testing::Written {
            n: 1,
            turndown,
            moved_from: Some(format!("i{at:04}")),
            ..Default::default()
        };
        (format!("j{at:04}"), serde_json::to_value(item).unwrap())
    };
    (0..n).map(item).collect::<serde_json::Map<_, _>>().into()
}

#[test]
fn r4_renamed_assets_are_no_losses() {
    let all = manifest(100, 0..0);
    assert_eq!(outcome(all.clone(), renamed(100, false)), "100 assets");
    let some = outcome(all.clone(), renamed(89, false));
    assert!(some.starts_with("11 of 100 assets would be lost"), "{some}");
    let removed = outcome(all, renamed(100, true));
    assert!(
        removed.starts_with("100 of 100 assets would be lost"),
        "a rename to an asset that is to be removed is a loss: {removed}"
    );
}
