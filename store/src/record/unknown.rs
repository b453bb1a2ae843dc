//! Fields of a record that this program version does not know: a newer version added them. Readers ignore them, and a
//! record that is rewritten keeps them.
//!
//! A field stays with the object that has it. At the top of a record the object is recognised by
//! [`Record::SAME`]. Inside, it is recognised by its content: an object, or an element of a list, in which this version
//! changed a field is a new one, because the field that this version does not know described the old one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prodspec_model::PartitionId;
use serde_json::{Map, Value};

use super::{Record, Stored, delete, encode, key};
use crate::{Error, Key, Write, limit};

/// The fields of one stored record that this program version does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// The record as it is stored.
    stored: Value,
    /// The part of it that this version knows.
    known: Value,
}

impl Unknown {
    /// The fields of `stored` that are not in `value`, which was read from it. `None`: every field is known.
    pub(super) fn of<R: Record>(stored: &[u8], value: &R) -> Option<Box<Self>> {
        let again = serde_json::to_vec(value).ok()?;
        if again == stored {
            return None;
        }
        let stored: Value = serde_json::from_slice(stored).ok()?;
        let known = serde_json::from_slice(&again).ok()?;
        has_more(&stored, &known).then(|| Box::new(Self { stored, known }))
    }

    /// The JSON pointer of the first value that this version reads as another one, because it does not know it, with that
    /// value. `None`: only fields are unknown.
    pub fn word(&self) -> Option<(String, &Value)> {
        word("", &self.stored, &self.known)
    }

    /// Adds the unknown fields to `new`, the changed record in JSON. Returns what is unknown in the result.
    fn keep<R: Record>(&self, new: Value) -> (Value, Option<Self>) {
        let merged = merged::<R>(&self.stored, &self.known, new.clone());
        let left = (merged != new).then(|| Self {
            stored: merged.clone(),
            known: new,
        });
        (merged, left)
    }
}

/// Whether `stored` has an object with a field that the same object in `known` has not.
fn has_more(stored: &Value, known: &Value) -> bool {
    match (stored, known) {
        (Value::Object(stored), Value::Object(known)) => stored.iter().any(|(name, value)| {
            let same = known.get(name);
            same.is_none_or(|same| has_more(value, same))
        }),
        (Value::Array(stored), Value::Array(known)) => {
            stored.len() == known.len() && stored.iter().zip(known).any(|(a, b)| has_more(a, b))
        }
        (stored, known) => stored != known,
    }
}

fn word<'a>(pointer: &str, stored: &'a Value, known: &Value) -> Option<(String, &'a Value)> {
    match (stored, known) {
        (Value::Object(fields), Value::Object(known)) => {
            // An object none of whose fields is known is a variant that is not.
            if !fields.is_empty() && !fields.keys().any(|name| known.contains_key(name)) {
                return Some((pointer.to_owned(), stored));
            }
            let mut both = fields
                .iter()
                .filter_map(|(name, value)| Some((name, value, known.get(name)?)));
            both.find_map(|(name, value, known)| word(&format!("{pointer}/{name}"), value, known))
        }
        (Value::Array(items), Value::Array(known)) if items.len() == known.len() => {
            let mut both = items.iter().zip(known).enumerate();
            both.find_map(|(nth, (value, known))| word(&format!("{pointer}/{nth}"), value, known))
        }
        (stored, known) => (stored != known).then(|| (pointer.to_owned(), stored)),
    }
}

/// The record `new` with the fields of `stored` that were not in `known`.
fn merged<R: Record>(stored: &Value, known: &Value, new: Value) -> Value {
    match (stored, known, new) {
        (Value::Object(stored), Value::Object(known), Value::Object(mut new))
            if R::SAME
                .iter()
                .all(|name| known.get(*name) == new.get(*name)) =>
        {
            for (name, value) in stored {
                if !known.contains_key(name) && !new.contains_key(name) {
                    new.insert(name.clone(), value.clone());
                }
            }
            Value::Object(fields(stored, known, new))
        }
        (stored, known, new) => part(stored, known, new),
    }
}

/// The part `new` of a record, with what `stored` has in parts of it that have not changed since `known`.
fn part(stored: &Value, known: &Value, new: Value) -> Value {
    if *known == new {
        return stored.clone();
    }
    match (stored, known, new) {
        (Value::Object(stored), Value::Object(known), Value::Object(new)) => {
            Value::Object(fields(stored, known, new))
        }
        (Value::Array(stored), Value::Array(known), Value::Array(new))
            if stored.len() == known.len() =>
        {
            Value::Array(elements(stored, known, new))
        }
        (_, _, new) => new,
    }
}

fn fields(
    stored: &Map<String, Value>,
    known: &Map<String, Value>,
    new: Map<String, Value>,
) -> Map<String, Value> {
    let kept = |(name, value)| match (stored.get(&name), known.get(&name)) {
        (Some(stored), Some(known)) => {
            let kept = part(stored, known, value);
            (name, kept)
        }
        _ => (name, value),
    };
    new.into_iter().map(kept).collect()
}

