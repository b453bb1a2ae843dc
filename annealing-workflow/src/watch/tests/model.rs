//! Watches in a world in which people and executions edit a source, incarnations are sealed, and owners die; judged by
//! the edits.

use std::collections::{BTreeMap, BTreeSet};

use prodspec_model::{
    AssetId, IncarnationNo,
    operation::{Concurrency, Per},
};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{change, digest, id, own};
use crate::watch::{Changed, IntentWatch, Limits, Progress, WatchedRecord};

const ASSETS: [&str; 3] = ["a", "b", "c"];
const CONTENTS: [&str; 4] = ["", "1", "2", "3"];

#[derive(Debug, Clone)]
enum Op {
    /// A person edits an asset.
    Edit(usize, usize),
    /// An execution of the watch edits an asset, if one is live.
    Own(usize, usize),
    /// An incarnation is sealed, and not told of yet.
    Seal,
    /// The watch takes the newest incarnation.
    Take,
    /// The runs that may start do.
    Start,
    /// A live run ends.
    End(usize),
    /// The owner dies. What was not committed is lost.
    Crash,
    Commit,
}

/// The source: for each asset its content, and its edits so far.
#[derive(Debug, Clone, Default)]
struct Source {
    content: BTreeMap<&'static str, &'static str>,
    edits: BTreeMap<&'static str, Vec<Edit>>,
}

/// An edit: the content before and after, and whether an execution of the watch made it.
#[derive(Debug, Clone, Copy)]
struct Edit {
    before: &'static str,
    after: &'static str,
    own: bool,
}

impl Source {
    fn content(&self, asset: &str) -> &'static str {
        self.content.get(asset).copied().unwrap_or("")
    }

    fn edits(&self, asset: &str) -> &[Edit] {
        self.edits.get(asset).map_or(&[], Vec::as_slice)
    }

    fn edit(&mut self, asset: &'static str, content: &'static str, own: bool) {
        if self.content(asset) == content {
            return;
        }
        let before = self.content.insert(asset, content).unwrap_or("");
        let after = content;
        let edits = self.edits.entry(asset).or_default();
        edits.push(Edit { before, after, own });
    }
}

struct World {
    watch: IntentWatch,
    limits: Limits,
    record: String,
    rows: BTreeMap<AssetId, String>,
    source: Source,
    /// The source of each incarnation, from 1 on.
    sealed: Vec<Source>,
    live: BTreeMap<u64, BTreeSet<AssetId>>,
    /// The incarnation whose content each asset's newest run got.
    handled: BTreeMap<AssetId, IncarnationNo>,
}

impl World {
    fn new(limits: Limits) -> Self {
        let mut source = Source::default();
        source.content.insert("a", "1");
        let mut world = Self {
            watch: IntentWatch::new(limits, IncarnationNo(1)),
            limits,
            record: String::new(),
            rows: BTreeMap::new(),
            sealed: vec![source.clone()],
            source,
            live: BTreeMap::new(),
            handled: BTreeMap::new(),
        };
        world.commit();
        world
    }

    fn at(&self, no: IncarnationNo) -> &Source {
        &self.sealed[no.0 as usize - 1]
    }

    fn commit(&mut self) {
        let Some(Changed {
            progress: record,
            assets,
        }) = self.watch.take_changed()
        else {
            return;
        };
        self.record = serde_json::to_string(record).unwrap();
        for (id, row) in assets {
            match row {
                Some(row) => drop(self.rows.insert(id, serde_json::to_string(row).unwrap())),
                None => drop(self.rows.remove(&id)),
            }
        }
    }

