//! Typed records: small values stored as JSON under readable keys, `kind/partition/name`.
//!
//! Program versions of different age share a store. Readers ignore fields that they do not know; records that are read,
//! changed and written again keep them: see [`Stored::rewrite`] and [`Rewrites`].

mod unknown;

use std::sync::Arc;

use prodspec_model::PartitionId;
use serde::{Serialize, de::DeserializeOwned};

pub use self::unknown::{Rewrites, Unknown};
use crate::{Error, Key, KeyRange, Store, Version, Versioned, Write};

/// Number of records that [`load_all`] reads per page.
const PAGE: usize = 1000;

/// A type whose values are stored as records.
///
/// ```
/// use control_plane_store::{MemoryStore, Record, Store, record};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct Settled { incarnation: u32 }
/// impl Record for Settled { const KIND: &'static str = "settled"; }
///
/// # futures::executor::block_on(async {
/// let (store, partition) = (MemoryStore::new(), "shakespeare".parse()?);
/// store.commit(control_plane_store::Batch::new()
///     .write(record::put(&partition, "job/eu", &Settled { incarnation: 42 })?)).await?;
/// let read = record::load::<Settled>(&store, &partition, "job/eu").await?;
/// assert_eq!(read.unwrap().value, Settled { incarnation: 42 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub trait Record: Serialize + DeserializeOwned {
    /// First segment of the keys of these records: a word without `/` that no other record type uses.
    const KIND: &'static str;

    /// The fields, beside the name of the record, by which a value is recognised as a later state of the stored one. A
    /// value that differs in one of them is something new under the same name, and gets no
    /// [unknown](Unknown) field of the stored one. Empty by default: the name alone says what the record is about.
    const SAME: &'static [&'static str] = &[];
}

/// A record with the version at which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<R> {
    /// Version of the commit that wrote the record.
    pub version: Version,
    /// The content of the record, decoded.
    pub value: R,
    /// The fields of the record that this program version does not know. `None` means that there are none.
    pub unknown: Option<Box<Unknown>>,
}

/// Returns the key of the record `name` of `partition`: `kind/partition/name`, or `kind/partition` if `name` is empty.
pub fn key(partition: &PartitionId, kind: &str, name: &str) -> Key {
    let partition = partition.as_str();
    match name {
        "" => [kind, "/", partition].concat().into(),
        name => [kind, "/", partition, "/", name].concat().into(),
    }
}

/// Returns the range of the keys of all named records of one kind in `partition`.
pub fn range(partition: &PartitionId, kind: &str) -> KeyRange {
    KeyRange::prefix(&format!("{kind}/{partition}/"))
}

/// Creates the write that stores `value` as the record `name` of `partition`.
///
/// # Errors
/// [`Error::Unwritable`] if JSON cannot hold the value, such as a map with keys that are not text.
pub fn put<R: Record>(partition: &PartitionId, name: &str, value: &R) -> Result<Write, Error> {
    let key = key(partition, R::KIND, name);
    let json = encode(&key, value)?;
    Ok(Write::Put(key, json.into()))
}

/// As [`put`], with the fields that a newer program version has added to the stored record. Reads that record first; one
/// that is damaged is replaced as a whole.
///
/// # Errors
/// As for [`put`], and if the store cannot be read.
pub async fn replace<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
    name: &str,
    value: R,
) -> Result<Write, Error> {
    match load::<R>(store, partition, name).await {
        Ok(Some(stored)) => Stored { value, ..stored }.rewrite(partition, name),
        Ok(None) | Err(Error::Damaged { .. }) => put(partition, name, &value),
        Err(error) => Err(error),
    }
}

fn encode(key: &Key, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| Error::Unwritable {
        key: key.clone(),
        source: Arc::new(error),
    })
}

/// Creates the write that removes the record `name` of `partition`. A record that does not exist is no error.
pub fn delete<R: Record>(partition: &PartitionId, name: &str) -> Write {
    Write::Delete(key(partition, R::KIND, name))
}

/// Reads the record `name` of `partition`. `None` means that it does not exist.
///
/// # Errors
/// If the store cannot be read, or the record is damaged; the error for damage names the key.
pub async fn load<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
    name: &str,
) -> Result<Option<Stored<R>>, Error> {
    let key = key(partition, R::KIND, name);
    let mut rows = store.get(std::slice::from_ref(&key)).await?;
    rows.pop()
        .flatten()
        .map(|row| decode(&key, &row))
        .transpose()
}

/// Reads all named records of one kind in `partition`, ordered by name, in pages. Each page is one snapshot; a commit
/// between two pages may be seen or not.
///
/// # Errors
/// As for [`load`].
pub async fn load_all<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
) -> Result<Vec<(String, Stored<R>)>, Error> {
    load_prefix(store, partition, "").await
}

