//! R5: power cuts that take away any part of the log that was not forced to the medium, torn and damaged records.

use std::{collections::BTreeMap, fs, path::PathBuf};

use control_plane_store::Key;
use proptest::prelude::*;
use tempfile::TempDir;

use super::{tests::writer, *};
use crate::{
    Error,
    acked::{PLACE, PLACES},
    directory::Directory,
    opening,
};

const DATABASE: &str = "plane.sqlite3";
const LOG: &str = "plane.sqlite3-wal";
const ACKED: &str = "plane.acked";

/// A temporary directory, in memory where possible: these tests open thousands of stores.
fn temporary() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// The files of a store at one moment, as other processes see them.
#[derive(Clone)]
struct Image {
    database: Vec<u8>,
    log: Vec<u8>,
    acked: Vec<u8>,
    /// The log when it was last forced to the medium. What it contains up to that length survives a power cut.
    forced: Vec<u8>,
    /// The acknowledged values, and the newest commit.
    values: BTreeMap<Key, Vec<u8>>,
    version: Version,
}

/// How a power cut leaves the part of the log that was not forced to the medium.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Missing,
    Zero,
    Flipped,
    /// As it was when the log was last forced.
    Old,
    /// Every second sector as it was when the log was last forced.
    Mixed,
}

const KINDS: [Kind; 5] = [
    Kind::Missing,
    Kind::Zero,
    Kind::Flipped,
    Kind::Old,
    Kind::Mixed,
];

impl Image {
    /// The image after a power cut that keeps `kept` bytes of the log, at least what was forced.
    fn cut(&self, kept: usize, kind: Kind) -> Self {
        let mut log = self.log.clone();
        let kept = kept.max(self.forced.len()).min(log.len());
        let old = self.forced.get(kept..).unwrap_or_default().to_vec();
        match kind {
            Kind::Missing => log.truncate(kept),
            Kind::Zero => log[kept..].fill(0),
            Kind::Flipped => log[kept..]
                .iter_mut()
                .step_by(97)
                .for_each(|it| *it ^= 0x55),
            Kind::Old => log.splice(kept.., old).for_each(drop),
            Kind::Mixed => {
                for (n, sector) in log[kept..].chunks_mut(512).enumerate().skip(1).step_by(2) {
                    let old = old.iter().skip(n * 512).copied();
                    let old = old.chain(std::iter::repeat(0));
                    sector.iter_mut().zip(old).for_each(|(new, old)| *new = old);
                }
            }
        }
        Self {
            log,
            ..self.clone()
        }
    }

    fn flip_record(&mut self, turn: u64) {
        self.acked[place(turn) + 50] ^= 0x55;
    }

    fn write(&self) -> TempDir {
        let dir = temporary();
        for (file, bytes) in self.files() {
            fs::write(dir.path().join(file), bytes).unwrap();
        }
        dir
    }

    fn files(&self) -> [(&str, &Vec<u8>); 3] {
        [
            (DATABASE, &self.database),
            (LOG, &self.log),
            (ACKED, &self.acked),
        ]
    }

    /// Opens the image. If that succeeds, exactly the acknowledged commits are in it. A refused image is unchanged.
    fn open(&self) -> Result<(TempDir, Writer), Error> {
        let dir = self.write();
        let directory = Directory::lock(dir.path()).unwrap();
        match opening::open(&directory) {
            Ok(opened) => {
                let writer = Writer::new(opened, Poison::default(), Arc::default()).unwrap();
                self.check(&writer);
                Ok((dir, writer))
            }
            Err(error) => {
                for (file, bytes) in self.files() {
                    assert!(
                        *bytes == fs::read(dir.path().join(file)).unwrap(),
                        "{error}"
                    );
                }
                Err(error)
            }
        }
    }

    fn check(&self, writer: &Writer) {
        assert_eq!(writer.state.version, self.version);
        let transaction = writer.connection.unchecked_transaction().unwrap();
        for (key, value) in &self.values {
            let found = database::get(&transaction, key).unwrap().unwrap();
            assert!(found.value == *value, "{key}");
        }
        let all = control_plane_store::KeyRange::all();
        let rows = database::scan(&transaction, &all, self.values.len() + 1).unwrap();
        assert_eq!(rows.rows.len(), self.values.len());
    }
}

