//! R1: an incremental run has the same result as a full one, byte for byte, for any sequence of edits. The test world
//! has ids that change their types, generators that amend and consume, files with several documents, sources that
//! several generators read, renames, failures and restarts. Its pipeline is in `generators`, its content in `edits`.

use std::collections::BTreeMap;

use plugin_sdk::{Delta, Document, Problem, Problems, Reading, Update, document::DocumentKey};
use prodspec_model::{Asset, Incarnation, Revision, SourceName};
use proptest::prelude::*;

use super::{
    edits::{Edit, Step, World, step},
    generators::{KINDS, Thing, pipeline},
};
use crate::{
    memo::{Draft, Memo, Readings, Refused},
    testing::sealed,
};

/// All parts of a draft that are sealed or reported, byte for byte, including provenance.
fn sealed_and_reported(draft: &Draft) -> impl PartialEq + std::fmt::Debug + use<> {
    let bytes = |assets: &mut dyn Iterator<Item = Asset>| -> Vec<Vec<u8>> {
        assets.map(|asset| asset.block().bytes().to_vec()).collect()
    };
    (
        bytes(&mut draft.candidate.snapshot.iter()),
        draft.candidate.digest,
        draft.candidate.changes.clone(),
        bytes(&mut draft.put.iter().cloned()),
        draft.removed.clone(),
        draft.sources.clone(),
        draft.warnings.clone(),
    )
}

/// The problems that do not depend on the results of failed generators.
fn of_generators(refused: &Refused) -> Vec<Problem> {
    let problems = refused.problems.iter();
    problems
        .filter(|problem| &*problem.by != "fives")
        .cloned()
        .collect()
}

/// The documents of each source at its earlier revisions.
#[derive(Default)]
struct Past(BTreeMap<(SourceName, Revision), Vec<Document>>);

impl Past {
    /// What the sources say to a caller that has the documents of these `revisions`.
    fn updates(
        &mut self,
        readings: Readings,
        revisions: &BTreeMap<SourceName, Revision>,
    ) -> Readings {
        let update = |(name, reading): (SourceName, Result<Update, Problems>)| {
            let Ok(Update::Whole(reading)) = reading else {
                return (name, reading);
            };
            let at = (name.clone(), reading.revision.clone());
            self.0.insert(at, reading.documents.clone());
            let before = revisions.get(&name).and_then(|known| {
                let before = self.0.get(&(name.clone(), known.clone()));
                Some((known, before?))
            });
            let update = match before {
                None => Update::Whole(reading),
                Some((known, _)) if *known == reading.revision => Update::Same,
                Some((_, before)) => delta(reading, before),
            };
            (name, Ok(update))
        };
        readings.into_iter().map(update).collect()
    }
}

/// The reading as a delta to the documents `before`.
fn delta(reading: Reading, before: &[Document]) -> Update {
    let has = |all: &[Document], key: &DocumentKey| all.iter().any(|it| it.key() == key);
    let gone = before.iter().map(Document::key);
    let gone = gone.filter(|key| !has(&reading.documents, key));
    let gone = gone.cloned().collect();
    let mut put = reading.documents;
    // A document whose lines alone have changed is among them: problems name the lines of today.
    put.retain(|document| !before.iter().any(|it| it.is_identical(document)));
    Update::Delta(Delta::new(reading.revision.0, put, gone))
}

/// Runs all steps, each incrementally and in full, and compares the results. The incremental run gets deltas.
fn compare(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let pipeline = pipeline();
    let (mut world, mut memo) = (World::default(), Memo::new());
    let mut past = Past::default();
    let mut parent: Option<Incarnation> = None;
    for step in steps {
        if step.restarted {
            memo = Memo::new();
        }
        step.edits.into_iter().for_each(|edit| world.edit(edit));
        let readings = || world.readings(step.unread);
        let updates = past.updates(readings(), memo.revisions());
        let incremental = memo.draft(&pipeline, updates, parent.as_ref());
        let full = Memo::new().draft(&pipeline, readings(), parent.as_ref());
        match (incremental, full) {
            (Ok(incremental), Ok(full)) => {
                prop_assert_eq!(
                    sealed_and_reported(&incremental),
                    sealed_and_reported(&full)
                );
                parent = Some(sealed(&incremental));
                memo.accept(incremental);
            }
            (Err(incremental), Err(full)) if step.unread.is_none() => {
                prop_assert_eq!(of_generators(&incremental), of_generators(&full));
            }
            (Err(_), Err(_)) => {}
            (incremental, full) => {
                let [incremental, full] = [incremental, full].map(|end| end.map(|end| end.put));
                prop_assert!(false, "incremental: {incremental:?}\nfull: {full:?}");
            }
        }
    }
    Ok(())
}

