//! The records of the newest commits, kept outside SQLite's log.
//!
//! A group of commits is acknowledged once its record is on the medium. That is its only forced write: SQLite's log is
//! forced once per lap of the records, not for each group. A record contains the writes of its group. At opening, the
//! groups that the database lacks are completed from their records.
//!
//! SQLite ends its log at the first frame whose checksum does not match, without an error: all commits behind it are
//! lost. The newest record tells which commit the database must reach. A database that cannot be completed up to there
//! has lost acknowledged commits. One loss is not seen: if a power cut takes the newest groups from the log, and the newest
//! record is damaged besides, that record looks like one that was being written, and its group is missing.

use std::{
    fs::{File, OpenOptions},
    io, iter,
    os::unix::fs::FileExt,
    path::Path,
};

use control_plane_store::Version;

/// Maximum size of the writes in a record, in bytes. A larger group is recorded without its writes, after it was forced
/// to the medium in the log.
pub(crate) const REDO: usize = 256 << 10;

/// Number of places in the file, used in turn. The size of a place is a multiple of the page size, so that two places
/// share no page.
pub(crate) const PLACES: u64 = 16;
pub(crate) const PLACE: u64 = (REDO as u64) + 4096;

const MAGIC: [u8; 8] = *b"ACKED  1";
const SUM: usize = 32;
const HEADER: usize = SUM + MAGIC.len() + 6 * 8;

/// The newest commit of a database, and the sum of the checksums of all its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) version: Version,
    pub(crate) content: i64,
}

/// The record of one group of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) before: State,
    pub(crate) after: State,
    /// The writes that lead from `before` to `after`, or `None` if they are larger than [`REDO`].
    pub(crate) redo: Option<Vec<u8>>,
}

/// Result of reading the record file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The file is missing or empty: no commit was recorded yet.
    Nothing,
    Records(Records),
    /// More than one record is unreadable, and the newest ones may be among them.
    Damaged,
}

/// The intact records.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) newest: Record,
    /// Number of the newest record. Each record has the number after that of the previous one.
    pub(crate) turn: u64,
    /// The other records, newest first.
    older: Vec<Record>,
}

impl Records {
    /// The records of the groups between `state` and the newest recorded state, oldest first. `None` if one of them is
    /// missing or has no writes.
    pub(crate) fn since(&self, state: State) -> Option<Vec<(&Record, &[u8])>> {
        let mut steps = Vec::new();
        let mut reached = self.newest.after;
        for record in iter::once(&self.newest).chain(&self.older) {
            if reached == state {
                break;
            }
            let redo = record.redo.as_deref()?;
            if record.after != reached {
                return None;
            }
            steps.push((record, redo));
            reached = record.before;
        }
        steps.reverse();
        (reached == state).then_some(steps)
    }
}

/// Reads the record file at `path`.
pub(crate) fn read(path: &Path) -> io::Result<Found> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let unused = |place: &[u8]| place.iter().all(|byte| *byte == 0);
    let places: Vec<_> = bytes.chunks(PLACE as usize).collect();
    let mut records: Vec<_> = places.iter().copied().filter_map(decode).collect();
    records.sort_by_key(|(_, turn)| *turn);
    let Some((newest, turn)) = records.pop() else {
        let empty = places.iter().all(|place| unused(place));
        return Ok(if empty {
            Found::Nothing
        } else {
            Found::Damaged
        });
    };
    // A power cut tears at most the one record that was being written, which was not acknowledged.
    let unreadable = |turn: u64| {
        let place = places.get((turn % PLACES) as usize);
        place.is_some_and(|place| decode(place).is_none() && !unused(place))
    };
    if unreadable(turn + 1) && unreadable(turn + 2) {
        return Ok(Found::Damaged);
    }
    let older = records.into_iter().rev().map(|(record, _)| record);
    Ok(Found::Records(Records {
        newest,
        turn,
        older: older.collect(),
    }))
}

/// The record file, open for writing.
#[derive(Debug)]
pub(crate) struct Acked {
    file: File,
    turn: u64,
    /// Number of records since the newest one whose group was forced to the medium in the log. Their groups may be
    /// nowhere else on the medium.
    unforced: u64,
    buffer: Vec<u8>,
}

