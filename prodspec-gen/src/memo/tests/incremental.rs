//! R1: an incremental run has the same result as a full one, byte for byte, for any sequence of edits. The test world
//! has ids that change their types, generators that amend and consume, files with several documents, sources that
//! several generators read, renames, failures and restarts.

use std::collections::BTreeMap;

use plugin_sdk::{
    AssetView, Drafts, Generator, GeneratorInfo, Input, Located, Problem, Problems, Reading,
    Validator,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Digest, Incarnation, Message, SourceName, TypeName, addons::Owner,
};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::{Draft, Memo, Readings, Refused};
use crate::{
    Pipeline,
    testing::{self, ByHand, document, reading, sealed},
};

macro_rules! messages {
    ($($name:ident $type_name:literal),* $(,)?) => { $(
        #[derive(Serialize, Deserialize)]
        struct $name {
            n: u64,
        }
        impl Message for $name {
            const TYPE: &'static str = $type_name;
        }
    )* };
}

messages! { A "test.v1.A", B "test.v1.B", C "test.v1.C", D "test.v1.D" }

/// A digest of the assets that a generator consumed.
#[derive(Serialize, Deserialize)]
struct Saw {
    digest: Digest,
}

impl Message for Saw {
    const TYPE: &'static str = "test.v1.Saw";
}

/// The types that a thing in a document can have.
const KINDS: [&str; 3] = [A::TYPE, B::TYPE, C::TYPE];

/// A thing as written in a document.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Thing {
    kind: usize,
    n: u64,
}

/// A digest of everything that a generator can read of assets, including positions.
fn digest_of<'a>(assets: impl Iterator<Item = &'a Asset>) -> Saw {
    let mut bytes = Vec::new();
    for asset in assets {
        bytes.extend_from_slice(asset.block().bytes());
    }
    let digest = Digest::of(&bytes);
    Saw { digest }
}

/// Makes one asset per entry of a document of its source, of the type that the entry names. Refuses 13, warns of 12.
struct Things(&'static str);

impl Generator for Things {
    fn info(&self) -> GeneratorInfo {
        let info = match self.0 {
            "docs" => GeneratorInfo::per_document("things", "docs"),
            _ => GeneratorInfo::per_document("more-things", "more").reads("owners"),
        };
        info.makes::<A>().makes::<B>().makes::<C>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents_of(self.0) {
            let things: BTreeMap<String, Located<Thing>> = document.read()?;
            for (name, thing) in things {
                let from = document.provenance_at(thing.line, thing.column);
                match thing.n {
                    13 => out.problem(Problem::new("13").field(name.clone()).origin(&from)),
                    12 => out.problem(Problem::new("12").field(name.clone()).warning()),
                    _ => {}
                }
                let asset = Asset::builder(AssetId::new(&name)?)
                    .payload_value(TypeName::new(KINDS[thing.kind])?, &json!({ "n": thing.n }))?;
                out.asset(asset, from)?;
            }
        }
        Ok(())
    }
}

/// Adds an owner to every `A`, from a source that other generators read too.
struct Owners;

impl Generator for Owners {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<A>("owners").reads("owners")
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let owner = input.documents().map(|document| document.read::<String>());
        let owner = owner.collect::<Result<String, _>>()?;
        match input.asset() {
            Some(asset) if !owner.is_empty() => out.amend(asset.edit().addon(&Owner { owner })?)?,
            _ => {}
        }
        Ok(())
    }
}

/// Adds a digest of all `A` to every `B`.
struct Sums;

impl Generator for Sums {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<B>("sums").consumes::<A>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        if let Some(asset) = input.asset() {
            out.amend(asset.edit().addon(&digest_of(input.assets()))?)?;
        }
        Ok(())
    }
}

/// Makes a `D` from every odd `C`, with a digest of all `B`. Adds the digest to every even `C`.
struct Copies;

impl Generator for Copies {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<C>("copies")
            .consumes::<B>()
            .makes::<D>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(asset) = input.asset() else {
            return Ok(());
        };
        let C { n } = asset.payload()?;
        if n % 2 == 0 {
            out.amend(asset.edit().addon(&digest_of(input.assets()))?)?;
            return Ok(());
        }
        let copy = Asset::builder(AssetId::new(&format!("copy/{}", asset.id_str()))?);
        let copy = copy.payload(&D { n })?.addon(&digest_of(input.assets()))?;
        out.asset(copy, asset.provenance())?;
        Ok(())
    }
}

