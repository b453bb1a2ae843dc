//! R5: a log or database that lost acknowledged commits is refused; a store that opens has all of them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test"
)]

use std::{
    collections::BTreeMap,
    fs,
    hash::{BuildHasher, RandomState},
    path::Path,
    sync::Arc,
};

use control_plane_store::{
    Batch, Store,
    incarnations::{Head, Incarnations},
};
use control_plane_store_sqlite::{Error, SqliteStore};
use futures::executor::block_on;
use jiff::Timestamp;
use prodspec_model::{
    Asset, AssetId, Incarnation, IncarnationId, Snapshot, TypeName, incarnation::Header,
};
use tempfile::TempDir;

const DATABASE: &str = "plane.sqlite3";
const LOG: &str = "plane.sqlite3-wal";
const ACKED: &str = "plane.acked";

/// Number of records in the file [`ACKED`].
const PLACES: usize = 16;

/// Environment variable with the distance of the positions that the tests try. 1 tries every byte and every length,
/// which takes long.
const EXHAUSTIVE: &str = "STORE_EXHAUSTIVE";

/// Environment variable with the number that decides the first position. Without it, each run draws one and prints it.
const OFFSET: &str = "STORE_OFFSET";

/// Number of positions tried without [`EXHAUSTIVE`].
const SAMPLES: usize = 250;

/// A temporary directory, in memory where possible: these tests open hundreds of stores.
fn temporary() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// The positions of a file to try. They are equally far apart, and begin at another place in each run.
fn positions(length: usize) -> impl Iterator<Item = usize> {
    let every = setting(EXHAUSTIVE).unwrap_or(length / SAMPLES).max(1);
    let offset = setting(OFFSET).unwrap_or_else(drawn);
    eprintln!("every {every} of {length} positions, with {OFFSET}={offset}");
    (offset % every..length).step_by(every)
}

fn setting(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} must be a number, not `{text}`")))
}

fn drawn() -> usize {
    usize::try_from(RandomState::new().hash_one(0) % 1_000_000).unwrap()
}

/// A directory as a killed process leaves it, and the incarnations that it acknowledged.
struct Left {
    dir: TempDir,
    sealed: Vec<Incarnation>,
}

impl Left {
    fn file(&self, name: &str) -> Vec<u8> {
        fs::read(self.dir.path().join(name)).unwrap()
    }