fn place(turn: u64) -> usize {
    usize::try_from(turn % PLACES * PLACE).unwrap()
}

/// A store with one group per commit, and what is known about it.
struct Plane {
    dir: TempDir,
    writer: Option<Writer>,
    image: Image,
}

impl Plane {
    fn new() -> Self {
        let dir = temporary();
        let writer = Some(writer(dir.path()));
        let image = Image {
            database: Vec::new(),
            log: Vec::new(),
            acked: Vec::new(),
            forced: Vec::new(),
            values: BTreeMap::new(),
            version: Version(0),
        };
        let mut plane = Self { dir, writer, image };
        plane.look(true);
        plane
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Reads the files again. `forced` says whether the whole log was forced to the medium.
    fn look(&mut self, forced: bool) {
        let read = |file| fs::read(self.path(file)).unwrap_or_default();
        let (database, log, acked) = (read(DATABASE), read(LOG), read(ACKED));
        // SQLite forces the new header when it begins to overwrite a log that was copied. Nothing else is forced then.
        let header = log.len().min(32);
        if log[..header] != self.image.forced[..self.image.forced.len().min(32)] {
            self.image.forced = log[..header].to_vec();
        }
        if forced {
            self.image.forced.clone_from(&log);
        }
        self.image = Image {
            database,
            log,
            acked,
            ..self.image.clone()
        };
    }

    fn commit(&mut self, key: &str, value: &[u8]) {
        let writer = self.writer.as_mut().unwrap();
        let batch = Batch::new().put(key, value.to_vec());
        self.image.version = super::tests::commit(writer, &[batch]).remove(0).unwrap();
        self.image.values.insert(key.into(), value.to_vec());
        let forced = writer.forcing;
        self.look(forced);
    }

    fn checkpoint(&mut self) {
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        let connection = &self.writer.as_ref().unwrap().connection;
        connection.query_row(sql, [], |_| Ok(())).unwrap();
        self.look(true);
    }

    /// Continues with the store that `image` leaves.
    fn reopen(&mut self, image: &Image) {
        self.writer = None;
        let (dir, writer) = image.open().unwrap();
        (self.dir, self.writer) = (dir, Some(writer));
        self.image = Image {
            forced: Vec::new(),
            ..image.clone()
        };
        self.look(true);
    }

    fn turn(&self) -> u64 {
        match acked::read(&self.path(ACKED)).unwrap() {
            acked::Found::Records(records) => records.turn,
            found => panic!("{found:?}"),
        }
    }
}

/// The images after each of two laps of commits and a few more.
fn laps() -> Vec<Image> {
    let mut plane = Plane::new();
    let images = (0..2 * PLACES + 3).map(|n| {
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
    let images = laps();
    // Each kind meets each length.
    let mut kinds = KINDS.into_iter().cycle();
    let mut inside = [1, 24, 3000].into_iter().cycle();
    let mut completed = 0;
    for image in &images {
        let forced = image.forced.len();
        let ends = images.iter().map(|it| it.log.len());
        let ends: Vec<_> = ends
            .filter(|end| (forced..=image.log.len()).contains(end))
            .collect();
        for end in ends {
            for kept in [end, end + inside.next().unwrap()] {
                let cut = image.cut(kept, kinds.next().unwrap());
                cut.open().unwrap();
                completed += usize::from(kept < image.log.len());
            }
        }
    }
    let forced: Vec<_> = images.iter().filter(|it| it.forced == it.log).collect();
    assert_eq!(forced.len(), 3, "one at the beginning, and one in each lap");
    assert!(completed > 300, "{completed}");
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
            assert_eq!(plane.image.forced, plane.image.log);
        }
    }
}

#[test]
fn r5_a_torn_record_leaves_exactly_the_acknowledged_commits() {
    let images = laps();
    for pair in images.windows(2) {
        let [before, after] = pair else {
            unreachable!()
        };
        if after.forced == after.log {
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
    let images = laps();
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
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Reopen),
        2 => (kept(), kind()).prop_map(|(kept, kind)| Step::Cut { kept, kind }),
        1 => (kept(), 1..5000_usize).prop_map(|(kept, written)| Step::Torn { kept, written }),
    ]
}

fn kept(image: &Image, thousandths: usize) -> usize {
    let forced = image.forced.len();
    forced + image.log.len().saturating_sub(forced) * thousandths / 1000
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
