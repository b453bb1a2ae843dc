//! Texts for operators: the edit or the command that ends a dead end.

/// Ends a wait for an asset that is gone.
pub(super) const GONE: &str = "put it into intent again, remove the edge, or roll the consumer out to an incarnation without \
     the edge";

/// Ends a wait for an asset that has left intent, and runs on.
pub(super) const LEFT: &str =
    "put it into intent again, remove the edge, or repair it in production by hand";
