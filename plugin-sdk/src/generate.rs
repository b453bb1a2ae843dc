//! Generators: pure functions from documents, and from assets of other generators, to assets.

use std::sync::Arc;

use prodspec_model::{Asset, AssetBuilder, Message, Provenance, SourceName, asset};

use crate::{
    document::Document,
    error::with_causes,
    problem::{Problem, Problems},
};

/// The part of the input that one call of a generator handles.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// All of the generator's input, in one call.
    Whole,
    /// One document of this source per call.
    Document(SourceName),
    /// One asset of this type per call. The text is the type name.
    Asset(Arc<str>),
}

/// A generator's declaration: its name, the input of each call, and the asset types that it makes.
///
/// Generators form a graph: a generator that makes a type runs before the generators that are called for that type or
/// consume it. Generators that amend the same type run in the order in which they were added.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct GeneratorInfo {
    /// Name of the generator, unique in the pipeline. Provenance and problems contain it.
    pub name: Arc<str>,
    /// The part of the input that one call handles.
    pub unit: Unit,
    /// The sources whose documents every call sees, all of them.
    pub reads: Vec<SourceName>,
    /// The asset types whose assets every call sees, all of them.
    pub consumes: Vec<Arc<str>>,
    /// The asset types that the generator may make.
    pub makes: Vec<Arc<str>>,
}

impl GeneratorInfo {
    /// Declares a generator that is called once, with everything that it reads and consumes.
    pub fn whole(name: &str) -> Self {
        Self::new(name, Unit::Whole)
    }

    /// Declares a generator that is called once for each document of `source`. An edit of one document costs one call.
    pub fn per_document(name: &str, source: &str) -> Self {
        Self::new(name, Unit::Document(SourceName(source.into())))
    }

    /// Declares a generator that is called once for each asset of type `T` that other generators made. It may amend
    /// that asset, for example to introduce a new field step by step, or make other assets.
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

    /// Adds a source: every call sees all of its documents. A change of any of them repeats every call.
    pub fn reads(mut self, source: &str) -> Self {
        self.reads.push(SourceName(source.into()));
        self
    }

    /// Adds an asset type: every call sees all assets of type `T`. A change of any of them repeats every call.
    pub fn consumes<T: Message>(mut self) -> Self {
        self.consumes.push(T::TYPE.into());
        self
    }

    /// Declares that the generator may make assets of type `T`.
    pub fn makes<T: Message>(mut self) -> Self {
        self.makes.push(T::TYPE.into());
        self
    }
}

/// The input of one call of a generator. Nothing else may influence the result of the call.
#[derive(Debug, Clone, Default)]
pub struct Input<'a> {
    documents: Vec<&'a Document>,
    assets: &'a [Asset],
    asset: Option<&'a Asset>,
}

impl<'a> Input<'a> {
    /// Makes an input from documents and from `assets` of other generators.
    pub fn new(documents: Vec<&'a Document>, assets: &'a [Asset]) -> Self {
        Self {
            documents,
            assets,
            asset: None,
        }
    }

    /// The same input, for a call that handles `asset`.
    #[must_use]
    pub fn about(mut self, asset: &'a Asset) -> Self {
        self.asset = Some(asset);
        self
    }

    /// The documents of this call, sorted by source, path and index. In a call per document: that document, and the
    /// documents of the sources that the generator reads.
    pub fn documents(&self) -> impl Iterator<Item = &'a Document> + '_ {
        self.documents.iter().copied()
    }

    /// The documents of this call that belong to `source`.
    pub fn documents_of<'s>(&'s self, source: &'s str) -> impl Iterator<Item = &'a Document> + 's {
        self.documents()
            .filter(move |document| &*document.key().source.0 == source)
    }

    /// The assets of the types that the generator consumes, sorted by id.
    pub fn assets(&self) -> impl Iterator<Item = &'a Asset> + '_ {
        self.assets.iter()
    }

    /// The asset that the call handles. `None`: the generator is not called per asset.
    pub fn asset(&self) -> Option<&'a Asset> {
        self.asset
    }
}

/// The output of one call of a generator: assets and problems.
#[derive(Debug, Default)]
pub struct Drafts {
    generator: Arc<str>,
    assets: Vec<Asset>,
    problems: Problems,
}

impl Drafts {
    /// An empty output for the generator named `generator`.
    pub fn of(generator: &str) -> Self {
        Self {
            generator: generator.into(),
            ..Self::default()
        }
    }

    /// Builds an asset and adds it, with the place that it comes from.
    ///
    /// # Errors
    /// If the asset cannot be built; the problem names the place `from`.
    pub fn asset(&mut self, asset: AssetBuilder, from: Provenance) -> Result<(), Problem> {
        let origin = Provenance {
            generator: self.generator.to_string(),
            ..from
        };
        let place = origin.clone();
        self.build(asset.provenance(origin))
            .map_err(|error| Problem::new(with_causes(&error)).origin(&place))
    }

    /// Builds a changed copy of an asset ([`Asset::edit`]) and adds it. The copy keeps its provenance, and names this
    /// generator as one that amended it.
    ///
    /// # Errors
    /// If the asset cannot be built.
    pub fn amend(&mut self, asset: AssetBuilder) -> Result<(), Problem> {
        let asset = asset.amended_by(&self.generator);
        self.build(asset).map_err(Problem::from)
    }

    fn build(&mut self, asset: AssetBuilder) -> Result<(), asset::Error> {
        self.assets.push(asset.build()?);
        Ok(())
    }

    /// Adds a problem. The generator can go on and find more problems; a problem that is an error prevents a seal.
    pub fn problem(&mut self, problem: impl Into<Problem>) {
        self.problems.push(problem);
    }

    /// Returns the assets and problems that were added.
    pub fn finish(self) -> (Vec<Asset>, Problems) {
        (self.assets, self.problems)
    }
}

/// Makes assets from configuration. A generator is a synchronous pure function: its result must not depend on clock,
/// network, environment or hash order.
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
    /// The generator's name, the input of each call, and the asset types that it makes.
    fn info(&self) -> GeneratorInfo;

    /// Makes the assets for one call.
    ///
    /// # Errors
    /// Every problem found. No incarnation is sealed then.
    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems>;
}
