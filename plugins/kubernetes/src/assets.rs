//! The generator that makes an asset of every object.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Problems};
use prodspec_model::{Asset, AssetId, TypeName, asset, id::InvalidId};
use serde_json::Value;

use crate::{
    large::LargeObjects,
    names,
    object::{Kind, Object},
};

/// Makes one asset of each object of a source of manifests. The payload is the object as it is.
///
/// The id is a prefix, `k8s` by default, and the [name](Object::name) of the object: `k8s/Deployment.apps/prod/web`. The
/// type is the kind in its version: `kubernetes.apps.v1.Deployment` ([`Kind::type_name`]). Bytes of names that asset ids do
/// not have are escaped ([`id`](Self::id)). A pipeline knows its types
/// before it reads manifests, so the kinds are listed. An object of another kind is refused, and the problem names the line
/// to add.
///
/// ```
/// use plugin_sdk::{Document, Drafts, Generator, Input, document::Node};
/// use plugins_kubernetes::ManifestAssets;
///
/// let assets = ManifestAssets::of("cluster").kind("apps/v1", "Deployment")?;
/// let web = serde_json::json!({
///     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "prod"},
/// });
/// let web = Document::new("cluster", "web.yaml", 0, Node::from(web));
/// let mut out = Drafts::of("kubernetes");
/// assets.generate(&Input::new(vec![&web], &[]), &mut out)?;
/// let made = out.finish().0;
/// assert_eq!(made[0].id_str(), "k8s/Deployment.apps/prod/web");
/// assert_eq!(made[0].type_str(), "kubernetes.apps.v1.Deployment");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ManifestAssets {
    source: Arc<str>,
    name: Arc<str>,
    prefix: Arc<str>,
    kinds: BTreeMap<Kind, TypeName>,
    left_out: BTreeSet<Box<str>>,
    pub(crate) large: Option<LargeObjects>,
}

impl ManifestAssets {
    /// A generator for the source of this name. It is named `kubernetes/` and the name of the source.
    pub fn of(source: &str) -> Self {
        Self {
            source: source.into(),
            name: format!("kubernetes/{source}").into(),
            prefix: "k8s".into(),
            kinds: BTreeMap::new(),
            left_out: BTreeSet::new(),
            large: None,
        }
    }

    /// Sets the first segments of all ids, `k8s` by default. A partition with several clusters has one for each.
    pub fn under(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Adds a kind, as manifests write it: `.kind("apps/v1", "Deployment")`.
    ///
    /// # Errors
    /// When the version or the kind is not valid in Kubernetes.
    pub fn kind(mut self, api_version: &str, kind: &str) -> Result<Self, InvalidId> {
        let kind = Kind::new(api_version, kind);
        let type_name = kind.type_name()?;
        self.kinds.insert(kind, type_name);
        Ok(self)
    }

    /// Makes no asset of the object of this [name](Object::name), such as
    /// `CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com`: of one that is too large for an asset, or that
    /// another system owns.
    pub fn without(mut self, name: &str) -> Self {
        self.left_out.insert(name.into());
        self
    }

    /// Keeps the largest fields of objects that are too large for an asset in `large`, which the pipeline takes as its blobs,
    /// too. The asset has a reference in their place: `spec` of a large CustomResourceDefinition is
    /// `{"$external": ..., "digest": ...}`. [`manifest`](crate::manifest) reads the whole object.
    pub fn large(mut self, large: &LargeObjects) -> Self {
        self.large = Some(large.clone());
        self
    }

    /// The first segments of all ids.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The declarations of all kinds as asset types, for a pipeline.
    pub fn types(&self) -> Vec<AssetType<Value>> {
        self.kinds.values().map(AssetType::named).collect()
    }

    /// The id of the asset of an object. Names that no asset id has are mapped, each to an id of its own: other bytes than
    /// `A-Z a-z 0-9 . : -` are `_` and two digits (`alice@example.com` is `alice_40example.com`), a name that begins with
    /// none of `A-Z a-z 0-9` has `X_` in front of them (`-admin` is `X__2Dadmin`), and an id of more than 253 bytes is cut
    /// and ends with `_-` and a digest.
    ///
    /// ```
    /// use plugins_kubernetes::{Kind, ManifestAssets, Object};
    /// let role = Object {
    ///     kind: Kind::new("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ///     namespace: None,
    ///     name: "read pods".into(),
    /// };
    /// let assets = ManifestAssets::of("cluster");
    /// let id = assets.id(&role)?;
    /// assert_eq!(id.as_str(), "k8s/ClusterRole.rbac.authorization.k8s.io/read_20pods");
    /// assert_eq!(assets.object_name(&id), Some(role.name()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the [prefix](Self::under) is not valid in an asset id.
    pub fn id(&self, object: &Object) -> Result<AssetId, InvalidId> {
        let name = object.name();
        let segments: Vec<String> = name.split('/').map(names::segment).collect();
        let id = format!("{}/{}", self.prefix, segments.join("/"));
        AssetId::new(&names::shortened(id))
    }

    /// The [name](Object::name) of the object whose asset has this id. `None`: the asset is none of these, or its id is
    /// cut; then the payload has the name.
    pub fn object_name(&self, id: &AssetId) -> Option<String> {
        let name = id.as_str().strip_prefix(&*self.prefix)?.strip_prefix('/')?;
        let names = name.split('/').filter(|_| !names::is_cut(name));
        let names: Vec<String> = names.map(names::name).collect::<Option<_>>()?;
        Some(names.join("/")).filter(|name| !name.is_empty())
    }
}

impl Generator for ManifestAssets {
    fn info(&self) -> GeneratorInfo {
        let info = GeneratorInfo::per_document(&self.name, &self.source);
        self.kinds.values().fold(info, GeneratorInfo::makes_named)
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents_of(&self.source) {
            let object = Object::of(document)?;
            if document.name() != object.name() {
                // A document that has its name from `KubernetesYaml` was checked there, unless it is rendered.
                object.check_rendered(document)?;
            }
            if self.left_out.contains(&*object.name()) {
                continue;
            }
            let Some(type_name) = self.kinds.get(&object.kind) else {
                let (version, kind) = (object.kind.api_version(), &object.kind.kind);
                let message = format!(
                    "the kind {} is not listed; add `.kind(\"{version}\", \"{kind}\")` to ManifestAssets, or remove the object",
                    object.kind
                );
                out.problem(document.problem_at("kind", message));
                continue;
            };
            let id = self.id(&object);
            let id = id.map_err(|error| document.problem_at("metadata.name", error))?;
            let mut payload: Value = document.read()?;
            if let Some(large) = &self.large {
                large.shrink(&id, &mut payload);
            }
            let asset = Asset::builder(id.clone()).payload_value(type_name.clone(), &payload)?;
            if let Err(problem) = out.asset(asset, document.provenance()) {
                let asset = Asset::builder(id).payload_value(type_name.clone(), &payload)?;
                out.problem(match asset.build() {
                    Err(asset::Error::TooLarge { bytes, .. }) => {
                        document.problem_at("kind", too_large(&object, bytes))
                    }
                    _ => problem,
                });
            }
        }
        Ok(())
    }
}

/// Why an object of `bytes` is no asset, and what to do about it.
fn too_large(object: &Object, bytes: usize) -> String {
    let (most, name) = (asset::MAX_BYTES, object.name());
    format!(
        "the object makes an asset of {bytes} bytes, {most} are allowed; keep its large fields outside with \
         `.large(&LargeObjects::default())`, or leave it out with `.without(\"{name}\")` and apply it by other means"
    )
}

#[cfg(test)]
mod tests {
    use plugin_sdk::{Document, document::Node};

