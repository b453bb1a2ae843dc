//! Dead ends: whether a push ends a wait, and, as text for operators, the edit or the command that does if none is to
//! come.

use prodspec_model::AssetId;

use super::Seen;

/// Ends a wait for a provider that is gone.
const GONE: &str = "put it into intent again, remove the edge, or roll the consumer out to an incarnation without \
     the edge";

/// Ends a wait for a provider that has left intent, and runs on.
const LEFT: &str = "put it into intent again, remove the edge, or repair it in production by hand";

/// Ends a wait for a consumer that has left intent, and runs on.
const LEFT_RUNNING: &str = "put it into intent again, change it in production by hand, or acknowledge the orphan once \
     nothing of it is needed";

/// Ends a wait for an asset that no rollout has reached yet.
const NOT_YET: &str =
    "the rollout of its policy group has not reached it: look at that rollout, or pin the asset";

/// Ends a wait for an asset whose state in production is unknown, because no plugin enforces its type.
pub(super) const MODELLED_ONLY: &str = "register a plugin for its type, or remove the edge";

/// The way out of a wait for `provider`, if no push of it is to come. `None`: it has an intent.
pub(super) fn of_provider(seen: &Seen, provider: &AssetId) -> Option<&'static str> {
    way_out(seen, provider, LEFT)
}

/// The way out of a wait for `consumer`, if no push of it is to come. `None`: it has an intent.
pub(super) fn of_consumer(seen: &Seen, consumer: &AssetId) -> Option<&'static str> {
    way_out(seen, consumer, LEFT_RUNNING)
}

fn way_out(seen: &Seen, asset: &AssetId, left: &'static str) -> Option<&'static str> {
    match seen.cause(asset) {
        Some(_) => None,
        None if seen.is_gone(asset) => Some(GONE),
        None if seen.is_not_yet(asset) => Some(NOT_YET),
        None => Some(left),
    }
}
