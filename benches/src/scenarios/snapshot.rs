//! `snapshot`: the operations on incarnations of a large partition: build, edit, diff, get.
//!
//! Edits, additions and removals are a third of the changes each. Our side computes digests; the naive map has none.
//! `bytes_each` is the number of written bytes beside the assets themselves, per entry (`build`) or per change.

use prodspec_model::{Asset, AssetId, IncarnationNo, Snapshot};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    assets::{self, id, job, jobs},
    measure::{Meter, Sample},
    peers::naive,
};

/// The scenario `snapshot` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "snapshot",
    about: "a new incarnation with 1 and with 1,000 changes; diff of both; get",
    target: "1 change 11 us and 5 kB; diff of one 2.5x a get; 24 B per entry; get 1 us",
    sizes: Sizes {
        named: 1_000_000,
        all: 200_000,
        smoke: 1_000,
    },
    sides: &[(OURS, run::<Snapshot>), ("naive", run::<naive::Map>)],
};

/// Number of measured gets.
const GETS: usize = 100_000;

/// The operations that both sides have.
trait Assets: Default {
    /// Number of measured edits of one change, and of a thousand changes.
    const EDITS: [usize; 2];
    fn edit(&self, edit: Edit) -> Self;
    fn diff(&self, newer: &Self) -> usize;
    fn get(&self, id: &str) -> Option<Asset>;
    /// Bytes that the newest edit wrote; `None` if this side writes none.
    fn written(&self) -> Option<u64>;
}

impl Assets for Snapshot {
    const EDITS: [usize; 2] = [1_000, 20];

    fn edit(&self, edit: Edit) -> Self {
        Snapshot::edit(self, edit.no, edit.put, &edit.removed)
    }

    fn diff(&self, newer: &Self) -> usize {
        Snapshot::diff(self, newer).len()
    }

    fn get(&self, id: &str) -> Option<Asset> {
        Snapshot::get(self, id)
    }

    fn written(&self) -> Option<u64> {
        Some(self.new_pack()?.bytes().len() as u64)
    }
}

impl Assets for naive::Map {
    const EDITS: [usize; 2] = [3, 3];

    fn edit(&self, edit: Edit) -> Self {
        naive::Map::edit(self, edit.put, &edit.removed)
    }

    fn diff(&self, newer: &Self) -> usize {
        naive::Map::diff(self, newer)
    }

    fn get(&self, id: &str) -> Option<Asset> {
        naive::Map::get(self, id)
    }

    fn written(&self) -> Option<u64> {
        None
    }
}

/// The changes of one incarnation.
struct Edit {
    no: IncarnationNo,
    put: Vec<Asset>,
    removed: Vec<AssetId>,
}

/// Makes edits; no two of them change the same asset.
struct Edits {
    n: usize,
    /// Number of changes so far.
    turn: usize,
    no: IncarnationNo,
}

impl Edits {
    fn next(&mut self, changes: usize) -> Result<Edit, Error> {
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        for turn in self.turn..self.turn + changes {
            let no = assets::shuffled(turn, self.n);
            match turn % 3 {
                0 => put.push(job(no, 2)?),
                1 => put.push(assets::added(no)?),
                _ => removed.push(AssetId::new(&id(no))?),
            }
        }
        self.turn += changes;
        self.no = self.no.next();
        Ok(Edit {
            no: self.no,
            put,
            removed,
        })
    }
}

impl Edit {
    /// The first incarnation: all `n` jobs in one edit.
    fn first(n: usize) -> Result<Self, Error> {
        Ok(Self {
            no: IncarnationNo(1),
            put: jobs(n)?,
            removed: Vec::new(),
        })
    }

    fn own_bytes(&self) -> u64 {
        let lengths = self.put.iter().map(|asset| asset.block().bytes().len());
        lengths.sum::<usize>() as u64
    }
}

fn run<M: Assets>(n: usize) -> Result<Vec<Sample>, Error> {
    let all = Edit::first(n)?;
    let mut edits = Edits {
        n,
        turn: 0,
        no: all.no,
    };
    let own = all.own_bytes();
    let meter = Meter::start()?;
    let mut last = M::default().edit(all);
    let built = meter.stop("build", n)?;
    let mut samples = vec![with_bytes(built, last.written(), own)];
    for (phase, changes, times) in [("1", 1, M::EDITS[0]), ("1000", 1_000, M::EDITS[1])] {
        // Small partitions get fewer and smaller edits, because each asset changes at most once.
        let changes = changes.min(n / 100);
        let made: Result<Vec<Edit>, Error> = (0..times.min(n / 10))
            .map(|_| edits.next(changes))
            .collect();
        let (newest, measured) = edit_and_diff(phase, last, made?, changes)?;
        samples.extend(measured);
        last = newest;
    }
    samples.push(gets(&last, n, edits.turn)?);
    Ok(samples)
}

/// Measures one incarnation per edit, then the diff of each incarnation with the one before it.
fn edit_and_diff<M: Assets>(
    phase: &str,
    first: M,
    edits: Vec<Edit>,
    changes: usize,
) -> Result<(M, [Sample; 2]), Error> {
    let all = edits.len() * changes;
    let own: u64 = edits.iter().map(Edit::own_bytes).sum();
    let mut history = vec![first];
    let meter = Meter::start()?;
    for edit in edits {
        history.extend(history.last().map(|last| last.edit(edit)));
    }
    let edited = meter.stop(&format!("edit-{phase}"), all)?;
    let written = history[1..].iter().map(M::written).sum();
    let edited = with_bytes(edited, written, own);
    let meter = Meter::start()?;
    let differences = history.windows(2).map(|pair| pair[0].diff(&pair[1]));
    let found: usize = differences.sum();
    let diffed = meter.stop(&format!("diff-{phase}"), all)?;
    if found != all {
        return Err(format!("found {found} differences after {all} changes").into());
    }
    let newest = history.pop().ok_or("no incarnation is left")?;
    Ok((newest, [edited, diffed]))
}

fn gets<M: Assets>(last: &M, n: usize, changed: usize) -> Result<Sample, Error> {
    // The assets that follow the changed ones in the scattered order were never removed.
    let turns = changed..n.min(changed + GETS);
    let ids: Vec<String> = turns.map(|turn| id(assets::shuffled(turn, n))).collect();
    let meter = Meter::start()?;
    let found = ids.iter().filter(|id| last.get(id).is_some()).count();
    let sample = meter.stop("get", ids.len())?;
    if found == ids.len() {
        return Ok(sample);
    }
    Err(format!("{found} of {} assets were found", ids.len()).into())
}

fn with_bytes(sample: Sample, written: Option<u64>, own: u64) -> Sample {
    match written {
        Some(written) => sample.bytes(written.saturating_sub(own)),
        None => sample,
    }
}