impl Acked {
    /// Opens the file at `path`, whose newest record has the number `turn`. Allocates the space of all places, so that
    /// later writes change neither the length nor the location of the file. The file is full: the log may contain
    /// commits that are not on the medium.
    pub(crate) fn open(path: &Path, turn: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(path)?;
        let length = file.metadata()?.len();
        if length < PLACES * PLACE {
            let room = vec![0; (PLACES * PLACE - length) as usize];
            file.write_all_at(&room, length)?;
        }
        // Also the newest record, whose process may have died before it was forced: with each later sync, only one is.
        file.sync_all()?;
        Ok(Self {
            file,
            turn,
            unforced: PLACES,
            buffer: Vec::new(),
        })
    }

    /// Returns whether the next record would overwrite one that may still be needed. Then the next group must be forced
    /// to the medium in the log, together with all earlier ones, before it is recorded.
    pub(crate) fn is_full(&self) -> bool {
        self.unforced >= PLACES
    }

    /// Overwrites the oldest record with `record`. It is on the medium when this returns. `forced` says whether the
    /// group is already on the medium in the log, and so all earlier ones.
    pub(crate) fn write(&mut self, record: &Record, forced: bool) -> io::Result<()> {
        self.turn += 1;
        self.unforced = if forced { 0 } else { self.unforced + 1 };
        self.put(record)
    }

    /// Overwrites the newest record, whose group was refused, with one that stays at `state`.
    pub(crate) fn retract(&mut self, state: State) -> io::Result<()> {
        self.put(&Record {
            before: state,
            after: state,
            redo: Some(Vec::new()),
        })
    }

    fn put(&mut self, record: &Record) -> io::Result<()> {
        encode(record, self.turn, &mut self.buffer);
        let place = self.turn % PLACES * PLACE;
        self.file.write_all_at(&self.buffer, place)?;
        self.file.sync_data()
    }
}

fn encode(record: &Record, turn: u64, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; SUM]);
    out.extend_from_slice(&MAGIC);
    let length = record
        .redo
        .as_ref()
        .map_or(u64::MAX, |redo| redo.len() as u64);
    let states = [record.before, record.after];
    let states = states.map(|state| [state.version.0, state.content.cast_unsigned()]);
    for number in [turn, length]
        .into_iter()
        .chain(states.into_iter().flatten())
    {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(record.redo.as_deref().unwrap_or_default());
    let sum = blake3::hash(&out[SUM..]);
    out[..SUM].copy_from_slice(sum.as_bytes());
}

