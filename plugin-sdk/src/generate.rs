//! Generators: pure functions from documents, and from assets of other generators, to assets.

use std::sync::Arc;

use prodspec_model::{Asset, AssetBuilder, Message, Provenance, SourceName, asset};

use crate::{
    document::Document,
    error::with_causes,
    problem::{Problem, Problems},
};

/// What one call of a generator is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// All of its input at once.
    Whole,
    /// One document of this source.
    Document(SourceName),
    /// One asset of this type.
    Asset(Arc<str>),
}

/// What a generator says about itself: what it is called for, what it reads, what it makes.
///
/// Generators form a graph: whoever makes a type runs before whoever is called for it or consumes it. Generators that
/// amend one type run in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct GeneratorInfo {
    /// Its name, unique in the pipeline; stands in provenance and problems.
    pub name: Arc<str>,
    /// What one call is about.
    pub unit: Unit,
    /// The sources whose documents every call sees.
    pub reads: Vec<SourceName>,
    /// The asset types of which every call sees all.
    pub consumes: Vec<Arc<str>>,
    /// The asset types it may make.
    pub makes: Vec<Arc<str>>,
}

impl GeneratorInfo {
    /// Called once, with everything it reads and consumes.
    pub fn whole(name: &str) -> Self {
        Self::new(name, Unit::Whole)
    }

    /// Called for each document of `source`: an edit of one document costs one call.
    pub fn per_document(name: &str, source: &str) -> Self {
        Self::new(name, Unit::Document(SourceName(source.into())))
    }

    /// Called for each asset of type `T` that other generators made. It may amend that asset (the way to introduce a
    /// new field progressively), or make others.
    pub fn per_asset<T: Message>(name: &str) -> Self {
        Self::new(name, Unit::Asset(T::TYPE.into()))
    }

    fn new(name: &str, unit: Unit) -> Self {
        Self {
            name: name.into(),
            unit,
            reads: Vec::new(),
            consumes: Vec::new(),
            makes: Vec::new(),
        }
    }

    /// Every call sees all documents of `source`. A change there repeats every call.
    pub fn reads(mut self, source: &str) -> Self {
        self.reads.push(SourceName(source.into()));
        self
    }

    /// Every call sees all assets of type `T`. A change there repeats every call.
    pub fn consumes<T: Message>(mut self) -> Self {
        self.consumes.push(T::TYPE.into());
        self
    }

    /// It may make assets of type `T`.
    pub fn makes<T: Message>(mut self) -> Self {
        self.makes.push(T::TYPE.into());
        self
    }
}

/// What one call of a generator sees. Nothing else may influence its result.
#[derive(Debug, Clone, Default)]
pub struct Input<'a> {
    documents: Vec<&'a Document>,
    assets: &'a [Asset],
    asset: Option<&'a Asset>,
}

impl<'a> Input<'a> {
    /// These documents, and `assets` of other generators.
    pub fn new(documents: Vec<&'a Document>, assets: &'a [Asset]) -> Self {
        Self {
            documents,
            assets,
            asset: None,
        }
    }

    /// The same, for a call about one asset.
    #[must_use]
    pub fn about(mut self, asset: &'a Asset) -> Self {
        self.asset = Some(asset);
        self
    }

    /// The documents, by source, path and index. Per document: that one, and those of the sources it reads.
    pub fn documents(&self) -> impl Iterator<Item = &'a Document> + '_ {
        self.documents.iter().copied()
    }

    /// The documents of one source.
    pub fn documents_of<'s>(&'s self, source: &'s str) -> impl Iterator<Item = &'a Document> + 's {
        self.documents()
            .filter(move |document| &*document.key().source.0 == source)
    }

    /// The assets of the types consumed, by id.
    pub fn assets(&self) -> impl Iterator<Item = &'a Asset> + '_ {
        self.assets.iter()
    }

    /// The asset that the call is about. Only per-asset generators have one.
    pub fn asset(&self) -> Option<&'a Asset> {
        self.asset
    }
}

/// What one call of a generator makes.
#[derive(Debug, Default)]
pub struct Drafts {
    generator: Arc<str>,
    assets: Vec<Asset>,
    problems: Problems,
}

impl Drafts {
    /// Nothing so far, for the generator of this name.
    pub fn of(generator: &str) -> Self {
        Self {
            generator: generator.into(),
            ..Self::default()
        }
    }

    /// Adds an asset and says where it comes from.
    ///
    /// # Errors
    /// When the asset cannot be built; names the place.
    pub fn asset(&mut self, asset: AssetBuilder, from: Provenance) -> Result<(), Problem> {
        let origin = Provenance {
            generator: self.generator.to_string(),
            ..from
        };
        let place = origin.clone();
        self.build(asset.provenance(origin))
            .map_err(|error| Problem::new(with_causes(&error)).origin(&place))
    }

    /// Adds a changed copy of an asset ([`Asset::edit`]): it keeps saying where it came from.
    ///
    /// # Errors
    /// When the asset cannot be built.
    pub fn amend(&mut self, asset: AssetBuilder) -> Result<(), Problem> {
        self.build(asset).map_err(Problem::from)
    }

    fn build(&mut self, asset: AssetBuilder) -> Result<(), asset::Error> {
        self.assets.push(asset.build()?);
        Ok(())
    }

    /// Notes a problem and lets the generator go on to find more.
    pub fn problem(&mut self, problem: impl Into<Problem>) {
        self.problems.push(problem);
    }

    /// What was made and what was found.
    pub fn finish(self) -> (Vec<Asset>, Problems) {
        (self.assets, self.problems)
    }
}

/// Makes assets from configuration. A synchronous pure function: no clock, no network, no environment, no hash order.
///
/// ```
/// use plugin_sdk::{Document, Drafts, Generator, GeneratorInfo, Input, Problems, document::Node};
/// use prodspec_model::{Asset, AssetId, Message};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize)]
/// struct Manifest { clusters: Vec<String> }
///
/// #[derive(Serialize, Deserialize)]
/// struct FrontendJob { cluster: String }
/// impl Message for FrontendJob { const TYPE: &'static str = "shakespeare.v1.FrontendJob"; }
///
/// struct ShakespeareModel;
///
/// impl Generator for ShakespeareModel {
///     fn info(&self) -> GeneratorInfo {
///         GeneratorInfo::per_document("shakespeare", "manifest.yaml").makes::<FrontendJob>()
///     }
///     fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
///         for document in input.documents() {
///             let manifest: Manifest = document.read()?;
///             for cluster in manifest.clusters {
///                 let id = AssetId::new(&format!("job/{cluster}"))?;
///                 out.asset(Asset::builder(id).payload(&FrontendJob { cluster })?, document.provenance())?;
///             }
///         }
///         Ok(())
///     }
/// }
///
/// let manifest = Node::from(serde_json::json!({"clusters": ["eu", "us"]}));
/// let manifest = Document::new("manifest.yaml", "manifest.yaml", 0, manifest);
/// let mut out = Drafts::of("shakespeare");
/// ShakespeareModel.generate(&Input::new(vec![&manifest], &[]), &mut out)?;
/// assert_eq!(out.finish().0[1].id_str(), "job/us");
/// # Ok::<(), Problems>(())
/// ```
pub trait Generator: Send + Sync + 'static {
    /// What it is called for, what it reads, what it makes.
    fn info(&self) -> GeneratorInfo;

    /// Makes the assets of one unit.
    ///
    /// # Errors
    /// Every problem found. Nothing is sealed then.
    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems>;
}