proptest! {
    /// The environment variable `PROPTEST_CASES` sets the number of cases.
    #[test]
    fn r1_incremental_equals_full(steps in prop::collection::vec(step(), 1..20)) {
        compare(steps)?;
    }
}

/// Steps that have edits only.
fn steps(edits: Vec<Vec<Edit>>) -> Vec<Step> {
    let step = |edits| Step {
        edits,
        unread: None,
        restarted: false,
    };
    edits.into_iter().map(step).collect()
}

/// Puts a thing into the document that has the thing's number.
fn put(name: u8, kind: usize, n: u64) -> Edit {
    Edit::Put(name, (0, 0, name), Thing { kind, n })
}

#[test]
fn r1_asset_with_a_new_type_reaches_the_consumers_of_that_type() {
    // The generator that amended the asset as a B consumes all A for other B.
    let same_stage = steps(vec![
        vec![put(0, 1, 1), put(1, 1, 1)],
        vec![Edit::Retype(0, 0)],
    ]);
    compare(same_stage).unwrap();
    for before in 0..KINDS.len() {
        for after in 0..KINDS.len() {
            compare(steps(vec![
                vec![put(0, before, 2)],
                vec![Edit::Retype(0, after)],
            ]))
            .unwrap();
        }
    }
}

/// The warnings after the last step.
fn warnings(steps: Vec<Step>) -> Vec<String> {
    let (pipeline, mut world) = (pipeline(), World::default());
    let (mut memo, mut parent, mut warnings) = (Memo::new(), None, Problems::none());
    for step in steps {
        step.edits.into_iter().for_each(|edit| world.edit(edit));
        let draft = memo.draft(&pipeline, world.readings(None), parent.as_ref());
        let draft = draft.unwrap();
        parent = Some(sealed(&draft));
        warnings = draft.warnings.clone();
        memo.accept(draft);
    }
    warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn r43_warning_of_an_unchanged_document_has_the_line_of_today() {
    let moved = vec![Edit::Shift(0, 0), Edit::Shift(0, 0)];
    let all = steps(vec![vec![put(0, 0, 12)], moved, vec![put(1, 1, 1)]]);
    compare(all).unwrap();
}

#[test]
fn r49_look_up_that_found_nothing_is_repeated_when_the_asset_comes() {
    let (pipeline, mut world, mut memo) = (pipeline(), World::default(), Memo::new());
    // Number 1 looks `t1` up, which is not there yet.
    world.edit(Edit::Put(0, (1, 0, 0), Thing { kind: 2, n: 1 }));
    let draft = memo.draft(&pipeline, world.readings(None), None).unwrap();
    let parent = sealed(&draft);
    memo.accept(draft);
    world.edit(Edit::Put(1, (0, 0, 0), Thing { kind: 0, n: 5 }));
    let draft = memo.draft(&pipeline, world.readings(None), Some(&parent));
    let put = draft.unwrap().put;
    let ids: Vec<&str> = put.iter().map(Asset::id_str).collect();
    assert!(ids.contains(&"found/f0.0/t0"), "{ids:?}");
}

#[test]
fn r3_warnings_stay_until_their_cause_is_removed() {
    let first = vec![put(0, 0, 12), put(1, 1, 10)];
    let said = [
        "warning: group/b: refers to t1 (says fives)",
        "f0#0:1:0: warning: t0: 12 (says things)",
    ];
    assert_eq!(warnings(steps(vec![first.clone()])), said);
    let unrelated = vec![first, vec![put(2, 2, 1)], vec![Edit::Shift(1, 1)]];
    assert_eq!(warnings(steps(unrelated.clone())), said);
    let moved = [
        unrelated.clone(),
        vec![vec![Edit::Shift(0, 0), Edit::Shift(0, 0)]],
    ]
    .concat();
    let there = [said[0], "f0#0:2:0: warning: t0: 12 (says things)"];
    assert_eq!(warnings(steps(moved)), there, "the line of today");
    let cause = vec![put(0, 0, 1), Edit::Drop(1)];
    let mended = [unrelated, vec![cause]].concat();
    assert_eq!(warnings(steps(mended)), [""; 0]);
}