    fn crash(&mut self) {
        let record: Progress = serde_json::from_str(&self.record).unwrap();
        let rows = self.rows.iter().map(|(id, row)| {
            let row: WatchedRecord = serde_json::from_str(row).unwrap();
            (id.clone(), row)
        });
        self.watch = IntentWatch::restore(self.limits, record, rows);
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Edit(asset, content) => self.source.edit(ASSETS[asset], CONTENTS[content], false),
            Op::Own(asset, content) => self.own(ASSETS[asset], CONTENTS[content]),
            Op::Seal => self.sealed.push(self.source.clone()),
            Op::Take => self.take(),
            Op::Start => self.start(),
            Op::End(nth) => {
                let runs = self.live.len().max(1);
                if let Some(run) = self.live.keys().nth(nth % runs).copied() {
                    self.live.remove(&run);
                    self.watch.ended(run);
                    self.commit();
                }
            }
            Op::Crash => self.crash(),
            Op::Commit => self.commit(),
        }
    }

    /// The edit, and the watch's note of it, are one commit.
    fn own(&mut self, asset: &'static str, content: &'static str) {
        if !self.live.is_empty() {
            let before = self.source.content(asset);
            let at = self.sealed.len() as u32;
            self.watch.made(&id(asset), own(before, content, at));
            self.source.edit(asset, content, true);
            self.commit();
        }
    }

    fn take(&mut self) {
        let newest = IncarnationNo(self.sealed.len() as u32);
        let (before, after) = (self.at(self.watch.progress().handled), self.at(newest));
        let changed = ASSETS.iter().filter_map(|asset| {
            let (before, after) = (before.content(asset), after.content(asset));
            (before != after).then(|| change(asset, before, after))
        });
        let changed = changed.collect();
        self.watch.took(newest, changed);
        self.watch.shown(newest);
    }

    fn start(&mut self) {
        for start in self.watch.starts() {
            let mut ids = Vec::new();
            for (asset, before, after) in start.assets {
                let (old, new) = (self.at(before.at), self.at(after.at));
                assert_eq!(before.digest, digest(old.content(asset.as_str())));
                assert_eq!(after.digest, digest(new.content(asset.as_str())));
                assert_ne!(before.digest, after.digest, "nothing has changed");
                let (old, new) = (old.edits(asset.as_str()), new.edits(asset.as_str()));
                let people = new[old.len()..].iter().any(|it| !it.own);
                assert!(people, "only its own edits");
                let earlier = self.handled.insert(asset.clone(), after.at);
                assert!(earlier < Some(after.at), "handled twice");
                ids.push(asset);
            }
            let run = self.watch.started(&ids);
            if self.limits.concurrency != Concurrency::Allow {
                let busy = self.live.values().flatten();
                assert_eq!(
                    busy.filter(|id| ids.contains(id)).count(),
                    0,
                    "beside another"
                );
            }
            assert!(self.live.insert(run, ids.into_iter().collect()).is_none());
            assert!(self.live.len() <= self.limits.at_most);
            self.commit();
        }
    }

    /// Runs everything to its end: then each asset's content is handled, or what its own executions made of it.
    fn rest(mut self) {
        self.step(Op::Seal);
        self.step(Op::Take);
        self.step(Op::Commit);
        for _ in 0..20 {
            self.step(Op::Start);
            self.step(Op::End(0));
        }
        assert!(self.live.is_empty() && self.watch.starts().is_empty());
        for asset in ASSETS {
            let handled = self.handled.get(&id(asset)).copied();
            let handled = self.at(handled.unwrap_or(IncarnationNo(1)));
            let since = &self.source.edits(asset)[handled.edits(asset).len()..];
            // Own edits of handled content are handled too.
            let mut known = vec![handled.content(asset)];
            for edit in since.iter().filter(|edit| edit.own) {
                if known.contains(&edit.before) {
                    known.push(edit.after);
                }
            }
            let now = self.source.content(asset);
            assert!(known.contains(&now), "{asset} is not handled: {since:?}");
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (asset, content) = (0..ASSETS.len(), 0..CONTENTS.len());
    let edit = (asset, content);
    let op = prop_oneof![
        4 => edit.clone().prop_map(|(asset, content)| Op::Edit(asset, content)),
        2 => edit.prop_map(|(asset, content)| Op::Own(asset, content)),
        4 => Just(Op::Seal),
        4 => Just(Op::Take),
        4 => Just(Op::Start),
        3 => (0..4usize).prop_map(Op::End),
        2 => Just(Op::Crash),
        2 => Just(Op::Commit),
    ];
    vec(op, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn r38_no_change_is_lost_or_handled_twice_over_crashes(
        per in select(vec![Per::Asset, Per::Watch]),
        concurrency in select(vec![Concurrency::Forbid, Concurrency::Allow, Concurrency::Replace]),
        at_most in 1..4usize,
        ops in ops(),
    ) {
        let mut world = World::new(Limits { per, concurrency, at_most });
        ops.into_iter().for_each(|op| world.step(op));
        world.rest();
    }
}
