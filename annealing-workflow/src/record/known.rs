//! Lists of which a program reads what it knows.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// Reads a list without the elements that only a newer program version knows.
///
/// # Errors
/// When it is no list.
pub(super) fn known<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let all = Vec::<serde_json::Value>::deserialize(from)?;
    Ok(all
        .into_iter()
        .filter_map(|one| serde_json::from_value(one).ok())
        .collect())
}
