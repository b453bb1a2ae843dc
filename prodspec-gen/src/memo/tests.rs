//! Only generators whose inputs changed run, and every problem is reported. The tests in `incremental` compare
//! incremental runs with full ones.

mod edits;
mod generators;
mod incremental;

use std::sync::atomic::{AtomicUsize, Ordering};

use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Reading};

use super::*;
use crate::testing::{self, Items, document, items, reading, sealed, whole_pipeline};

/// The content of all sources.
#[derive(Debug, Clone, Default)]
struct World {
    documents: BTreeMap<u8, (u32, BTreeMap<String, testing::Written>)>,
    owners: Vec<String>,
}

#[derive(Debug, Clone)]
enum Edit {
    Put(u8, u32, BTreeMap<String, testing::Written>),
    Shift(u8),
    Owners(Vec<String>),
}

impl World {
    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Put(nth, line, items) => drop(self.documents.insert(nth, (line, items))),
            Edit::Shift(nth) => drop(self.documents.get_mut(&nth).map(|(line, _)| *line += 1)),
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
        .map(|(name, reading)| (SourceName(name.into()), Ok(reading.into())))
        .into()
    }
}

/// A generator that counts its calls.
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
    assert_eq!(run(&world), ([4, 4, 1], 5), "every unit once");
    assert_eq!(run(&world), ([0, 0, 0], 0), "nothing changed");
    world.edit(Edit::Shift(0));
    assert_eq!(
        run(&world),
        ([0, 0, 0], 0),
        "R43: the lines changed, the content did not"
    );
    let item = testing::Written {
        n: 3,
        ..Default::default()
    };
    world.edit(Edit::Put(1, 1, [("i1".into(), item)].into()));
    assert_eq!(
        run(&world),
        ([1, 1, 1], 2),
        "one item, its owner, and the group"
    );
    world.edit(Edit::Owners(vec!["me".into()]));
    assert_eq!(
        run(&world),
        ([0, 4, 1], 4),
        "the owners of all items, and the group"
    );
}

fn problems(readings: Vec<(&str, Reading)>, pipeline: &Pipeline) -> Vec<String> {
    let said = pipeline.dry_run(readings, None).unwrap_err();
    said.iter().map(ToString::to_string).collect()
}

#[test]
fn r3_every_problem_is_reported_with_asset_field_validator_and_position() {
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
            "c#0:31:0: s.m: unknown field `m`, expected one of `n`, `refers`, `may_dangle`, `needs`, `turndown`, `moved_from` (says items)",
        ]
    );
    let docs = items(serde_json::json!({
        "a": {"n": 1, "refers": ["none", "a"]}, "b": {"n": 2, "refers": ["gone"]},
    }));
    assert_eq!(
        problems(vec![("docs", docs)], &pipeline),
        [
            "m#0:1:0: a: payload.refers[0]: refers to `none`, which does not exist; add it, remove the reference, or let it dangle with `$asset?` (says references)",
            "m#0:1:0: a: payload.refers[1]: refers to itself; remove the reference (says references)",
            "m#0:2:0: b: payload.refers[0]: refers to `gone`, which does not exist; add it, remove the reference, or let it dangle with `$asset?` (says references)",
        ]
    );
}

#[test]
fn r3_error_names_both_makers_of_an_asset() {
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
        "b#0:7:0: x: made more than once, by `items` from `x` in a#0 and by `items` from `x` in b#0; remove all but one (says items)"
    );
    assert!(
        said[1].contains("y: payload.refers[0]: refers to `none`"),
        "other problems are found too"
    );
}

/// A generator that runs a function with a mistake.
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
fn r3_generator_that_panics_or_makes_undeclared_types_is_an_error() {
    let said = |rogue| {
        let pipeline = testing::builder().generator(Rogue(rogue)).build().unwrap();
        problems(
            vec![("docs", items(serde_json::json!({"a": {"n": 1}})))],
            &pipeline,
        )
    };
    assert_eq!(
        said(|_| panic!("on purpose")),
        ["m#0:1:0: panicked; fix the generator (says rogue)"]
    );
    let undeclared = said(|out| {
        let item = testing::Item {
            n: 1,
            refers: vec![],
            may_dangle: vec![],
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

/// A generator that makes one asset, then returns an error with these problems.
struct Failing(Problems);

impl Generator for Failing {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("failing")
            .reads("docs")
            .makes::<testing::Group>()
    }
    fn generate(&self, _: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let group = testing::Group { items: vec![] };
        out.asset(
            Asset::builder(testing::id("half")).payload(&group)?,
            Default::default(),
        )?;
        Err(self.0.clone())
    }
}

/// Errors that do not name an error: one without problems, and one with a warning only.
fn errors_without_an_error_problem() -> [Problems; 2] {
    [Problems::none(), Problem::new("odd").warning().into()]
}

#[test]
fn r3_generator_error_without_problems_or_with_warnings_only_seals_nothing() {
    for error in errors_without_an_error_problem() {
        let warnings = error.len();
        let pipeline = testing::builder()
            .generator(Failing(error))
            .build()
            .unwrap();
        let docs = items(serde_json::json!({"a": {"n": 1}}));
        let said = problems(vec![("docs", docs)], &pipeline);
        assert_eq!(said.len(), warnings + 1, "{said:?}");
        assert!(
            said.contains(
                &"m#0:1:0: failed without saying why; return the error as a problem (says failing)"
                    .to_owned()
            ),
            "{said:?}"
        );
    }
}

#[test]
fn r44_document_with_the_name_of_another_source_is_refused() {
    let pipeline = whole_pipeline();
    let readings = || -> Readings {
        let stray = document("owners", "m", 3, serde_json::json!({"a": {"n": 1}}));
        [("docs", vec![stray]), ("owners", vec![])]
            .map(|(name, documents)| (SourceName(name.into()), Ok(reading(documents).into())))
            .into()
    };
    let mut warm = Memo::new();
    let first = warm.draft(&pipeline, World::default().readings(), None);
    warm.accept(first.unwrap());
    for memo in [Memo::new(), warm] {
        let refused = memo.draft(&pipeline, readings(), None).unwrap_err();
        assert_eq!(
            refused.problems.to_string(),
            "m#0:3:0: a document of the source docs has the name of the source owners; give it the name of the source that returns it (says source docs)"
        );
    }
}

/// A generator that is called for each asset of type `A` and declares to make assets of type `B`.
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
fn generators_in_a_cycle_or_with_bad_inputs_are_refused() {
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
    let unmade = testing::builder()
        .generator(Turns::<Group, Extra>("alone", Default::default()))
        .build();
    assert!(
        unmade
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
