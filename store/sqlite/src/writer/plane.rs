//! A store for tests, with what is known of each commit, and what a power cut leaves of its files.

use std::{collections::BTreeMap, fs, path::PathBuf};

use control_plane_store::Key;
use tempfile::TempDir;

use super::{tests::writer, *};
use crate::{
    Error,
    acked::{PLACE, PLACES},
    directory::Directory,
    opening,
};

pub(super) const DATABASE: &str = "plane.sqlite3";
const LOG: &str = "plane.sqlite3-wal";
pub(super) const ACKED: &str = "plane.acked";

/// A temporary directory, in memory where possible: these tests open thousands of stores.
fn temporary() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// The files of a store at one moment, as other processes see them.
#[derive(Clone)]
pub(super) struct Image {
    pub(super) database: Vec<u8>,
    pub(super) log: Vec<u8>,
    pub(super) acked: Vec<u8>,
    /// The log when it was last forced to the medium.
    pub(super) old: Vec<u8>,
    /// Lengths of the parts of the log that a power cut does not change, and that SQLite reads.
    pub(super) forced: usize,
    pub(super) end: usize,
    /// The acknowledged values, and the newest commit.
    pub(super) values: BTreeMap<Key, Vec<u8>>,
    pub(super) version: Version,
}

/// How a power cut leaves the part of the log that was not forced to the medium.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Missing,
    Zero,
    Flipped,
    /// As it was when the log was last forced.
    Old,
    /// Every second sector as it was when the log was last forced.
    Mixed,
}

pub(super) const KINDS: [Kind; 5] = [
    Kind::Missing,
    Kind::Zero,
    Kind::Flipped,
    Kind::Old,
    Kind::Mixed,
];

impl Image {
    /// The image after a power cut that keeps `kept` bytes of the log, at least what was forced.
    pub(super) fn cut(&self, kept: usize, kind: Kind) -> Self {
        let mut log = self.log.clone();
        let kept = kept.max(self.forced).min(log.len());
        let old = self.old.get(kept..).unwrap_or_default().to_vec();
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

    pub(super) fn flip_record(&mut self, turn: u64) {
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
    pub(super) fn open(&self) -> Result<(TempDir, Writer), Error> {
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

pub(super) fn place(turn: u64) -> usize {
    usize::try_from(turn % PLACES * PLACE).unwrap()
}

/// A store with one group per commit, and what is known about it.
pub(super) struct Plane {
    pub(super) dir: TempDir,
    pub(super) writer: Option<Writer>,
    pub(super) image: Image,
}

impl Plane {
    pub(super) fn new() -> Self {
        let dir = temporary();
        let writer = Some(writer(dir.path()));
        let image = Image {
            database: Vec::new(),
            log: Vec::new(),
            acked: Vec::new(),
            old: Vec::new(),
            forced: 0,
            end: 0,
            values: BTreeMap::new(),
            version: Version(0),
        };
        let mut plane = Self { dir, writer, image };
        plane.look(true);
        plane
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Reads the files again. `forced` says whether the whole log was forced to the medium.
    pub(super) fn look(&mut self, forced: bool) {
        let read = |file| fs::read(self.path(file)).unwrap_or_default();
        let (database, log, acked) = (read(DATABASE), read(LOG), read(ACKED));
        if log.get(..32) != self.image.log.get(..32) {
            // SQLite forces the new header when it begins to overwrite a log that was copied. Nothing else is forced then.
            (self.image.forced, self.image.end) = (log.len().min(32), 0);
        }
        self.image.end = self.image.end.max(written(&self.image.log, &log));
        if forced {
            self.image.old.clone_from(&log);
            self.image.forced = self.image.end;
        }
        self.image = Image {
            database,
            log,
            acked,
            ..self.image.clone()
        };
    }

    pub(super) fn commit(&mut self, key: &str, value: &[u8]) {
        let writer = self.writer.as_mut().unwrap();
        let batch = Batch::new().put(key, value.to_vec());
        self.image.version = super::tests::commit(writer, &[batch]).remove(0).unwrap();
        self.image.values.insert(key.into(), value.to_vec());
        let forced = writer.forcing;
        self.look(forced);
    }

    pub(super) fn checkpoint(&mut self) {
        let sql = "PRAGMA wal_checkpoint(PASSIVE)";
        let connection = &self.writer.as_ref().unwrap().connection;
        connection.query_row(sql, [], |_| Ok(())).unwrap();
        self.look(true);
    }

    /// Continues with the store that `image` leaves.
    pub(super) fn reopen(&mut self, image: &Image) {
        self.writer = None;
        let (dir, writer) = image.open().unwrap();
        (self.dir, self.writer) = (dir, Some(writer));
        self.image = Image {
            log: Vec::new(),
            forced: 0,
            end: 0,
            ..image.clone()
        };
        self.look(true);
    }

    pub(super) fn turn(&self) -> u64 {
        match acked::read(&self.path(ACKED)).unwrap() {
            acked::Found::Records(records) => records.turn,
            found => panic!("{found:?}"),
        }
    }
}

/// The end of the last frame in which two logs differ.
fn written(before: &[u8], after: &[u8]) -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 4096 + 24;
    let frames = after.get(HEADER..).unwrap_or_default().chunks(FRAME);
    let mut old = before.get(HEADER..).unwrap_or_default().chunks(FRAME);
    let differs = frames.map(|frame| old.next() != Some(frame));
    let last = differs.enumerate().filter(|(_, differs)| *differs).last();
    last.map_or(0, |(n, _)| (HEADER + (n + 1) * FRAME).min(after.len()))
}
