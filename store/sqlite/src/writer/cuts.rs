//! R5: power cuts that take away any part of the log that was not forced to the medium, torn and damaged records.

use proptest::prelude::*;

use super::{
    plane::{ACKED, DATABASE, Image, KINDS, Kind, Plane, place},
    *,
};
use crate::{Error, acked::PLACES};

/// The images after each of two laps of commits and a few more. Every `checkpoint` commits the log is copied, and then
/// overwritten.
fn laps(checkpoint: u64) -> Vec<Image> {
    let mut plane = Plane::new();
    let images = (1..=2 * PLACES + 3).map(|n| {
        if n % checkpoint == 0 {
            plane.checkpoint();
        }
        plane.commit(
            &format!("k/{}", n % 5),
            format!("{n}").repeat(200).as_bytes(),
        );
        plane.image.clone()
    });
    images.collect()
}

#[test]
fn r5_a_log_cut_behind_its_forced_part_loses_no_acknowledged_commit() {
    let images = laps(u64::MAX);
    let forced: Vec<_> = images.iter().filter(|it| it.forced == it.end).collect();
    assert_eq!(forced.len(), 3, "one at the beginning, and one in each lap");
    cut_everywhere(&images);
}

#[test]
fn r5_a_cut_log_that_was_copied_and_begun_again_loses_no_acknowledged_commit() {
    let images = laps(6);
    let again = |it: &&Image| it.forced == 32 && it.end < it.log.len();
    assert!(images.iter().filter(again).count() > 3);
    cut_everywhere(&images);
}

/// Cuts each log at the ends of all commits, and inside of them.
fn cut_everywhere(images: &[Image]) {
    // Each kind meets each length.
    let mut kinds = KINDS.into_iter().cycle();
    let mut inside = [1, 24, 3000].into_iter().cycle();
    let mut completed = 0;
    for image in images {
        let unforced = image.forced..=image.end;
        let ends = images.iter().map(|it| it.end);
        for end in ends.filter(|end| unforced.contains(end)) {
            for kept in [end, end + inside.next().unwrap()] {
                let cut = image.cut(kept, kinds.next().unwrap());
                cut.open().unwrap();
                completed += usize::from(kept < image.end);
            }
        }
    }
    assert!(completed > 100, "{completed}");
}

#[test]
fn r5_a_completed_store_continues_and_survives_the_next_cut() {
    let mut plane = Plane::new();
    for n in 0..3 * PLACES {
        plane.commit(&format!("k/{n}"), b"value");
        if n % 7 == 6 {
            let cut = plane.image.cut(0, Kind::Missing);
            plane.reopen(&cut);
            // The first group after an opening is forced, so this cut takes away nothing of it.
            plane.commit("first", b"value");
            assert_eq!(plane.image.forced, plane.image.end);
        }
    }
}

#[test]
fn r5_a_torn_record_leaves_exactly_the_acknowledged_commits() {
    let images = laps(u64::MAX);
    for pair in images.windows(2) {
        let [before, after] = pair else {
            unreachable!()
        };
        if after.forced == after.end {
            // The commit is in the log before it is recorded.
            let torn = Image {
                acked: before.acked.clone(),
                ..after.clone()
            };
            torn.open().unwrap();
            continue;
        }
        // Each commit has one record here, so its number is that of the commit.
        let first = place(after.version.0);
        let old = &before.acked[first..first + place(1)];
        let new = &after.acked[first..first + place(1)];
        let last = (0..place(1)).rfind(|at| old[*at] != new[*at]).unwrap();
        for written in [0, 31, last] {
            // The record comes first, so the log does not have the commit yet.
            let mut torn = before.clone();
            torn.acked[first..first + written].copy_from_slice(&new[..written]);
            torn.open().unwrap();
            torn.cut(0, Kind::Missing).open().unwrap();
        }
        // Recorded, but not acknowledged: the next opening completes it.
        let recorded = Image {
            log: before.log.clone(),
            ..after.clone()
        };
        recorded.open().unwrap();
    }
}

#[test]
fn r5_a_damaged_record_that_is_needed_is_refused() {
    let mut plane = Plane::new();
    for n in 0..2 * PLACES {
        plane.commit(&format!("k/{n}"), b"value");
    }
    let (image, newest) = (&plane.image, plane.turn());
    let cut = image.cut(0, Kind::Missing);
    // The first commit was forced, and the one a lap behind it.
    let needed = 2 * PLACES - (1 + PLACES + 1);
    for turn in newest - needed + 1..newest {
        let mut damaged = cut.clone();
        damaged.flip_record(turn);
        let error = damaged.open().err().unwrap();
        assert!(
            matches!(error, Error::Lost { found, acked, .. } if found < acked),
            "{error}"
        );
        // With the whole log it is not needed.
        let log = image.log.clone();
        Image { log, ..damaged }.open().unwrap();
    }
    let mut older = cut.clone();
    older.flip_record(newest - needed);
    older.open().unwrap();
    // A torn record was not acknowledged, but two are not torn by one cut.
    let mut two = cut;
    two.flip_record(newest);
    two.flip_record(newest - 1);
    let error = two.open().err().unwrap();
    assert!(matches!(error, Error::Record { .. }), "{error}");
}

