#![doc = include_str!("../README.md")]

mod assets;
mod custom;
mod format;
mod large;
mod manifests;
mod names;
mod object;
mod schema;

pub use assets::ManifestAssets;
pub use custom::CustomResources;
pub use format::KubernetesYaml;
pub use large::{LargeObjects, manifest};
pub use manifests::Manifests;
pub use object::{Kind, Object};

/// Compiles and runs the examples of the documents.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../docs/kubernetes-manifests.md")]
    struct KubernetesManifests;
}
