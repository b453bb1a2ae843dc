//! The input of one call of a generator.

use std::fmt;

use prodspec_model::{Asset, AssetId};

use super::Entry;
use crate::document::Document;

/// The input of one call of a generator. Nothing else may influence the result of the call.
#[derive(Clone, Default)]
pub struct Input<'a> {
    documents: Vec<&'a Document>,
    assets: &'a [Asset],
    asset: Option<&'a Asset>,
    entry: Option<Entry<'a>>,
    upstream: Option<&'a dyn Upstream>,
}

/// Finds the assets that generators before this one made.
pub trait Upstream {
    /// The asset with this id. `None`: no generator before this one made it.
    fn find(&self, id: &AssetId) -> Option<&Asset>;
}

impl<'a> Input<'a> {
    /// Makes an input from documents and from `assets` of other generators.
    pub fn new(documents: Vec<&'a Document>, assets: &'a [Asset]) -> Self {
        Self {
            documents,
            assets,
            ..Self::default()
        }
    }

    /// The same input, for a call that handles `entry`.
    #[must_use]
    pub fn of(mut self, entry: Entry<'a>) -> Self {
        self.entry = Some(entry);
        self
    }

    /// The same input, with look-ups in `upstream`. Without it, they are in the assets of the input.
    #[must_use]
    pub fn upstream(mut self, upstream: &'a dyn Upstream) -> Self {
        self.upstream = Some(upstream);
        self
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

    /// The entry that the call handles. `None`: the generator is not called per entry.
    pub fn entry(&self) -> Option<&Entry<'a>> {
        self.entry.as_ref()
    }

    /// Looks up one asset of a type that the generator [`finds`](super::GeneratorInfo::finds). The look-up is remembered,
    /// also if there is no such asset: the call is repeated when its result changes.
    pub fn find(&self, id: &AssetId) -> Option<&'a Asset> {
        match self.upstream {
            Some(upstream) => upstream.find(id),
            None => {
                let mut assets = self.assets.iter();
                assets.find(|asset| asset.id_str() == id.as_str())
            }
        }
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("documents", &self.documents)
            .field("assets", &self.assets)
            .field("asset", &self.asset)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}
