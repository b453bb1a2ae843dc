//! The record of the newest acknowledged commit, kept outside SQLite's log.
//!
//! SQLite ends its log at the first frame whose checksum does not match, without an error: all commits behind it are
//! lost. So each group of commits is also recorded in a small file of its own before it is acknowledged. The record
//! contains the writes of the group. Therefore the order of the two syncs does not matter, and they run at the same
//! time. At opening, a recorded group that is not in the database is completed from these writes. A database that lacks
//! more than that has lost acknowledged commits.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    sync::mpsc,
    thread,
};

use control_plane_store::Version;

/// Maximum size of the writes in a record, in bytes. A larger group is recorded without its writes, after it is
/// durable.
pub(crate) const REDO: usize = 256 << 10;

/// Number of places in the file, used in turn: if a record is torn, the previous one is intact. The size of a place is
/// a multiple of the page size, so that two places share no page.
const PLACES: u64 = 2;
const PLACE: u64 = (REDO as u64) + 4096;

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
    /// The writes that lead from `before` to `after`. `None` means that `after` was durable when the record was
    /// written.
    pub(crate) redo: Option<Vec<u8>>,
}

impl Record {
    /// Creates the record of a state that is durable.
    pub(crate) fn durable(state: State) -> Self {
        Self {
            before: state,
            after: state,
            redo: None,
        }
    }
}

/// Result of reading the record file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The file is missing or empty: no commit was recorded yet.
    Nothing,
    /// The newest intact record.
    Record { record: Record, turn: u64 },
    /// The file is not empty, and neither place holds an intact record.
    Damaged,
}

/// Reads the record file at `path`.
pub(crate) fn read(path: &Path) -> io::Result<Found> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    let newest = bytes
        .chunks(PLACE as usize)
        .filter_map(decode)
        .max_by_key(|(_, turn)| *turn);
    Ok(match newest {
        Some((record, turn)) => Found::Record { record, turn },
        None if bytes.iter().all(|byte| *byte == 0) => Found::Nothing,
        None => Found::Damaged,
    })
}

/// The record file, open for writing.
#[derive(Debug)]
pub(crate) struct Acked {
    file: File,
    turn: u64,
    buffer: Vec<u8>,
}

impl Acked {
    /// Opens the file at `path`, whose newest record has the number `turn`. Allocates the space of both places, so that
    /// later writes change neither the length nor the location of the file.
    pub(crate) fn open(path: &Path, turn: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(path)?;
        let length = file.metadata()?.len();
        if length < PLACES * PLACE {
            let room = vec![0; (PLACES * PLACE - length) as usize];
            file.write_all_at(&room, length)?;
            file.sync_all()?;
        }
        Ok(Self {
            file,
            turn,
            buffer: Vec::new(),
        })
    }

    /// Overwrites the older record with `record`. It is durable when this returns.
    pub(crate) fn write(&mut self, record: &Record) -> io::Result<()> {
        self.turn += 1;
        encode(record, self.turn, &mut self.buffer);
        let place = self.turn % PLACES * PLACE;
        self.file.write_all_at(&self.buffer, place)?;
        self.file.sync_data()
    }
}

/// A thread that writes records, so that their sync runs at the same time as that of SQLite's log.
#[derive(Debug)]
pub(crate) struct Recorder {
    records: mpsc::Sender<Record>,
    written: mpsc::Receiver<io::Result<()>>,
}

impl Recorder {
    /// Starts the thread. It ends when the recorder is dropped.
    pub(crate) fn start(mut acked: Acked) -> io::Result<Self> {
        let (records, taken) = mpsc::channel::<Record>();
        let (answers, written) = mpsc::channel();
        let record = move || {
            for record in taken {
                if answers.send(acked.write(&record)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("store-acked".into())
            .spawn(record)?;
        Ok(Self { records, written })
    }

    /// Starts writing `record`. Each call must be followed by one of [`end`](Self::end).
    pub(crate) fn begin(&self, record: Record) {
        // If the thread has ended, `end` reports it.
        let _ = self.records.send(record);
    }

    /// Waits until the record started last is durable.
    pub(crate) fn end(&self) -> io::Result<()> {
        let ended = |_| io::Error::other("the thread that records commits has ended");
        self.written.recv().map_err(ended)?
    }

    /// Writes `record` and waits until it is durable.
    pub(crate) fn write(&self, record: Record) -> io::Result<()> {
        self.begin(record);
        self.end()
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

    #[test]
    fn the_newest_record_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        assert_eq!(read(&path).unwrap(), Found::Nothing);
        let mut acked = Acked::open(&path, 0).unwrap();
        assert_eq!(read(&path).unwrap(), Found::Nothing);
        for (turn, redo) in [(1, None), (2, Some(&b"abc"[..])), (3, Some(&b""[..]))] {
            let record = record(turn, redo);
            acked.write(&record).unwrap();
            assert_eq!(read(&path).unwrap(), Found::Record { record, turn });
        }
        drop(acked);
        Acked::open(&path, 3)
            .unwrap()
            .write(&record(4, None))
            .unwrap();
        assert!(matches!(
            read(&path).unwrap(),
            Found::Record { turn: 4, .. }
        ));
    }

    #[test]
    fn a_torn_record_leaves_the_previous_one_readable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("acked");
        let mut acked = Acked::open(&path, 0).unwrap();
        acked.write(&record(1, Some(b"one"))).unwrap();
        acked.write(&record(2, Some(b"two"))).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for at in 0..HEADER + 3 {
            let mut torn = whole.clone();
            torn[at] ^= 0x10;
            std::fs::write(&path, &torn).unwrap();
            let found = read(&path).unwrap();
            assert!(matches!(found, Found::Record { turn: 1, .. }), "byte {at}");
            torn[PLACE as usize + at] ^= 0x10;
            std::fs::write(&path, &torn).unwrap();
            assert_eq!(read(&path).unwrap(), Found::Damaged, "byte {at}");
        }
    }
}