/// Makes one group of all assets of type `T`.
struct Groups<T>(&'static str, std::marker::PhantomData<fn() -> T>);

impl<T: Message> Generator for Groups<T> {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole(self.0)
            .consumes::<T>()
            .makes::<testing::Group>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let items = input.assets().map(|asset| AssetRef::to(asset.id()));
        let items = items.collect();
        let group = Asset::builder(AssetId::new(&format!("group/{}", self.0))?)
            .payload(&testing::Group { items })?
            .addon(&digest_of(input.assets()))?;
        out.asset(group, Default::default())?;
        Ok(())
    }
}

/// A validator that warns of assets that refer to a multiple of five.
struct Fives;

impl Validator for Fives {
    fn name(&self) -> &str {
        "fives"
    }

    fn validate_asset(&self, view: &AssetView<'_>, problems: &mut Problems) {
        for id in view.references() {
            let payload = view.get(id).map(|asset| asset.payload_json().to_owned());
            let thing = payload.and_then(|json| serde_json::from_str::<A>(&json).ok());
            let n = thing.map(|thing| thing.n);
            if n.is_some_and(|n| n % 5 == 0) {
                problems.push(view.problem(format!("refers to {id}")).warning());
            }
        }
    }
}

/// A pipeline in which groups can come before the generators that amend other types.
fn pipeline() -> Pipeline {
    Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(ByHand("docs"))
        .source(ByHand("more"))
        .source(ByHand("owners"))
        .generator(Things("docs"))
        .generator(Things("more"))
        .generator(Groups::<C>("c", Default::default()))
        .generator(Groups::<B>("b", Default::default()))
        .generator(Groups::<A>("a", Default::default()))
        .generator(Groups::<D>("d", Default::default()))
        .generator(Copies)
        .generator(Sums)
        .generator(Owners)
        .validators([std::sync::Arc::new(Fives) as std::sync::Arc<dyn Validator>])
        .build()
        .unwrap()
}

/// The place of a thing: source, file, document.
type Place = (u8, u8, u8);

/// The content of all sources.
#[derive(Debug, Clone, Default)]
struct World {
    things: BTreeMap<u8, (Place, Thing)>,
    /// A thing that is written a second time, at another place.
    twin: Option<(u8, Place)>,
    lines: BTreeMap<(u8, u8), u32>,
    owner: String,
}

#[derive(Debug, Clone)]
enum Edit {
    Put(u8, Place, Thing),
    Retype(u8, usize),
    Drop(u8),
    Rename(u8, u8),
    Move(u8, Place),
    RenameFile(u8, u8, u8),
    Shift(u8, u8),
    Owner(String),
    Twin(Option<(u8, Place)>),
}

/// The edits before one run, and the faults of that run.
#[derive(Debug, Clone)]
struct Step {
    edits: Vec<Edit>,
    /// The source that cannot be read in this run.
    unread: Option<u8>,
    /// Whether the process restarts before the run.
    restarted: bool,
}

impl World {
    fn edit(&mut self, edit: Edit) {
        match edit {
            Edit::Put(name, place, thing) => drop(self.things.insert(name, (place, thing))),
            Edit::Retype(name, kind) => {
                if let Some((_, thing)) = self.things.get_mut(&name) {
                    thing.kind = kind;
                }
            }
            Edit::Drop(name) => drop(self.things.remove(&name)),
            Edit::Rename(from, to) => {
                if let Some(thing) = self.things.remove(&from) {
                    self.things.insert(to, thing);
                }
            }
            Edit::Move(name, to) => {
                if let Some((place, _)) = self.things.get_mut(&name) {
                    *place = to;
                }
            }
            Edit::RenameFile(source, from, to) => {
                for ((of, file, _), _) in self.things.values_mut() {
                    if (*of, *file) == (source, from) {
                        *file = to;
                    }
                }
            }
            Edit::Shift(source, file) => *self.lines.entry((source, file)).or_default() += 1,
            Edit::Owner(owner) => self.owner = owner,
            Edit::Twin(twin) => self.twin = twin,
        }
    }