    /// Copies the directory with one file replaced by `bytes`, or removed.
    fn with(&self, name: &str, bytes: Option<&[u8]>) -> TempDir {
        let dir = temporary();
        for file in [DATABASE, LOG, ACKED] {
            let from = self.dir.path().join(file);
            if file != name && from.exists() {
                fs::copy(from, dir.path().join(file)).unwrap();
            }
        }
        if let Some(bytes) = bytes {
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        dir
    }

    /// Opens `dir`. If that succeeds, every acknowledged incarnation must be in it.
    fn open(&self, dir: &Path) -> Result<(), Error> {
        let store = SqliteStore::open(dir)?;
        let incarnations = Incarnations::new(Arc::new(store), "shakespeare".parse().unwrap());
        for sealed in &self.sealed {
            let read = block_on(incarnations.load(sealed.no())).unwrap();
            assert_eq!(read.header(), sealed.header());
            let same = read.snapshot().iter().eq(sealed.snapshot().iter());
            assert!(same, "incarnation {} has other assets", sealed.no());
        }
        Ok(())
    }
}

fn next(before: Option<&Incarnation>) -> Incarnation {
    let parent = before.map(Incarnation::no);
    let no = parent.unwrap_or_default().next();
    let asset = |at: u32| {
        let builder = Asset::builder(AssetId::new(&format!("job/{at}")).unwrap());
        let payload = serde_json::json!({"n": no.0, "pad": "x".repeat(100)});
        let name = TypeName::new("test.v1.Job").unwrap();
        builder
            .payload_value(name, &payload)
            .unwrap()
            .build()
            .unwrap()
    };
    let put = if before.is_none() {
        0..8
    } else {
        no.0..no.0 + 1
    };
    let base = before.map(|before| before.snapshot().clone());
    let snapshot =
        base.unwrap_or_else(Snapshot::empty)
            .edit(no, put.map(asset).collect::<Vec<_>>(), &[]);
    let id = IncarnationId::new("shakespeare".parse().unwrap(), no);
    let header = Header::new(id, parent, &snapshot, Timestamp::UNIX_EPOCH);
    Incarnation::new(header, snapshot)
}

/// Seals incarnations in a store that is then closed, and more in one that is copied while open, so that they are in
/// its log only.
fn killed() -> Left {
    killed_after([3, 4])
}

/// The same, with the numbers of incarnations that the two processes seal.
fn killed_after(counts: [usize; 2]) -> Left {
    let (at, dir) = (temporary(), temporary());
    let mut sealed: Vec<Incarnation> = Vec::new();
    for count in counts {
        let store = Arc::new(SqliteStore::open(at.path()).unwrap());
        let incarnations = Incarnations::new(store.clone(), "shakespeare".parse().unwrap());
        let mut head: Option<Head> = block_on(incarnations.head()).unwrap();
        for _ in 0..count {
            let one = next(sealed.last());
            let seal = incarnations.seal(&one, head.as_ref(), Batch::new());
            head = Some(block_on(seal).unwrap());
            sealed.push(one);
        }
        let decided = Batch::new().put("decisions/shakespeare/job/0", "[]".repeat(200));
        block_on(store.commit(decided)).unwrap();
        for file in [DATABASE, LOG, ACKED] {
            let _ = fs::copy(at.path().join(file), dir.path().join(file));
        }
    }
    Left { dir, sealed }
}

/// The same with a log that is much longer than a lap of the records, so that most of it cannot be completed.
fn killed_late() -> Left {
    killed_after([3, 40])
}

/// The same after an orderly close: everything is in the database, and the log is empty.
fn closed() -> Left {
    let left = killed();
    left.open(left.dir.path()).unwrap();
    assert!(left.file(LOG).is_empty());
    left
}

/// Flips bytes of a file, one at a time. Returns the number of refused openings and the number of flips.
fn flips(left: &Left, name: &str) -> (usize, usize) {
    let mut bytes = left.file(name);
    let (mut refused, mut all) = (0, 0);
    for at in positions(bytes.len()) {
        bytes[at] ^= 0x55;
        refused += usize::from(refused_clearly(
            left,
            name,
            Some(&bytes),
            &format!("byte {at}"),
        ));
        all += 1;
        bytes[at] ^= 0x55;
    }
    (refused, all)
}

fn refused_clearly(left: &Left, name: &str, bytes: Option<&[u8]>, what: &str) -> bool {
    let dir = left.with(name, bytes);
    match left.open(dir.path()) {
        Ok(()) => false,
        Err(
            Error::Lost { .. }
            | Error::Damaged { .. }
            | Error::Missing { .. }
            | Error::Format { .. }
            | Error::Database { .. }
            | Error::Refused { .. },
        ) => true,
        Err(error) => panic!("{name}, {what}: {error:?}"),
    }
}

#[test]
fn r5_every_flipped_byte_of_the_log_is_detected_or_harmless() {
    for (left, late) in [(killed(), false), (killed_late(), true)] {
        let (refused, all) = flips(&left, LOG);
        eprintln!("log: {refused} of {all} flips refused, the others lost no data");
        assert_eq!(refused * 2 > all, late, "{refused} of {all}");
    }
}

#[test]
fn r5_every_flipped_byte_of_the_database_is_detected_or_harmless() {
    let left = closed();
    let (refused, all) = flips(&left, DATABASE);
    eprintln!("database: {refused} of {all} flips refused, the others lost no data");
    assert!(refused > 0, "{refused} of {all}");
}

#[test]
fn r5_every_flipped_byte_of_a_killed_database_is_detected_or_harmless() {
    // Many pages of the database are not in the log, so the log does not repair them.
    let left = killed_after([12, 1]);
    assert!(!left.file(LOG).is_empty());
    let (refused, all) = flips(&left, DATABASE);
    eprintln!("database with a log: {refused} of {all} flips refused, the others lost no data");
    assert!(refused > 0, "{refused} of {all}");
}

#[test]
fn r5_every_flipped_byte_of_the_record_loses_nothing() {
    let left = killed();
    // Only the beginning of each place is used; the rest is space for larger commits.
    let bytes = left.file(ACKED);
    let places = (0..bytes.len()).step_by(bytes.len() / PLACES);
    let others = places.flat_map(|place| (0..2000).step_by(400).map(move |at| place + at));
    for at in positions(2000)
        .map(|at| bytes.len() / PLACES + at)
        .chain(others)
    {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        let dir = left.with(ACKED, Some(&bytes));
        left.open(dir.path()).unwrap();
    }
}

#[test]
fn r5_a_log_cut_at_any_length_is_detected_or_completed() {
    for (left, late) in [(killed(), false), (killed_late(), true)] {
        let bytes = left.file(LOG);
        let (mut refused, mut all) = (0, 0);
        for length in positions(bytes.len()).chain([bytes.len() - 1]) {
            let what = format!("cut at {length}");
            let cut = refused_clearly(&left, LOG, Some(&bytes[..length]), &what);
            refused += usize::from(cut);
            all += 1;
        }
        eprintln!("log: {refused} of {all} cuts refused, the others lost no data");
        assert_eq!(refused * 2 > all, late, "{refused} of {all}");
    }
}

#[test]
fn r5_the_last_commit_is_completed_from_its_record() {
    let left = killed();
    let bytes = left.file(LOG);
    let dir = left.with(LOG, Some(&bytes[..bytes.len() - 1]));
    left.open(dir.path()).unwrap();
}

#[test]
fn r5_missing_or_older_files_are_refused_by_name() {
    let left = killed_late();
    let refused = |name: &str, bytes: Option<&[u8]>| {
        let dir = left.with(name, bytes);
        let before = contents(dir.path());
        let error = left.open(dir.path()).unwrap_err();
        let same = contents(dir.path()) == before;
        assert!(same, "a refused directory must not be changed: {error}");
        assert!(
            error.to_string().contains("restore the whole directory"),
            "{error}"
        );
        error
    };
    assert!(matches!(refused(LOG, None), Error::Lost { found, acked, .. } if found < acked));
    assert!(matches!(refused(DATABASE, None), Error::Missing { .. }));
    assert!(matches!(
        refused(DATABASE, Some(b"")),
        Error::Missing { .. }
    ));
    // A copy of the database from before the last process, with the record of today.
    let old = left.with(LOG, None);
    let other = killed();
    let error = other.open(old.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(DATABASE) && text.contains(ACKED), "{text}");
}

/// The non-empty files. SQLite's index of the log is created again at every opening, so it is not compared.
fn contents(dir: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let read = |file| (file, fs::read(dir.join(file)).unwrap_or_default());
    let files = [DATABASE, LOG, ACKED].map(read);
    files
        .into_iter()
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect()
}

#[test]
fn r5_a_store_without_its_record_continues_with_its_commits() {
    let left = killed();
    let dir = left.with(ACKED, None);
    left.open(dir.path()).unwrap();
    assert!(dir.path().join(ACKED).exists());
}

#[test]
fn r5_an_unreadable_history_record_is_set_aside_and_the_store_opens() {
    let left = killed();
    let dir = left.with(ACKED, None);
    // An orderly close, so that everything is in the database.
    fs::copy(left.dir.path().join(ACKED), dir.path().join(ACKED)).unwrap();
    left.open(dir.path()).unwrap();
    let path = dir.path().join(DATABASE);
    let mut bytes = fs::read(&path).unwrap();
    let history = b"[][][][][]".to_vec();
    let at = bytes
        .windows(history.len())
        .position(|part| part == history)
        .unwrap();
    bytes[at + 3] ^= 0x55;
    fs::write(&path, bytes).unwrap();
    for _ in 0..2 {
        left.open(dir.path()).unwrap();
    }
    let store = SqliteStore::open(dir.path()).unwrap();
    let read = block_on(store.get(&["decisions/shakespeare/job/0".into()])).unwrap();
    assert_eq!(read, [None]);
    let bytes = fs::read(&path).unwrap();
    let kept = bytes.windows(history.len()).filter(|part| *part == history);
    assert!(kept.count() > 0, "the record must be kept for inspection");
}
