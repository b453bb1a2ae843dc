//! Kubernetes manifests as a source of truth.

mod format;
mod manifests;
mod object;

pub use format::KubernetesYaml;
pub use manifests::Manifests;
pub use object::{Kind, Object};