    /// All documents of a source. Missing documents before the last of a file are empty.
    fn documents(&self, source: u8, name: &str) -> Reading {
        let mut files: BTreeMap<u8, Vec<serde_json::Map<String, serde_json::Value>>> =
            BTreeMap::new();
        let twin = self.twin.iter().filter_map(|(name, place)| {
            let (_, thing) = self.things.get(name)?;
            Some((name, (*place, thing.clone())))
        });
        let things = self.things.iter().map(|(name, at)| (name, at.clone()));
        for (name, ((of, file, nth), thing)) in things.chain(twin) {
            if of == source {
                let documents = files.entry(file).or_default();
                documents.resize(documents.len().max(nth as usize + 1), Default::default());
                let thing = serde_json::to_value(thing).unwrap();
                documents[nth as usize].insert(format!("t{name}"), thing);
            }
        }
        let documents = files.into_iter().flat_map(|(file, documents)| {
            let line = self.lines.get(&(source, file)).copied().unwrap_or(1);
            let documents = documents.into_iter().enumerate();
            documents.map(move |(nth, things)| {
                let at = line + 10 * nth as u32;
                let document = document(name, &format!("f{file}"), at, things.into());
                plugin_sdk::Document::new(
                    name,
                    &format!("f{file}"),
                    nth as u32,
                    document.root().clone(),
                )
            })
        });
        reading(documents.collect())
    }

    fn readings(&self, unread: Option<u8>) -> Readings {
        let owner = document("owners", "owners", 1, self.owner.clone().into());
        [
            ("docs", self.documents(0, "docs")),
            ("more", self.documents(1, "more")),
            ("owners", reading(vec![owner])),
        ]
        .into_iter()
        .enumerate()
        .map(|(nth, (name, reading))| {
            let reading = match unread {
                Some(unread) if usize::from(unread) == nth => Err(Problem::new("unread").into()),
                _ => Ok(reading),
            };
            (SourceName(name.into()), reading)
        })
        .collect()
    }
}

fn name() -> impl Strategy<Value = u8> {
    0_u8..5
}

fn place() -> impl Strategy<Value = Place> {
    (0_u8..2, 0_u8..3, 0_u8..3)
}

fn thing() -> impl Strategy<Value = Thing> {
    (0..KINDS.len(), 0_u64..14).prop_map(|(kind, n)| Thing { kind, n })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        6 => (name(), place(), thing()).prop_map(|(name, place, thing)| Edit::Put(name, place, thing)),
        4 => (name(), 0..KINDS.len()).prop_map(|(name, kind)| Edit::Retype(name, kind)),
        2 => name().prop_map(Edit::Drop),
        2 => (name(), name()).prop_map(|(from, to)| Edit::Rename(from, to)),
        2 => (name(), place()).prop_map(|(name, place)| Edit::Move(name, place)),
        1 => (0_u8..2, 0_u8..3, 0_u8..3).prop_map(|(source, from, to)| Edit::RenameFile(source, from, to)),
        1 => (0_u8..2, 0_u8..3).prop_map(|(source, file)| Edit::Shift(source, file)),
        1 => "[ab]?".prop_map(Edit::Owner),
        1 => prop::option::weighted(0.3, (name(), place())).prop_map(Edit::Twin),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let edits = prop::collection::vec(edit(), 0..4);
    let unread = prop::option::weighted(0.05, 0_u8..3);
    (edits, unread, prop::bool::weighted(0.1)).prop_map(|(edits, unread, restarted)| Step {
        edits,
        unread,
        restarted,
    })
}

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

/// Runs all steps, each incrementally and in full, and compares the results.
fn compare(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let pipeline = pipeline();
    let (mut world, mut memo) = (World::default(), Memo::new());
    let mut parent: Option<Incarnation> = None;
    for step in steps {
        if step.restarted {
            memo = Memo::new();
        }
        step.edits.into_iter().for_each(|edit| world.edit(edit));
        let readings = || world.readings(step.unread);
        let incremental = memo.draft(&pipeline, readings(), parent.as_ref());
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
fn r3_warnings_stay_until_their_cause_is_removed() {
    let first = vec![put(0, 0, 12), put(1, 1, 10)];
    let said = [
        "warning: group/b: refers to t1 (says fives)",
        "f0#0:1:0: warning: t0: 12 (says things)",
    ];
    assert_eq!(warnings(steps(vec![first.clone()])), said);
    let unrelated = vec![first, vec![put(2, 2, 1)], vec![Edit::Shift(1, 1)]];
    assert_eq!(warnings(steps(unrelated.clone())), said);
    let cause = vec![put(0, 0, 1), Edit::Drop(1)];
    let mended = [unrelated, vec![cause]].concat();
    assert_eq!(warnings(steps(mended)), [""; 0]);
}
