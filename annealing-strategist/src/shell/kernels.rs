//! The kernels of all policy groups, or of all changes, and the error for one that does not exist.

use std::collections::BTreeMap;

use prodspec_model::AssetId;

use crate::{
    change::is_key,
    kernel::{Kernel, Refused},
};

/// The kernels of all groups, by policy asset, or of all changes, by key.
pub(super) type Kernels = BTreeMap<AssetId, Kernel>;

/// The error for a group or a change that does not exist.
pub(super) fn unknown(policy: &AssetId, kernels: &Kernels) -> Refused {
    if is_key(policy) {
        let why = format!("no change `{policy}` is live; begin it again to roll it out anew");
        return Refused(why);
    }
    let known: Vec<&str> = kernels.keys().map(AssetId::as_str).collect();
    let known = known.join(", ");
    Refused(format!("no policy group `{policy}`; there are: {known}"))
}