/// Reads the records of one kind in `partition` whose names begin with `prefix`, as [`load_all`] does.
///
/// # Errors
/// As for [`load`].
pub async fn load_prefix<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
    prefix: &str,
) -> Result<Vec<(String, Stored<R>)>, Error> {
    let each = load_range(store, partition, prefix).await?.into_iter();
    each.map(|(name, record)| Ok((name, record?))).collect()
}

/// Reads the same records as [`load_all`]. A damaged record is an error of its own, so that the caller can set it aside
/// and use the others.
///
/// # Errors
/// If the store cannot be read.
pub async fn load_each<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
) -> Result<Vec<(String, Result<Stored<R>, Error>)>, Error> {
    load_range(store, partition, "").await
}

/// Reads the names of all records of one kind in `partition`, without decoding the records.
///
/// # Errors
/// If the store cannot be read.
pub async fn names<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
) -> Result<Vec<String>, Error> {
    let range = range(partition, R::KIND);
    let start = range.start.as_str().len();
    let mut rest = Some(range);
    let mut names = Vec::new();
    while let Some(range) = rest {
        let page = store.scan(range, PAGE).await?;
        let keys = page.rows.iter().map(|(key, _)| key.as_str());
        names.extend(keys.map(|key| key[start..].to_owned()));
        rest = page.rest;
    }
    Ok(names)
}

async fn load_range<R: Record>(
    store: &(impl Store + ?Sized),
    partition: &PartitionId,
    prefix: &str,
) -> Result<Vec<(String, Result<Stored<R>, Error>)>, Error> {
    let start = format!("{}/{partition}/", R::KIND);
    let mut rest = Some(KeyRange::prefix(&format!("{start}{prefix}")));
    let mut all = Vec::new();
    while let Some(range) = rest {
        let page = store.scan(range, PAGE).await?;
        for (key, row) in &page.rows {
            all.push((key.as_str()[start.len()..].to_owned(), decode(key, row)));
        }
        rest = page.rest;
    }
    Ok(all)
}

/// Decodes one row as a record.
///
/// # Errors
/// [`Error::Damaged`], naming `key`.
pub fn decode<R: Record>(key: &Key, row: &Versioned) -> Result<Stored<R>, Error> {
    let value = serde_json::from_slice(&row.value)
        .map_err(|error| Error::damaged(format!("the record `{key}`"), error))?;
    Ok(Stored {
        version: row.version,
        unknown: Unknown::of(&row.value, &value),
        value,
    })
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use serde::Deserialize;

    use super::*;
    use crate::{Batch, MemoryStore};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Count(u32);
    impl Record for Count {
        const KIND: &'static str = "count";
    }

    fn partition(name: &str) -> PartitionId {
        name.parse().unwrap()
    }

    #[test]
    fn all_records_of_one_partition_are_read_over_many_pages() {
        let (store, ours) = (MemoryStore::new(), partition("a"));
        let mut batch = Batch::new()
            .write(put(&partition("a-b"), "x", &Count(1)).unwrap())
            .write(put(&ours, "", &Count(1)).unwrap());
        for n in 0..2500 {
            batch = batch.write(put(&ours, &format!("{n:04}"), &Count(n)).unwrap());
        }
        block_on(store.commit(batch)).unwrap();
        let read = block_on(load_all::<Count>(&store, &ours)).unwrap();
        let want = (0..2500).map(|n| (format!("{n:04}"), Count(n)));
        assert!(
            read.into_iter()
                .map(|(name, row)| (name, row.value))
                .eq(want)
        );
    }

    #[test]
    fn deleting_removes_one_record() {
        let (store, ours) = (MemoryStore::new(), partition("a"));
        let write = |write| block_on(store.commit(Batch::new().write(write))).unwrap();
        write(put(&ours, "x", &Count(1)).unwrap());
        write(put(&ours, "y", &Count(2)).unwrap());
        write(delete::<Count>(&ours, "x"));
        assert_eq!(block_on(load::<Count>(&store, &ours, "x")).unwrap(), None);
        assert!(
            block_on(load::<Count>(&store, &ours, "y"))
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn a_damaged_record_is_an_error_that_names_its_key() {
        let (store, ours) = (MemoryStore::new(), partition("a"));
        block_on(store.commit(Batch::new().put("count/a/x", "{"))).unwrap();
        let error = block_on(load::<Count>(&store, &ours, "x")).unwrap_err();
        assert!(error.to_string().contains("`count/a/x`"), "{error}");
        assert!(block_on(load_all::<Count>(&store, &ours)).is_err());
        block_on(store.commit(Batch::new().put("count/a/y", "2"))).unwrap();
        let each = block_on(load_each::<Count>(&store, &ours)).unwrap();
        let readable = each.iter().map(|(name, row)| (&**name, row.is_ok()));
        assert!(readable.eq([("x", false), ("y", true)]));
    }
}
