//! Kubernetes manifests as a source of truth.

mod assets;
mod custom;
mod format;
mod manifests;
mod object;
mod schema;

pub use assets::ManifestAssets;
pub use custom::CustomResources;
pub use format::KubernetesYaml;
pub use manifests::Manifests;
pub use object::{Kind, Object};
