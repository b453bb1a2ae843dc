//! Contents are kept as long as a kept incarnation refers to them, and no longer.

use futures::executor::block_on;
use plugin_sdk::blobs::verified;

use super::*;
use crate::{MemoryStore, conformance};

fn contents(store: &MemoryStore) -> Contents<MemoryStore> {
    Contents::new(Arc::new(store.clone()), "shop".parse().unwrap())
}

/// Commits the references that incarnation `no` gains and loses.
fn seal(contents: &Contents<MemoryStore>, no: u32, changes: &[(Digest, i64)]) -> bool {
    let changes = changes.iter().copied().collect();
    let batch = contents.count(Batch::new(), IncarnationNo(no), &changes);
    match block_on(batch).unwrap() {
        Some(batch) => block_on(contents.store.commit(batch)).is_ok(),
        None => false,
    }
}

fn retain(contents: &Contents<MemoryStore>, kept: &[u32]) -> usize {
    let kept = kept.iter().map(|no| IncarnationNo(*no)).collect();
    block_on(contents.retain(&kept, &Batch::new())).unwrap()
}

fn rows(store: &MemoryStore) -> usize {
    let page = block_on(store.scan(KeyRange::all(), usize::MAX)).unwrap();
    page.rows.len()
}

#[test]
fn large_content_is_read_bit_for_bit() {
    let store = MemoryStore::new();
    let contents = contents(&store);
    let large: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 251) as u8).collect();
    for content in [&large[..], b"", b"small"] {
        let digest = block_on(contents.put(content, &Batch::new())).unwrap();
        assert_eq!(
            block_on(contents.load(digest)).unwrap().as_deref(),
            Some(content)
        );
        let reference = ExternalRef::new("any", digest);
        assert_eq!(block_on(verified(&contents, &reference)).unwrap(), content);
    }
    let none = ExternalRef::new("any", Digest::of(b"none"));
    let said = block_on(verified(&contents, &none)).unwrap_err();
    assert!(matches!(said, blobs::Error::Missing), "{said}");
}

#[test]
fn content_is_kept_while_a_kept_incarnation_refers_to_it() {
    let store = MemoryStore::new();
    let contents = contents(&store);
    let put = |content: &[u8]| block_on(contents.put(content, &Batch::new())).unwrap();
    let (a, b) = (put(b"a"), put(b"b"));
    // 2 and 3 refer to `a` twice, then once; 4 does not; 5 does again. All from 2 on refer to `b`.
    assert!(seal(&contents, 2, &[(a, 2), (b, 1)]));
    assert!(seal(&contents, 3, &[(a, -1)]));
    assert!(seal(&contents, 4, &[(a, -1)]));
    assert_eq!(retain(&contents, &[2, 4]), 0, "2 refers to it");
    assert_eq!(retain(&contents, &[3, 4]), 0, "3 refers to it");
    assert!(seal(&contents, 5, &[(a, 1)]));
    assert_eq!(retain(&contents, &[4]), 0, "5 is newer than the list");
    assert!(seal(&contents, 6, &[(a, -1)]));
    assert_eq!(retain(&contents, &[4]), 0, "6 is newer than the list");
    assert_eq!(retain(&contents, &[4, 6]), 1, "neither refers to `a`");
    assert_eq!(block_on(contents.load(a)).unwrap(), None);
    assert!(block_on(contents.load(b)).unwrap().is_some());
    assert_eq!(rows(&store), 2, "the row and the piece of `b`");
}

#[test]
fn seal_that_refers_to_a_removed_content_fails() {
    let store = MemoryStore::new();
    let contents = contents(&store);
    let a = block_on(contents.put(b"a", &Batch::new())).unwrap();
    let gained = [(a, 1)].into();
    let counted = contents.count(Batch::new(), IncarnationNo(1), &gained);
    let counted = block_on(counted).unwrap().unwrap();
    assert_eq!(retain(&contents, &[]), 1, "no incarnation refers to it yet");
    assert!(
        block_on(store.commit(counted)).is_err(),
        "it was removed before the seal"
    );
    assert!(!seal(&contents, 1, &[(a, 1)]), "it is not kept");
    assert!(
        seal(&contents, 1, &[(a, -1)]),
        "a reference to nothing can go"
    );
}

#[test]
fn content_of_a_writer_that_did_not_finish_is_missing_and_removed() {
    let store = MemoryStore::new();
    let contents = contents(&store);
    let large = vec![7; 3 * PIECE];
    let digest = block_on(contents.put(&large, &Batch::new())).unwrap();
    let mut row = block_on(contents.row(digest)).unwrap().unwrap();
    row.value.complete = false;
    let torn = contents.rewrite(Batch::new(), digest, &row).unwrap();
    block_on(store.commit(torn)).unwrap();
    assert_eq!(block_on(contents.load(digest)).unwrap(), None);
    let missing = block_on(contents.missing(&[digest].into())).unwrap();
    assert_eq!(missing, [digest].into());
    assert_eq!(retain(&contents, &[1]), 1);
    assert_eq!(rows(&store), 0);
}

#[test]
fn old_and_new_versions_take_turns_on_the_row_of_a_content() {
    let spans = vec![Span {
        from: IncarnationNo(1),
        until: None,
    }];
    let row = ContentRow {
        bytes: 1,
        complete: true,
        count: 1,
        spans,
    };
    conformance::record(&row, &[]);
}
