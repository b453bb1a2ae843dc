//! The pipeline of the tests of incremental runs: generators that make, amend and consume assets, and a validator.

use std::collections::BTreeMap;

use plugin_sdk::{
    AssetView, Drafts, Generator, GeneratorInfo, Input, Located, Problem, Problems, Validator,
};
use prodspec_model::{Asset, AssetId, AssetRef, Digest, Message, TypeName, addons::Owner};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Pipeline,
    testing::{self, ByHand},
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

messages! {
    A "test.v1.A", B "test.v1.B", C "test.v1.C", D "test.v1.D", E "test.v1.E", F "test.v1.F",
}

/// A digest of the assets that a generator consumed.
#[derive(Serialize, Deserialize)]
struct Saw {
    digest: Digest,
}

impl Message for Saw {
    const TYPE: &'static str = "test.v1.Saw";
}

/// The types that a thing in a document can have.
pub(super) const KINDS: [&str; 3] = [A::TYPE, B::TYPE, C::TYPE];

/// A thing as written in a document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Thing {
    pub(super) kind: usize,
    pub(super) n: u64,
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
                let from = document.provenance_at(&*thing.path);
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

/// Makes an `E` from every entry of a document, with the number of the entry `t0` of the same document. Warns of 11.
struct Entries;

impl Generator for Entries {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_entry("entries", "docs", "")
            .shares("t0")
            .makes::<E>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(entry) = input.entry() else {
            return Ok(());
        };
        let Thing { n, .. } = entry.read()?;
        if n == 11 {
            out.problem(entry.problem("11").warning());
        }
        let first = entry.shared::<Thing>("t0")?.map_or(0, |first| first.n);
        let from = entry.provenance();
        let id = format!("entry/{}/{}", from.document.replace('#', "."), entry.key());
        let asset = Asset::builder(AssetId::new(&id)?).payload(&E { n: 100 * first + n })?;
        out.asset(asset, from)?;
        Ok(())
    }
}

/// Looks up the asset that each entry names by its number, and makes an `F` with a digest of it, or of nothing.
struct Finders;

impl Generator for Finders {
    fn info(&self) -> GeneratorInfo {
        let info = GeneratorInfo::per_entry("finders", "more", "");
        info.finds::<A>().finds::<B>().finds::<C>().makes::<F>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(entry) = input.entry() else {
            return Ok(());
        };
        let Thing { n, .. } = entry.read()?;
        let found = match n % 3 {
            0 => None,
            _ => input.find(&AssetId::new(&format!("t{}", n % 5))?),
        };
        if found.is_none() && n % 2 == 0 {
            return Ok(());
        }
        let from = entry.provenance();
        let id = format!("found/{}/{}", from.document.replace('#', "."), entry.key());
        let asset = Asset::builder(AssetId::new(&id)?)
            .payload(&F { n })?
            .addon(&digest_of(found.into_iter()))?;
        out.asset(asset, from)?;
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
pub(super) fn pipeline() -> Pipeline {
    Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(ByHand("docs"))
        .source(ByHand("more"))
        .source(ByHand("owners"))
        .generator(Things("docs"))
        .generator(Things("more"))
        .generator(Finders)
        .generator(Entries)
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
