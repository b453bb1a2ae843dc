//! The kernels of all policy groups, or of all changes, and the error for one that does not exist.

use std::collections::BTreeMap;

use prodspec_model::AssetId;

use crate::{
    change::is_key,
    kernel::{Kernel, Refused},
};

/// The kernels of all groups, by policy asset, or of all changes, by key.
pub(super) type Kernels = BTreeMap<AssetId, Kernel>;

/// The error for an exception of a stop that names no rollouts.
pub(super) fn without_rollouts(key: &AssetId, groups: &Kernels, changes: &Kernels) -> Refused {
    let by_pins = groups.iter().filter(|(_, kernel)| !kernel.is_by_edits());
    let names = by_pins.chain(changes).map(|(key, _)| key.as_str());
    let names: Vec<&str> = names.collect();
    Refused(format!(
        "`{key}` has no rollouts to except: name policy groups that are updated by pins, or live changes by their keys; there are: {}",
        names.join(", ")
    ))
}

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
