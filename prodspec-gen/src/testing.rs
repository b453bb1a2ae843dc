//! A small pipeline for tests: items made from documents, owners added to them, groups and extra assets made from them,
//! marks added to all.

use std::collections::BTreeMap;

use plugin_sdk::{
    AssetType, Document, Drafts, Generator, GeneratorInfo, Input, Located, Problem, Problems,
    Reading, document::Node,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, DanglingRef, Incarnation, Message, PartitionId,
    addons::{DependsOn, Moved, Owner, PhysicalCluster, Turndown},
};
use serde::{Deserialize, Serialize};

use crate::{
    Pipeline, Seal,
    memo::{Draft, Memo},
    pipeline::Builder,
    validators,
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Item {
    pub(crate) n: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refers: Vec<AssetRef>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) may_dangle: Vec<DanglingRef>,
}

impl Message for Item {
    const TYPE: &'static str = "test.v1.Item";
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Group {
    pub(crate) items: Vec<AssetRef>,
}

impl Message for Group {
    const TYPE: &'static str = "test.v1.Group";
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Extra {
    of: AssetRef,
}

impl Message for Extra {
    const TYPE: &'static str = "test.v1.Extra";
}

/// An item as written in a document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    pub(crate) n: u64,
    #[serde(default)]
    pub(crate) refers: Vec<String>,
    #[serde(default)]
    pub(crate) may_dangle: Vec<String>,
    #[serde(default)]
    pub(crate) needs: DependsOn,
    #[serde(default)]
    pub(crate) turndown: bool,
    #[serde(default)]
    pub(crate) moved_from: Option<String>,
}

/// Makes one item per entry of a document. Refuses the number 13.
pub(crate) struct Items;

impl Generator for Items {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_document("items", "docs").makes::<Item>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let items: BTreeMap<String, Located<Written>> = document.read()?;
            for (name, item) in items {
                let from = document.provenance_at(&*item.path);
                if item.n == 13 {
                    out.problem(Problem::new("13 is not allowed").field(name).origin(&from));
                    continue;
                }
                out.asset(asset(&name, &item)?, from)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn id(name: &str) -> AssetId {
    AssetId::new(name).unwrap()
}

fn asset(name: &str, item: &Written) -> Result<prodspec_model::AssetBuilder, Problems> {
    let refers = item.refers.iter().map(|name| AssetRef::to(id(name)));
    let may_dangle = item.may_dangle.iter().map(|name| DanglingRef::to(id(name)));
    let payload = Item {
        n: item.n,
        refers: refers.collect(),
        may_dangle: may_dangle.collect(),
    };
    let mut asset = Asset::builder(AssetId::new(name)?).payload(&payload)?;
    if !item.needs.edges.is_empty() {
        asset = asset.addon(&item.needs)?;
    }
    if item.turndown {
        let addon = Turndown {
            reason: "test".into(),
            approved_by: "test".into(),
        };
        asset = asset.addon(&addon)?;
    }
    if let Some(from) = &item.moved_from {
        asset = asset.addon(&Moved::from(id(from)))?;
    }
    Ok(asset)
}

/// Adds an owner to every item. The owner comes from the source `owners`.
pub(crate) struct Owners;

impl Generator for Owners {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<Item>("owners").reads("owners")
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let owner: String = match input.documents().next() {
            Some(document) => document.read::<Vec<String>>()?.concat(),
            None => return Ok(()),
        };
        if let Some(item) = input.asset() {
            out.amend(item.edit().addon(&Owner { owner })?)?;
        }
        Ok(())
    }
}

/// Makes an extra asset for every odd item.
pub(crate) struct Extras;

impl Generator for Extras {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<Item>("extras").makes::<Extra>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(item) = input.asset() else {
            return Ok(());
        };
        if item.payload::<Item>()?.n % 2 == 1 {
            let of = AssetRef::to(item.id());
            let extra = Asset::builder(AssetId::new(&format!("extra/{}", item.id_str()))?);
            out.asset(extra.payload(&Extra { of })?, item.provenance())?;
        }
        Ok(())
    }
}

/// Adds the digest of every asset to it, whatever its type, as the name of a cluster.
pub(crate) struct Marks;

impl Generator for Marks {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_any_asset("marks")
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        if let Some(asset) = input.asset() {
            let mark = PhysicalCluster::new(asset.digest().to_string());
            out.amend(asset.edit().addon(&mark)?)?;
        }
        Ok(())
    }
}

