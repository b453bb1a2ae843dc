//! What a generator declares: its name, its inputs and what it makes.

use std::sync::Arc;

use prodspec_model::{Asset, Message, SourceName, TypeName};

/// The part of the input that one call of a generator handles.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// All of the generator's input, in one call.
    Whole,
    /// One document of this source per call.
    Document(SourceName),
    /// One entry per call, of the map or list at a field path in each document of this source.
    Entry(SourceName, Arc<str>),
    /// One asset of this type per call. The text is the type name.
    Asset(Arc<str>),
    /// One asset of any type per call.
    AnyAsset,
}

/// A generator's declaration: its name, the input of each call, and the asset types that it makes.
///
/// Generators form a graph: a generator that makes a type runs before the generators that are called for that type or
/// consume it. Generators that amend the same type run in the order in which they were added. Generators that are called
/// for assets of any type run last.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct GeneratorInfo {
    /// Name of the generator, unique in the pipeline. Provenance and problems contain it.
    pub name: Arc<str>,
    /// The part of the input that one call handles.
    pub unit: Unit,
    /// The sources whose documents every call sees, all of them.
    pub reads: Vec<SourceName>,
    /// The fields of the document that each call for one of its entries sees too.
    pub shares: Vec<Arc<str>>,
    /// The asset types whose assets every call sees, all of them.
    pub consumes: Vec<Arc<str>>,
    /// The asset types whose assets a call can look up by id.
    pub finds: Vec<Arc<str>>,
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

    /// Declares a generator that is called once for each entry of the map or list at a field path, such as `clusters`, in
    /// each document of `source`. An edit of one entry costs one call. A document without this field has no entries.
    ///
    /// Calls do not see the rest of the document, apart from the fields that [`shares`](Self::shares) adds.
    pub fn per_entry(name: &str, source: &str, path: &str) -> Self {
        let unit = Unit::Entry(SourceName(source.into()), path.into());
        Self::new(name, unit)
    }

    /// Declares a generator that is called once for each asset of type `T` that other generators made. It may amend
    /// that asset, for example to introduce a new field step by step, or make other assets.
    pub fn per_asset<T: Message>(name: &str) -> Self {
        Self::new(name, Unit::Asset(T::TYPE.into()))
    }

    /// Declares a generator that is called once for each asset, whatever its type. It may amend that asset, and cannot
    /// make others. It runs after all generators of other kinds, which therefore do not see what it adds; several of
    /// them run in the order in which they were added.
    pub fn per_any_asset(name: &str) -> Self {
        Self::new(name, Unit::AnyAsset)
    }

    fn new(name: &str, unit: Unit) -> Self {
        Self {
            name: name.into(),
            unit,
            reads: Vec::new(),
            shares: Vec::new(),
            consumes: Vec::new(),
            finds: Vec::new(),
            makes: Vec::new(),
        }
    }

    /// Adds a source: every call sees all of its documents. A change of any of them repeats every call.
    pub fn reads(mut self, source: &str) -> Self {
        self.reads.push(SourceName(source.into()));
        self
    }

    /// Adds a field, such as `defaults`: every call for an entry sees this field of the entry's document
    /// ([`Entry::shared`](super::Entry::shared)). A change of it repeats the calls for all entries of the document.
    pub fn shares(mut self, path: &str) -> Self {
        self.shares.push(path.into());
        self
    }

    /// Adds an asset type: calls can look up assets of type `T` by id ([`Input::find`](super::Input::find)). A call is
    /// repeated only if one of the assets that it looked up has changed, come or gone.
    pub fn finds<T: Message>(mut self) -> Self {
        self.finds.push(T::TYPE.into());
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

    /// As [`makes`](Self::makes), for a type that is known by name only.
    pub fn makes_named(mut self, name: &TypeName) -> Self {
        self.makes.push(name.as_str().into());
        self
    }

    /// The sources whose documents the generator gets.
    pub fn sources(&self) -> impl Iterator<Item = &SourceName> {
        let unit = match &self.unit {
            Unit::Document(source) | Unit::Entry(source, _) => Some(source),
            _ => None,
        };
        self.reads.iter().chain(unit)
    }

    /// Whether the generator is called for this asset.
    pub fn is_called_for(&self, asset: &Asset) -> bool {
        match &self.unit {
            Unit::Asset(type_name) => *asset.type_str() == **type_name,
            Unit::AnyAsset => true,
            _ => false,
        }
    }

    /// The type that a per-asset generator is called for. `None`: the generator is of another kind, or called for every
    /// type.
    pub fn amends(&self) -> Option<&Arc<str>> {
        match &self.unit {
            Unit::Asset(type_name) => Some(type_name),
            _ => None,
        }
    }

    /// The types of assets that the generator gets from others, without the type that it is called for.
    pub fn uses(&self) -> impl Iterator<Item = &Arc<str>> {
        self.consumes.iter().chain(&self.finds)
    }
}
