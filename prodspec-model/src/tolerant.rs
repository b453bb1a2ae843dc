//! Reads values that a newer program version may have written.
//!
//! Readers of the framework's own data ignore fields that they do not know. For a value of an enum that they do not
//! know, each field has a safe choice.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Reads a `T`; a value that cannot be read as one is `safe`. For `deserialize_with` on fields of records.
///
/// ```
/// use prodspec_model::tolerant;
/// use serde::{Deserialize, Deserializer};
///
/// #[derive(Debug, PartialEq, Deserialize)]
/// #[serde(rename_all = "snake_case")]
/// enum Action { Flag, Stop }
///
/// #[derive(Deserialize)]
/// struct Stall {
///     #[serde(deserialize_with = "or_stop")]
///     then: Action,
/// }
/// fn or_stop<'de, D: Deserializer<'de>>(from: D) -> Result<Action, D::Error> {
///     tolerant::known_or(from, |_| Action::Stop)
/// }
/// let newer: Stall = serde_json::from_str(r#"{"then":"shrink"}"#)?;
/// assert_eq!(newer.then, Action::Stop);
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// When the input is no value at all, such as text that is cut off.
pub fn known_or<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    from: D,
    safe: impl FnOnce(&Value) -> T,
) -> Result<T, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(T::deserialize(&value).unwrap_or_else(|_| safe(&value)))
}

/// Returns `value` as newer program versions could have written it: once for each object in it, with one more field in
/// that object. For tests of readers. Each copy comes with the JSON pointer of its object; `""` is `value` itself.
///
/// `closed` holds pointers of objects that get no field: maps with keys that are data, and values of enums, whose only
/// key is the name of the variant. A `*` in a pointer stands for any index or key.
///
/// ```
/// use prodspec_model::tolerant::newer;
/// let job = serde_json::json!({ "size": 1, "state": { "stopped": { "why": "x" } } });
/// let newer: Vec<_> = newer(&job, &["/state"]).collect();
/// assert_eq!(newer.len(), 2);
/// assert_eq!(newer[1].0, "/state/stopped");
/// assert!(newer[1].1["state"]["stopped"]["from_a_newer_version"].is_object());
/// ```
pub fn newer(value: &Value, closed: &[&str]) -> impl Iterator<Item = (String, Value)> {
    let mut open = Vec::new();
    objects("", value, &mut open);
    let fits = |pattern: &str, pointer: &str| {
        let (pattern, pointer) = (pattern.split('/'), pointer.split('/'));
        pattern.clone().count() == pointer.clone().count()
            && pattern
                .zip(pointer)
                .all(|(one, two)| one == "*" || one == two)
    };
    open.retain(|pointer| !closed.iter().any(|pattern| fits(pattern, pointer)));
    let value = value.clone();
    open.into_iter().map(move |pointer| {
        let mut newer = value.clone();
        if let Some(object) = newer.pointer_mut(&pointer) {
            object["from_a_newer_version"] = serde_json::json!({ "at": 1 });
        }
        (pointer, newer)
    })
}

/// Returns `value` as newer program versions could have written it: once for each value in it that may be of an enum, with
/// a word in its place that this version does not know. For tests of readers. Each copy comes with the JSON pointer of
/// that value.
///
/// A text of small letters and `_` may be a variant without data; whatever else it is, a text in its place is one too.
/// `enums` holds the pointers of variants with data, with `*` for any index or key.
///
/// ```
/// use prodspec_model::tolerant::newer_words;
/// let job = serde_json::json!({ "size": 1, "class": "drift", "state": { "stopped": { "why": "it broke" } } });
/// let newer: Vec<_> = newer_words(&job, &["/state"]).collect();
/// assert_eq!(newer.len(), 2);
/// assert_eq!(newer[0].1["class"], "from_a_newer_version");
/// assert!(newer[1].1["state"]["from_a_newer_version"].is_object());
/// ```
pub fn newer_words(value: &Value, enums: &[&str]) -> impl Iterator<Item = (String, Value)> {
    let mut words = Vec::new();
    places("", value, enums, &mut words);
    let value = value.clone();
    words.into_iter().map(move |(pointer, word)| {
        let mut newer = value.clone();
        if let Some(place) = newer.pointer_mut(&pointer) {
            *place = word;
        }
        (pointer, newer)
    })
}

/// Adds the places in `value` that may have values of enums to `found`, each with a word for it.
fn places(pointer: &str, value: &Value, enums: &[&str], found: &mut Vec<(String, Value)>) {
    let fits = |pattern: &&str| {
        let (pattern, pointer) = (pattern.split('/'), pointer.split('/'));
        pattern.clone().count() == pointer.clone().count()
            && pattern
                .zip(pointer)
                .all(|(one, two)| one == "*" || one == two)
    };
    if enums.iter().any(fits) {
        let word = serde_json::json!({ "from_a_newer_version": { "at": 1 } });
        found.push((pointer.to_owned(), word));
        return;
    }
    match value {
        Value::String(text) if is_word(text) => {
            found.push((pointer.to_owned(), "from_a_newer_version".into()));
        }
        Value::Object(fields) => {
            for (name, inner) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                places(&format!("{pointer}/{name}"), inner, enums, found);
            }
        }
        Value::Array(items) => {
            for (nth, inner) in items.iter().enumerate() {
                places(&format!("{pointer}/{nth}"), inner, enums, found);
            }
        }
        _ => {}
    }
}

fn is_word(text: &str) -> bool {
    let letter = |it: char| it.is_ascii_lowercase() || it == '_';
    !text.is_empty() && text.chars().all(letter)
}

/// Adds the JSON pointers of all objects in `value` to `found`.
fn objects(pointer: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(pointer.to_owned());
            for (name, inner) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                objects(&format!("{pointer}/{name}"), inner, found);
            }
        }
        Value::Array(items) => {
            for (nth, inner) in items.iter().enumerate() {
                objects(&format!("{pointer}/{nth}"), inner, found);
            }
        }
        _ => {}
    }
}
