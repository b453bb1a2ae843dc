//! Those we compare with. None of them is needed to run a control plane.

pub(crate) mod kube;
pub(crate) mod limit;
pub(crate) mod naive;
