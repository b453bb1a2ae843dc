//! An incremental run is a full run, whatever happened before; and nothing runs that need not.

use std::sync::atomic::{AtomicUsize, Ordering};

use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input};
use proptest::prelude::*;

use super::*;
use crate::testing::{self, Items, document, items, reading, sealed, whole_pipeline};

/// What the sources hold.
#[derive(Debug, Clone, Default)]
struct World {
    documents: BTreeMap<u8, (u32, BTreeMap<String, testing::Written>)>,
    owners: Vec<String>,
}

#[derive(Debug, Clone)]
enum Edit {
    Put(u8, u32, BTreeMap<String, testing::Written>),
    Shift(u8),
    Drop(u8),
    Owners(Vec<String>),
}

impl World {
    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Put(nth, line, items) => drop(self.documents.insert(nth, (line, items))),
            Edit::Shift(nth) => drop(self.documents.get_mut(&nth).map(|(line, _)| *line += 1)),
            Edit::Drop(nth) => drop(self.documents.remove(&nth)),
            Edit::Owners(owners) => self.owners = owners,
        }
    }

    fn readings(&self) -> Readings {
        let docs = self.documents.iter().map(|(nth, (line, items))| {
            document(
                "docs",
                &format!("d{nth}"),
                *line,
                serde_json::to_value(items).unwrap(),
            )
        });
        let owners = document("owners", "owners", 1, self.owners.clone().into());
        [
            ("docs", reading(docs.collect())),
            ("owners", reading(vec![owners])),
        ]
        .map(|(name, reading)| (SourceName(name.into()), Ok(reading)))
        .into()
    }
}

fn items_of_a_document() -> impl Strategy<Value = BTreeMap<String, testing::Written>> {
    let item = (0_u64..15, prop::collection::vec("[a-f]", 0..2)).prop_map(|(n, refers)| {
        testing::Written {
            n,
            refers,
            ..Default::default()
        }
    });
    prop::collection::btree_map("[a-f]", item, 0..3)
}

fn edits() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (0_u8..4, 1_u32..5, items_of_a_document()).prop_map(|(nth, line, items)| Edit::Put(nth, line, items)),
        1 => (0_u8..4).prop_map(Edit::Shift),
        1 => (0_u8..4).prop_map(Edit::Drop),
        1 => prop::collection::vec("[a-z]", 0..2).prop_map(Edit::Owners),
    ]
}

/// Everything of an incarnation, byte for byte, provenance included.
fn bytes(candidate: &Candidate) -> Vec<Vec<u8>> {
    candidate
        .snapshot
        .iter()
        .map(|asset| asset.block().bytes().to_vec())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn r1_incremental_equals_full(edits in prop::collection::vec(edits(), 1..25)) {
        let pipeline = whole_pipeline();
        let (mut world, mut memo, mut parent) = (World::default(), Memo::new(), None);
        for edit in edits {
            world.edit(edit);
            let incremental = memo.draft(&pipeline, world.readings(), parent.as_ref());
            let full = Memo::new().draft(&pipeline, world.readings(), parent.as_ref());
            match (incremental, full) {
                (Ok(incremental), Ok(full)) => {
                    prop_assert_eq!(bytes(&incremental.candidate), bytes(&full.candidate));
                    prop_assert_eq!(incremental.candidate.digest, full.candidate.digest);
                    prop_assert_eq!(&incremental.candidate.changes, &full.candidate.changes);
                    parent = Some(sealed(&incremental));
                    memo.accept(incremental);
                }
                (Err(incremental), Err(full)) => {
                    let of_generators = |problems: &Problems| -> Vec<Problem> {
                        let by = |problem: &&Problem| matches!(&*problem.by, "items" | "owners");
                        problems.iter().filter(by).cloned().collect()
                    };
                    prop_assert_eq!(of_generators(&incremental.problems), of_generators(&full.problems));
                }
                (incremental, full) => prop_assert!(false, "incremental: {:?}\nfull: {:?}", incremental.map(|draft| draft.put), full.map(|draft| draft.put)),
            }
        }
    }
}

/// Counts its calls.
struct Counted<G>(G, Arc<AtomicUsize>);

impl<G: Generator> Generator for Counted<G> {
    fn info(&self) -> GeneratorInfo {
        self.0.info()
    }
    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.generate(input, out)
    }
}

#[test]
fn r1_only_generators_whose_inputs_changed_run() {
    let calls: [Arc<AtomicUsize>; 3] = Default::default();
    let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(testing::ByHand("docs"))
        .source(testing::ByHand("owners"))
        .generator(Counted(testing::Groups, calls[2].clone()))
        .generator(Counted(testing::Owners, calls[1].clone()))
        .generator(Counted(Items, calls[0].clone()))
        .build()
        .unwrap();
    let mut memo = Memo::new();
    let mut world = World::default();
    let mut parent = None;
    let mut run = |world: &World| {
        let draft = memo
            .draft(&pipeline, world.readings(), parent.as_ref())
            .unwrap();
        parent = Some(sealed(&draft));
        let put = draft.put.len();
        memo.accept(draft);
        let counts = calls
            .each_ref()
            .map(|calls| calls.swap(0, Ordering::Relaxed));
        (counts, put)
    };
    for nth in 0..4 {
        let item = testing::Written {
            n: 2,
            ..Default::default()
        };
        world.edit(Edit::Put(nth, 1, [(format!("i{nth}"), item)].into()));
    }
    assert_eq!(run(&world), ([4, 4, 1], 5), "everything, once");
    assert_eq!(run(&world), ([0, 0, 0], 0), "nothing changed");
    world.edit(Edit::Shift(0));
    assert_eq!(
        run(&world),
        ([1, 1, 1], 0),
        "moved, which generators can see, but equal"
    );
    let item = testing::Written {
        n: 3,
        ..Default::default()
    };
    world.edit(Edit::Put(1, 1, [("i1".into(), item)].into()));
    assert_eq!(run(&world), ([1, 1, 1], 2), "one item, and its group");
    world.edit(Edit::Owners(vec!["me".into()]));
    assert_eq!(
        run(&world),
        ([0, 4, 1], 4),
        "all owners, and the group looks again"
    );
}

