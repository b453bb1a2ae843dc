//! The peers in the comparison. A control plane needs none of them.

pub(crate) mod kube;
pub(crate) mod limit;
pub(crate) mod naive;
pub(crate) mod program;