    use super::*;

    fn problems(assets: &ManifestAssets, bytes: usize) -> (usize, Vec<String>) {
        let map = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "prod"},
            "data": {"x": "x".repeat(bytes)},
        });
        let map = Document::new("cluster", "web.yaml", 0, Node::from(map));
        let mut out = Drafts::of("kubernetes");
        let made = assets.generate(&Input::new(vec![&map], &[]), &mut out);
        made.unwrap();
        let (made, problems) = out.finish();
        let problems = problems.iter().map(ToString::to_string).collect();
        (made.len(), problems)
    }

    #[test]
    fn r43_large_fields_are_kept_outside_and_read_back() {
        let large = LargeObjects::default();
        let assets = ManifestAssets::of("cluster");
        let assets = assets.kind("v1", "ConfigMap").unwrap().large(&large);
        let map = |text: &str| {
            let map = serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "labels": {"a": "b"}},
                "data": {"x": text.repeat(2 * asset::MAX_BYTES)}, "immutable": true,
            });
            let document = Document::new("cluster", "web.yaml", 0, Node::from(map.clone()));
            let mut out = Drafts::of("kubernetes");
            let input = Input::new(vec![&document], &[]);
            assets.generate(&input, &mut out).unwrap();
            let (mut made, problems) = out.finish();
            assert!(problems.is_empty(), "{problems}");
            (map, made.remove(0))
        };
        let (object, made) = map("a");
        assert_eq!(made.externals().len(), 1);
        let payload: Value = serde_json::from_str(made.payload_json()).unwrap();
        assert_eq!(payload["metadata"], object["metadata"]);
        assert_eq!(payload["immutable"], true);
        for text in ["b", "c", "a", "d"] {
            map(text);
        }
        let id = made.id().clone();
        let snapshot = plugin_sdk::testing::incarnation(1, [made.clone()]);
        let reader = plugin_sdk::IncarnationReader::new(snapshot).with_blobs(Arc::new(large));
        let read = futures::executor::block_on(crate::manifest(&reader.get(&id).unwrap(), &reader));
        assert_eq!(read.unwrap(), object);
    }

    #[test]
    fn object_that_is_too_large_is_named_with_the_way_out() {
        let assets = ManifestAssets::of("cluster")
            .kind("v1", "ConfigMap")
            .unwrap();
        let (made, said) = problems(&assets, asset::MAX_BYTES);
        assert_eq!(made, 0);
        let expected = "leave it out with `.without(\"ConfigMap/prod/web\")`";
        assert!(said.len() == 1 && said[0].contains(expected), "{said:?}");
        assert_eq!(problems(&assets, 10), (1, vec![]));
        let without = assets.without("ConfigMap/prod/web");
        assert_eq!(problems(&without, asset::MAX_BYTES), (0, vec![]));
    }
}