fn decode(place: &[u8]) -> Option<(Record, u64)> {
    let header = place.get(..HEADER)?;
    let mut numbers = header[SUM + MAGIC.len()..].chunks_exact(8).map(|number| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(number);
        u64::from_le_bytes(bytes)
    });
    let (turn, length) = (numbers.next()?, numbers.next()?);
    let mut state = || {
        Some(State {
            version: Version(numbers.next()?),
            content: numbers.next()?.cast_signed(),
        })
    };
    let (before, after) = (state()?, state()?);
    let carries = length != u64::MAX;
    let end = HEADER + usize::try_from(if carries { length } else { 0 }).ok()?;
    let redo = place.get(HEADER..end)?;
    if header[SUM..SUM + MAGIC.len()] != MAGIC
        || blake3::hash(&place[SUM..end]).as_bytes() != &header[..SUM]
    {
        return None;
    }
    let redo = carries.then(|| redo.to_vec());
    let record = Record {
        before,
        after,
        redo,
    };
    Some((record, turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(version: u64) -> State {
        State {
            version: Version(version),
            content: -7 * version.cast_signed(),
        }
    }

    fn record(version: u64, redo: Option<&[u8]>) -> Record {
        Record {
            before: state(version - 1),
            after: state(version),
            redo: redo.map(<[u8]>::to_vec),
        }
    }

    fn records(path: &Path) -> Records {
        match read(path).unwrap() {
            Found::Records(records) => records,
            found => panic!("{found:?}"),
        }
    }

    fn flip(path: &Path, at: u64) {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let (file, mut byte) = (file.unwrap(), [0]);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    }

    #[test]
    fn the_newest_record_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        assert_eq!(read(&path).unwrap(), Found::Nothing);
        let mut acked = Acked::open(&path, 0).unwrap();
        assert_eq!(read(&path).unwrap(), Found::Nothing);
        for (turn, redo) in [(1, None), (2, Some(&b"abc"[..])), (3, Some(&b""[..]))] {
            let record = record(turn, redo);
            acked.write(&record, false).unwrap();
            let found = records(&path);
            assert_eq!((found.newest, found.turn), (record, turn));
        }
        drop(acked);
        let mut acked = Acked::open(&path, 3).unwrap();
        for turn in 4..3 * PLACES {
            acked.write(&record(turn, None), false).unwrap();
            let found = records(&path);
            assert_eq!((found.newest, found.turn), (record(turn, None), turn));
            let held = (found.older.len() + 1) as u64;
            assert_eq!(held, turn.min(PLACES));
        }
    }

    #[test]
    fn a_torn_record_leaves_the_previous_one_readable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let mut acked = Acked::open(&path, 0).unwrap();
        acked.write(&record(1, Some(b"one")), false).unwrap();
        acked.write(&record(2, Some(b"two")), false).unwrap();
        for at in 0..HEADER as u64 + 3 {
            flip(&path, 2 * PLACE + at);
            assert_eq!(records(&path).turn, 1, "byte {at}");
            flip(&path, PLACE + at);
            assert_eq!(read(&path).unwrap(), Found::Damaged, "byte {at}");
            flip(&path, 2 * PLACE + at);
            flip(&path, PLACE + at);
        }
    }

    #[test]
    fn a_file_of_two_records_is_extended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let mut bytes = Vec::new();
        for turn in [8, 7] {
            let mut place = Vec::new();
            encode(&record(turn, Some(b"redo")), turn, &mut place);
            place.resize(PLACE as usize, 0);
            bytes.extend(place);
        }
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(records(&path).turn, 8);
        let mut acked = Acked::open(&path, 8).unwrap();
        acked.write(&record(9, Some(b"redo")), true).unwrap();
        let found = records(&path);
        assert_eq!((found.turn, found.since(state(6)).unwrap().len()), (9, 3));
    }

    #[test]
    fn two_unreadable_records_are_damage_unless_newer_ones_are_intact() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let mut acked = Acked::open(&path, 0).unwrap();
        let turns = PLACES + 3;
        for turn in 1..=turns {
            acked.write(&record(turn, Some(b"redo")), false).unwrap();
        }
        for turn in turns - PLACES + 1..turns {
            let flip = || [turn, turn + 1].map(|turn| flip(&path, turn % PLACES * PLACE + 99));
            flip();
            match read(&path).unwrap() {
                // The two oldest may as well be two newer ones.
                Found::Damaged => assert!([turns - 1, turns - PLACES + 1].contains(&turn)),
                found => assert!(matches!(found, Found::Records(it) if it.turn == turns)),
            }
            flip();
        }
    }

    #[test]
    fn records_lead_to_the_newest_state_without_a_gap() {
        let steps = |versions: &[u64], from: u64| {
            let mut all: Vec<_> = versions.iter().map(|at| record(*at, Some(b""))).collect();
            let newest = all.pop().unwrap();
            all.reverse();
            let records = Records {
                newest,
                turn: 9,
                older: all,
            };
            let steps = records.since(state(from))?;
            Some(
                steps
                    .iter()
                    .map(|(record, _)| record.after.version.0)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(steps(&[3, 4, 5], 2), Some(vec![3, 4, 5]));
        assert_eq!(steps(&[3, 4, 5], 4), Some(vec![5]));
        assert_eq!(steps(&[3, 4, 5], 5), Some(vec![]));
        assert_eq!(steps(&[3, 4, 5], 1), None, "the record of 2 is missing");
        assert_eq!(steps(&[3, 5], 2), None, "the record of 4 is missing");
        assert_eq!(steps(&[3, 5], 4), Some(vec![5]));
        let newest = record(5, None);
        let records = Records {
            newest,
            turn: 9,
            older: Vec::new(),
        };
        assert_eq!(records.since(state(4)), None, "a record without writes");
        assert_eq!(records.since(state(5)), Some(Vec::new()));
    }

    #[test]
    fn a_lap_of_records_with_writes_fills_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut acked = Acked::open(&dir.path().join("acked"), 0).unwrap();
        assert!(
            acked.is_full(),
            "what the log holds at opening is not known"
        );
        for lap in 0..3 {
            let first = 1 + lap * (PLACES + 1);
            acked.write(&record(first, Some(b"")), true).unwrap();
            for turn in 1..=PLACES {
                assert!(!acked.is_full());
                acked
                    .write(&record(first + turn, Some(b"")), false)
                    .unwrap();
                acked.retract(state(first + turn - 1)).unwrap();
            }
            assert!(acked.is_full());
        }
    }
}
