//! The kernels of all policy groups, and the error for a group that does not exist.

use std::collections::BTreeMap;

use prodspec_model::AssetId;

use crate::kernel::{Kernel, Refused};

/// The kernels of all groups, by policy asset.
pub(super) type Kernels = BTreeMap<AssetId, Kernel>;

/// The error for a group that does not exist.
pub(super) fn unknown(policy: &AssetId, kernels: &Kernels) -> Refused {
    let known: Vec<&str> = kernels.keys().map(AssetId::as_str).collect();
    let known = known.join(", ");
    Refused(format!("no policy group `{policy}`; there are: {known}"))
}
