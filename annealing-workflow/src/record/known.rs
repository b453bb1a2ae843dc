//! Lists of which a program reads what it knows.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The elements that this program version knows, each with its place in the list.
pub(crate) fn known<T: DeserializeOwned>(all: Vec<Value>) -> impl Iterator<Item = (usize, T)> {
    let known = |(n, one)| Some((n, serde_json::from_value(one).ok()?));
    all.into_iter().enumerate().filter_map(known)
}