/// Elements that were there before are taken as they are stored, each once; lists lose and gain elements at both ends.
fn elements(stored: &[Value], known: &[Value], new: Vec<Value>) -> Vec<Value> {
    let mut left: Vec<Option<(&Value, &Value)>> = known.iter().zip(stored).map(Some).collect();
    let mut kept = |element: Value| {
        let same = |pair: &&mut Option<(&Value, &Value)>| {
            pair.as_ref().is_some_and(|(known, _)| **known == element)
        };
        match left.iter_mut().find(same).and_then(Option::take) {
            Some((_, stored)) => stored.clone(),
            None => element,
        }
    };
    new.into_iter().map(&mut kept).collect()
}

impl<R: Record> Stored<R> {
    /// Creates the write that stores the changed value again as the record `name` of `partition`, with the fields that
    /// this program version does not know.
    ///
    /// # Errors
    /// As for [`put`](super::put).
    pub fn rewrite(&self, partition: &PartitionId, name: &str) -> Result<Write, Error> {
        let key = key(partition, R::KIND, name);
        let kept = self.unknown.as_deref();
        Ok(kept_in(key, kept, &self.value)?.0)
    }
}

/// The write of `value` with what `unknown` has, and what is unknown in the record from then on. A record that would be
/// too large is written without.
fn kept_in<R: Record>(
    key: Key,
    unknown: Option<&Unknown>,
    value: &R,
) -> Result<(Write, Option<Unknown>), Error> {
    let json = encode(&key, value)?;
    if let Some(unknown) = unknown
        && let Ok(new) = serde_json::from_slice(&json)
    {
        let (merged, left) = unknown.keep::<R>(new);
        let merged = encode(&key, &merged)?;
        if merged.len() <= limit::VALUE {
            return Ok((Write::Put(key, merged.into()), left));
        }
    }
    Ok((Write::Put(key, json.into()), None))
}

/// What is unknown in the records that an owner rewrites from its own state, by key. Reading notes it, writing keeps
/// it. Clones share it. It is empty unless a newer program version wrote to the store.
///
/// ```
/// use control_plane_store::{Batch, MemoryStore, Record, Store, record};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Settled { incarnation: u32 }
/// impl Record for Settled { const KIND: &'static str = "settled"; }
///
/// # futures::executor::block_on(async {
/// let (store, partition) = (MemoryStore::new(), "shakespeare".parse()?);
/// // A newer version added a field.
/// store.commit(Batch::new().put("settled/shakespeare/job", r#"{"incarnation":1,"zone":"eu"}"#)).await?;
///
/// let rewrites = record::Rewrites::default();
/// let read = record::load::<Settled>(&store, &partition, "job").await?.unwrap();
/// rewrites.note(&partition, "job", &read);
/// let write = rewrites.put(&partition, "job", &Settled { incarnation: 2 })?;
/// store.commit(Batch::new().write(write)).await?;
/// let row = store.get(&["settled/shakespeare/job".into()]).await?.pop().flatten().unwrap();
/// assert_eq!(&row.value[..], br#"{"incarnation":2,"zone":"eu"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
pub struct Rewrites(Arc<Mutex<BTreeMap<Key, Unknown>>>);

impl Rewrites {
    /// Notes what is unknown in the record `name` of `partition`, as it was read.
    pub fn note<R: Record>(&self, partition: &PartitionId, name: &str, read: &Stored<R>) {
        let key = key(partition, R::KIND, name);
        if let Some((at, value)) = read.unknown.as_deref().and_then(Unknown::word) {
            tracing::warn!(
                record = %key, %at, %value,
                "a newer program version wrote a value that this version does not know; going by the most cautious one and \
                 keeping the value; run the newer version to use it"
            );
        }
        self.set(key, read.unknown.as_deref().cloned());
    }

    /// As [`put`](super::put), with the fields that are unknown in the record.
    ///
    /// # Errors
    /// As for [`put`](super::put).
    pub fn put<R: Record>(
        &self,
        partition: &PartitionId,
        name: &str,
        value: &R,
    ) -> Result<Write, Error> {
        let key = key(partition, R::KIND, name);
        let unknown = self.lock().remove(&key);
        let (write, left) = kept_in(key.clone(), unknown.as_ref(), value)?;
        self.set(key, left);
        Ok(write)
    }

    /// As [`delete`](super::delete). A record that is written under the name later is a new one.
    pub fn delete<R: Record>(&self, partition: &PartitionId, name: &str) -> Write {
        self.set(key(partition, R::KIND, name), None);
        delete::<R>(partition, name)
    }

    /// The write that leaves `value` under the name, or no record at all.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_or_delete<R: Record>(
        &self,
        partition: &PartitionId,
        name: &str,
        value: Option<&R>,
    ) -> Result<Write, Error> {
        match value {
            Some(value) => self.put(partition, name, value),
            None => Ok(self.delete::<R>(partition, name)),
        }
    }

    /// Forgets what is unknown in other records than those whose keys `keep` accepts. Note it again before they are
    /// written.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        self.lock().retain(|key, _| keep(key));
    }

    fn set(&self, key: Key, unknown: Option<Unknown>) {
        match unknown {
            Some(unknown) => drop(self.lock().insert(key, unknown)),
            None => drop(self.lock().remove(&key)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Unknown>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
