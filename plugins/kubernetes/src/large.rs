//! Objects that are too large for an asset, such as many CustomResourceDefinitions: their largest fields are kept as
//! external content, and the asset refers to it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use plugin_sdk::{
    IncarnationReader,
    blobs::{Blobs, Error},
};
use prodspec_model::{Asset, AssetId, Digest, ExternalRef, asset::MAX_BYTES, canonical};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The fields that stay in the asset, because they identify its object.
const KEPT: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Number of contents that are kept of each asset: the one that is generated, and those of trials meanwhile.
const VERSIONS: usize = 16;

/// Room in an asset for its id and the names of its types.
const ROOM: usize = 1024;

/// The large fields of objects that are too large for an asset, in memory. [`ManifestAssets::large`] puts them here, and
/// the seal reads them from here and keeps a copy.
///
/// ```
/// use plugins_kubernetes::{LargeObjects, ManifestAssets};
/// use prodspec_gen::Pipeline;
/// use prodspec_model::PartitionId;
/// let large = LargeObjects::default();
/// let assets = ManifestAssets::of("cluster")
///     .kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")?
///     .large(&large);
/// let builder = Pipeline::builder(PartitionId::new("web")?).blobs(large);
/// # drop((assets, builder));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`ManifestAssets::large`]: crate::ManifestAssets::large
#[derive(Debug, Clone, Default)]
pub struct LargeObjects {
    contents: Arc<Mutex<Contents>>,
    others: Option<Arc<dyn Blobs>>,
}

#[derive(Debug, Default)]
struct Contents {
    by_digest: BTreeMap<Digest, Vec<u8>>,
    /// The digests of each address, the newest last.
    newest: BTreeMap<String, VecDeque<Digest>>,
}

impl LargeObjects {
    /// Reads content that is of no object from other blobs, because a pipeline has only one place for all.
    #[must_use]
    pub fn or(mut self, others: impl Blobs) -> Self {
        self.others = Some(Arc::new(others));
        self
    }

    /// Replaces the largest fields of an object by references until it fits in an asset. What identifies the object stays.
    pub(crate) fn shrink(&self, id: &AssetId, object: &mut Value) {
        let Value::Object(fields) = object else {
            return;
        };
        let length = |value: &Value| canonical::to_bytes(value).map_or(0, |json| json.len());
        let mut sizes: Vec<(usize, String)> = fields
            .iter()
            .map(|(name, value)| (length(value) + name.len(), name.clone()))
            .collect();
        let mut total: usize = sizes.iter().map(|(size, _)| size).sum();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let movable = sizes
            .into_iter()
            .filter(|(_, name)| !KEPT.contains(&&**name));
        for (size, name) in movable {
            if total + ROOM <= MAX_BYTES {
                return;
            }
            total -= size;
            self.put(id, fields, name);
        }
    }

    fn put(&self, id: &AssetId, fields: &mut Map<String, Value>, name: String) {
        let content = fields.get(&name).map(canonical::to_bytes);
        let Some(Ok(content)) = content else {
            return;
        };
        let reference = ExternalRef::new(format!("{id}#{name}"), Digest::of(&content));
        let Ok(value) = serde_json::to_value(&reference) else {
            return;
        };
        fields.insert(name, value);
        self.contents().keep(reference, content);
    }

    /// An object with the content of its references. `None`: one of them is not here.
    pub(crate) fn whole(&self, mut object: Value) -> Option<Value> {
        for (name, reference) in references(&object) {
            let contents = self.contents();
            let content = contents.by_digest.get(&reference.digest)?;
            object[name] = serde_json::from_slice(content).ok()?;
        }
        Some(object)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn keep(&mut self, ExternalRef { uri, digest }: ExternalRef, content: Vec<u8>) {
        let newest = self.newest.entry(uri).or_default();
        newest.retain(|known| *known != digest);
        newest.push_back(digest);
        let dropped = (newest.len() > VERSIONS)
            .then(|| newest.pop_front())
            .flatten();
        self.by_digest.insert(digest, content);
        let still = |digest: &Digest| self.newest.values().any(|kept| kept.contains(digest));
        if let Some(dropped) = dropped.filter(|dropped| !still(dropped)) {
            self.by_digest.remove(&dropped);
        }
    }
}

#[async_trait]
impl Blobs for LargeObjects {
    async fn fetch(&self, reference: &ExternalRef) -> Result<Vec<u8>, Error> {
        let content = self.contents().by_digest.get(&reference.digest).cloned();
        match (content, &self.others) {
            (Some(content), _) => Ok(content),
            (None, Some(others)) => others.fetch(reference).await,
            (None, None) => Err(Error::Missing),
        }
    }
}

/// The object of an asset that a [`ManifestAssets`](crate::ManifestAssets) made, as its manifest has it: with its large
/// fields, which `reader` reads where the asset refers to them.
///
/// # Errors
/// When content cannot be read.
pub async fn manifest(asset: &Asset, reader: &IncarnationReader) -> Result<Value, Error> {
    let broken = |error: serde_json::Error| Error::Unavailable(error.into());
    let mut object: Value = serde_json::from_str(asset.payload_json()).map_err(broken)?;
    for (name, reference) in references(&object) {
        let content = reader.external(&reference).await?;
        object[name] = serde_json::from_slice(&content).map_err(broken)?;
    }
    Ok(object)
}

/// The fields of an object that are references.
fn references(object: &Value) -> Vec<(String, ExternalRef)> {
    let fields = object.as_object().into_iter().flatten();
    let reference = |(name, value): (&String, &Value)| {
        let reference = ExternalRef::deserialize(value).ok()?;
        Some((name.clone(), reference))
    };
    fields.filter_map(reference).collect()
}