fn problems(readings: Vec<(&str, Reading)>, pipeline: &Pipeline) -> Vec<String> {
    let said = pipeline.check(readings, None).unwrap_err();
    said.iter().map(ToString::to_string).collect()
}

#[test]
fn r3_every_problem_is_found_with_asset_field_validator_and_place() {
    let pipeline = testing::builder().build().unwrap();
    let docs = reading(vec![
        document(
            "docs",
            "a",
            10,
            serde_json::json!({"x": {"n": 13}, "y": {"n": "two"}}),
        ),
        document(
            "docs",
            "b",
            20,
            serde_json::json!({"p": {"n": 13}, "q": {"n": 13}, "r": {"n": 1}}),
        ),
        document(
            "docs",
            "c",
            30,
            serde_json::json!({"r": {"n": 1}, "s": {"n": 1, "m": 2}}),
        ),
    ]);
    assert_eq!(
        problems(vec![("docs", docs)], &pipeline),
        [
            "a#0:11:0: y.n: invalid type: string \"two\", expected u64 (says items)",
            "b#0:20:0: p: 13 is not allowed (says items)",
            "b#0:21:0: q: 13 is not allowed (says items)",
            "c#0:0:0: s.m: unknown field `m`, expected one of `n`, `refers`, `needs`, `turndown` (says items)",
        ]
        .map(|line| line.replace("c#0:0:0", "c#0"))
    );
    let docs = items(serde_json::json!({
        "a": {"n": 1, "refers": ["none", "a"]}, "b": {"n": 2, "refers": ["gone"]},
    }));
    assert_eq!(
        problems(vec![("docs", docs)], &pipeline),
        [
            "m#0:1:0: a: payload.refers[0]: refers to `none`, which is not there; add it or take the reference away (says references)",
            "m#0:1:0: a: payload.refers[1]: refers to itself; take the reference away (says references)",
            "m#0:2:0: b: payload.refers[0]: refers to `gone`, which is not there; add it or take the reference away (says references)",
        ]
    );
}

#[test]
fn r3_two_makers_of_one_asset_are_both_named() {
    let pipeline = testing::builder().build().unwrap();
    let docs = reading(vec![
        document("docs", "a", 1, serde_json::json!({"x": {"n": 1}})),
        document(
            "docs",
            "b",
            7,
            serde_json::json!({"x": {"n": 2}, "y": {"n": 3, "refers": ["none"]}}),
        ),
    ]);
    let said = problems(vec![("docs", docs)], &pipeline);
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(
        said[0],
        "b#0:7:0: x: made more than once, by `items` from a#0:1:0 and by `items` from b#0:7:0; let one of them go (says items)"
    );
    assert!(
        said[1].contains("y: payload.refers[0]: refers to `none`"),
        "other problems are found beside it"
    );
}

/// Does what it should not.
struct Rogue(fn(&mut Drafts));

impl Generator for Rogue {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("rogue").reads("docs")
    }
    fn generate(&self, _: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        self.0(out);
        Ok(())
    }
}

#[test]
fn r3_a_generator_that_panics_or_makes_undeclared_types_is_an_error() {
    let said = |rogue| {
        let pipeline = testing::builder().generator(Rogue(rogue)).build().unwrap();
        problems(
            vec![("docs", items(serde_json::json!({"a": {"n": 1}})))],
            &pipeline,
        )
    };
    assert_eq!(
        said(|_| panic!("on purpose")),
        ["m#0:1:0: panicked; mend the generator (says rogue)"]
    );
    let undeclared = said(|out| {
        let item = testing::Item {
            n: 1,
            refers: vec![],
        };
        let asset = Asset::builder(testing::id("z")).payload(&item).unwrap();
        out.asset(asset, Default::default()).unwrap();
    });
    assert_eq!(
        undeclared,
        [
            "m#0:1:0: z: makes a test.v1.Item without declaring it; add `.makes` to its info (says rogue)"
        ]
    );
}

/// Called per asset of one type, makes another.
struct Turns<A, B>(&'static str, std::marker::PhantomData<fn() -> (A, B)>);

impl<A: prodspec_model::Message, B: prodspec_model::Message> Generator for Turns<A, B> {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<A>(self.0).makes::<B>()
    }
    fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> {
        Ok(())
    }
}

#[test]
fn generators_that_wait_for_each_other_are_refused() {
    use testing::{Extra, Group};
    let error = testing::builder()
        .generator(Turns::<Group, Extra>("there", Default::default()))
        .generator(Turns::<Extra, Group>("back", Default::default()))
        .asset_type(AssetType::<Group>::new())
        .build()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`there` gives test.v1.Extra to `back`")
            && error.contains("`back` gives test.v1.Group to `there`"),
        "{error}"
    );
    let nobody = testing::builder()
        .generator(Turns::<Group, Extra>("alone", Default::default()))
        .build();
    assert!(
        nobody
            .unwrap_err()
            .to_string()
            .contains("which no generator makes")
    );
    let twice = testing::builder().generator(Items).build();
    assert!(
        twice
            .unwrap_err()
            .to_string()
            .contains("two generators are called `items`")
    );
}