/// Makes one group of all items with an even number.
pub(crate) struct Groups;

impl Generator for Groups {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("groups")
            .consumes::<Item>()
            .makes::<Group>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let mut items = Vec::new();
        for item in input.assets() {
            if item.payload::<Item>()?.n % 2 == 0 {
                items.push(AssetRef::to(item.id()));
            }
        }
        let group = Asset::builder(AssetId::new("group")?).payload(&Group { items })?;
        out.asset(group, Default::default())?;
        Ok(())
    }
}

/// A source that is never read: tests create its readings.
pub(crate) struct ByHand(pub(crate) &'static str);

#[async_trait::async_trait]
impl plugin_sdk::SourceOfTruth for ByHand {
    fn name(&self) -> prodspec_model::SourceName {
        prodspec_model::SourceName(self.0.into())
    }
    async fn read(&self) -> Result<Reading, Problems> {
        Err(Problem::new("tests create the readings of this source").into())
    }
}

/// A pipeline with items only, from the source `docs`.
pub(crate) fn builder() -> Builder {
    Pipeline::builder(PartitionId::new("test").unwrap())
        .source(ByHand("docs"))
        .generator(Items)
        .validators(validators::standard())
        .asset_type(AssetType::<Item>::new().capacity(|item| [("qps".to_owned(), item.n)].into()))
}

/// A pipeline with items, owners, extra assets, groups, and a mark on each of these.
pub(crate) fn whole_pipeline() -> Pipeline {
    builder()
        .source(ByHand("owners"))
        .generator(Marks)
        .generator(Groups)
        .generator(Extras)
        .generator(Owners)
        .asset_type(AssetType::<Group>::new().modelled_only())
        .asset_type(AssetType::<Extra>::new())
        .build()
        .unwrap()
}

/// A document whose positions start at `line`, so that tests can tell positions apart.
pub(crate) fn document(source: &str, path: &str, line: u32, json: serde_json::Value) -> Document {
    fn place(node: &mut Node, line: u32) {
        node.line = line;
        match &mut node.value {
            plugin_sdk::document::Value::Map(entries) => {
                for (nth, (_, value)) in entries.iter_mut().enumerate() {
                    place(value, line + nth as u32);
                }
            }
            plugin_sdk::document::Value::Sequence(items) => {
                items.iter_mut().for_each(|item| place(item, line));
            }
            _ => {}
        }
    }
    let mut root = Node::from(json);
    place(&mut root, line);
    Document::new(source, path, 0, root)
}

pub(crate) fn reading(documents: Vec<Document>) -> Reading {
    let revision = format!("{documents:?}");
    Reading::new(revision, documents)
}

/// A reading of one document with these items.
pub(crate) fn items(json: serde_json::Value) -> Reading {
    reading(vec![document("docs", "m", 1, json)])
}

/// The incarnation that a seal of this draft would give.
pub(crate) fn sealed(draft: &Draft) -> Incarnation {
    let partition = PartitionId::new("test").unwrap();
    let seal = Seal::of(&partition, draft, Vec::new(), jiff::Timestamp::UNIX_EPOCH);
    Incarnation::new(seal.header, seal.snapshot)
}

/// The incarnation with these items, made without guards.
pub(crate) fn incarnation(json: serde_json::Value) -> Incarnation {
    let readings = [(
        prodspec_model::SourceName("docs".into()),
        Ok(items(json).into()),
    )];
    let pipeline = builder().build().unwrap();
    sealed(&Memo::new().draft(&pipeline, readings.into(), None).unwrap())
}
