//! Reads records of many executions in few questions to the store.

use std::collections::{BTreeMap, BTreeSet};

use control_plane_store::{
    Error, Key, Record, Store,
    record::{self, Stored},
};
use prodspec_model::PartitionId;

/// Number of records that are read at once, if all that came before were asked for.
const LOT: usize = 1000;
/// Number of records that are read at once after records of others.
const FEW: usize = 16;

/// The records of one kind that have these names.
pub(super) async fn named<T: Record>(
    store: &dyn Store,
    partition: &PartitionId,
    names: &BTreeSet<String>,
) -> Result<BTreeMap<String, Stored<T>>, Error> {
    let names: Vec<&String> = names.iter().collect();
    let mut found = BTreeMap::new();
    for some in names.chunks(LOT) {
        let keys = some
            .iter()
            .map(|name| record::key(partition, T::KIND, name));
        let keys: Vec<Key> = keys.collect();
        let rows = store.get(&keys).await?;
        for ((name, key), row) in some.iter().zip(&keys).zip(rows) {
            if let Some(row) = row {
                found.insert(name.to_string(), record::decode(key, &row)?);
            }
        }
    }
    Ok(found)
}

/// What `keep` keeps of the records of one kind whose names are one of `of`, a space and more, by the first and with the
/// second part of their names. Of the records of others it reads a few for each gap between two of `of`, however many there are.
pub(super) async fn beneath<T: Record, U>(
    store: &dyn Store,
    partition: &PartitionId,
    of: &BTreeSet<String>,
    keep: impl Fn(Stored<T>) -> U,
) -> Result<BTreeMap<String, Vec<(String, U)>>, Error> {
    // The store sorts names with what follows them.
    let wanted: BTreeSet<String> = of.iter().map(|name| format!("{name} ")).collect();
    let all = record::range(partition, T::KIND);
    let start = format!("{}/{partition}/", T::KIND);
    let mut found: BTreeMap<String, Vec<(String, U)>> = BTreeMap::new();
    let mut next = wanted.first();
    while let Some(first) = next.take() {
        let mut rest = Some(all.after(&Key::from(format!("{start}{first}"))));
        let mut lot = FEW;
        'pages: while let Some(range) = rest {
            let page = store.scan(range, lot).await?;
            for (key, row) in &page.rows {
                let name = &key.as_str()[start.len()..];
                let Some((of, what)) = name.split_once(' ') else {
                    continue;
                };
                let prefix = &name[..=of.len()];
                if !wanted.contains(prefix) {
                    next = wanted.range(prefix.to_owned()..).next();
                    break 'pages;
                }
                let stored = record::decode(key, row)?;
                let of = found.entry(of.to_owned()).or_default();
                of.push((what.to_owned(), keep(stored)));
            }
            (rest, lot) = (page.rest, (2 * lot).min(LOT));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use control_plane_store::{Batch, MemoryStore};
    use futures::executor::block_on;
    use proptest::{collection, proptest};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Count(u32);

    impl Record for Count {
        const KIND: &'static str = "count";
    }

    proptest! {
        /// Whatever others have between them, the records of each are those that begin with its name and a space.
        #[test]
        fn records_beneath_some_names_are_all_of_them_and_no_others(
            stored in collection::vec((0..40_u32, 0..30_u32), 0..60),
            asked in collection::btree_set(0..40_u32, 0..20),
        ) {
            let (store, partition) = (MemoryStore::new(), "test".parse().unwrap());
            let name = |n: &u32| format!("{}-{n:02}", ["a", "a-b", "a0"][*n as usize % 3]);
            let mut batch = Batch::new();
            let names = stored.iter().flat_map(|(of, many)| {
                (0..*many).map(move |n| format!("{} {n}", name(of)))
            });
            for name in names.collect::<BTreeSet<String>>() {
                batch = batch.put(record::key(&partition, Count::KIND, &name), "1");
            }
            block_on(store.commit(batch)).unwrap();
            let of: BTreeSet<String> = asked.iter().map(name).collect();
            let found = block_on(beneath(&store, &partition, &of, |it: Stored<Count>| it)).unwrap();
            for of in &of {
                let prefix = format!("{of} ");
                let expected = block_on(record::load_prefix::<Count>(&store, &partition, &prefix));
                let expected = expected.unwrap().into_iter().map(|(name, stored)| {
                    (name[prefix.len()..].to_owned(), stored.value)
                });
                let expected: Vec<_> = expected.collect();
                let found = found.get(of).cloned().unwrap_or_default().into_iter();
                let found: Vec<_> = found.map(|(name, stored)| (name, stored.value)).collect();
                assert_eq!(found, expected);
            }
            assert!(found.keys().all(|name| of.contains(name)));
        }
    }
}