#[test]
fn r5_a_record_that_leads_to_another_state_is_refused() {
    let mut plane = Plane::new();
    plane.commit("k", b"value");
    let (before, batch) = (
        plane.writer.take().unwrap().state,
        Batch::new().put("k", "2"),
    );
    let mut after = State {
        version: batch.version_after(before.version),
        content: 7,
    };
    let mut redo = Vec::new();
    redo::append(&mut redo, &batch, after.version);
    let redo = Some(redo);
    let mut acked = Acked::open(&plane.path(ACKED), plane.turn()).unwrap();
    acked
        .write(
            &Record {
                before,
                after,
                redo: redo.clone(),
            },
            false,
        )
        .unwrap();
    plane.look(false);
    let error = plane.image.open().err().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    // With the state that it leads to, it is completed.
    let mut connection = database::connect(&plane.path(DATABASE)).unwrap();
    let transaction = connection.transaction().unwrap();
    after = before;
    let version = batch.version_after(before.version);
    database::apply(&transaction, batch.id, version, &batch.writes, &mut after).unwrap();
    drop(transaction);
    acked.retract(before).unwrap();
    acked
        .write(
            &Record {
                before,
                after,
                redo,
            },
            false,
        )
        .unwrap();
    plane.look(false);
    plane.image.values.insert("k".into(), b"2".to_vec());
    plane.image.version = version;
    plane.image.open().unwrap();
}

#[test]
fn r5_an_older_database_beside_newer_records_is_refused() {
    let images = laps(u64::MAX);
    let newest = images.last().unwrap();
    for image in &images {
        let behind = newest.version.0 - image.version.0;
        let Image { database, log, .. } = image.clone();
        let mixed = Image {
            database,
            log,
            ..newest.clone()
        };
        match mixed.open() {
            Ok(_) => assert!(behind <= PLACES),
            Err(error) => assert!(
                matches!(error, Error::Lost { .. }) && behind > PLACES,
                "{error}"
            ),
        }
    }
}

/// One step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Commit {
        key: u8,
        size: usize,
    },
    Checkpoint,
    Reopen,
    /// A power cut that keeps this many thousandths of what was not forced.
    Cut {
        kept: usize,
        kind: Kind,
    },
    /// A power cut while the next record is written.
    Torn {
        kept: usize,
        written: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let kept = || 0..=1000_usize;
    let kind = || prop::sample::select(&KINDS[..]);
    let size = prop_oneof![20 => 0..3000_usize, 2 => 0..200_000_usize, 1 => 250_000..700_000_usize];
    prop_oneof![
        100 => (0..9_u8, size).prop_map(|(key, size)| Step::Commit { key, size }),
        3 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
        2 => (kept(), kind()).prop_map(|(kept, kind)| Step::Cut { kept, kind }),
        1 => (kept(), 1..5000_usize).prop_map(|(kept, written)| Step::Torn { kept, written }),
    ]
}

fn kept(image: &Image, thousandths: usize) -> usize {
    image.forced + (image.end - image.forced) * thousandths / 1000
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn r5_random_histories_lose_no_acknowledged_commit(steps in prop::collection::vec(step(), 1..150)) {
        let mut plane = Plane::new();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Commit { key, size } => {
                    let value = format!("{n:08}").repeat(size / 8 + 1);
                    plane.commit(&format!("k/{key}"), value.as_bytes());
                }
                Step::Checkpoint => plane.checkpoint(),
                Step::Reopen => {
                    let writer = plane.writer.take().unwrap();
                    writer.close();
                    drop(writer);
                    plane.look(true);
                    let image = plane.image.clone();
                    plane.reopen(&image);
                }
                Step::Cut { kept: part, kind } => {
                    let cut = plane.image.cut(kept(&plane.image, part), kind);
                    plane.reopen(&cut);
                }
                Step::Torn { kept: part, written } => {
                    let mut torn = plane.image.cut(kept(&plane.image, part), Kind::Missing);
                    // Nothing is written to a place before it is free.
                    if plane.writer.as_ref().is_some_and(|writer| !writer.acked.is_full()) {
                        let at = place(plane.turn() + 1);
                        torn.acked[at..at + written].fill(0x55);
                    }
                    plane.reopen(&torn);
                }
            }
        }
        plane.image.cut(0, Kind::Missing).open().unwrap();
    }
}
