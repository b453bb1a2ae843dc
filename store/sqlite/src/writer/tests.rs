//! The writer on a full disk and on a failing medium.

use std::path::Path;

use control_plane_store::CommitError;

use super::*;
use crate::{directory::Directory, opening};

pub(super) fn writer(dir: &Path) -> Writer {
    let directory = Directory::lock(dir).unwrap();
    let opened = opening::open(&directory).unwrap();
    Writer::new(opened, Poison::default(), Arc::default()).unwrap()
}

pub(super) fn commit(writer: &mut Writer, batches: &[Batch]) -> Vec<Result<Version, CommitError>> {
    let (group, answers): (Vec<_>, Vec<_>) = batches
        .iter()
        .map(|batch| {
            let (answer, answered) = oneshot::channel();
            let batch = batch.clone();
            (Job { batch, answer }, answered)
        })
        .unzip();
    writer.commit(group);
    let answered = |mut answer: oneshot::Receiver<_>| answer.try_recv().unwrap().unwrap();
    answers.into_iter().map(answered).collect()
}

fn large(key: &str) -> Batch {
    Batch::new().put(key, vec![b'x'; 500_000])
}

#[test]
fn a_full_disk_refuses_commits_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let first = commit(&mut writer, &[Batch::new().put("a", "1")])
        .remove(0)
        .unwrap();
    let pages = |writer: &Writer, pages: u32| {
        let set = format!("PRAGMA max_page_count = {pages}");
        writer.connection.query_row(&set, [], |_| Ok(())).unwrap();
    };
    pages(&writer, 20);
    let batches = [Batch::new().put("a", "2"), large("b")];
    for answer in commit(&mut writer, &batches) {
        assert!(
            matches!(answer, Err(CommitError::Unavailable { .. })),
            "{answer:?}"
        );
    }
    pages(&writer, 1000);
    let answers = commit(&mut writer, &batches);
    let versions: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(versions, [Version(first.0 + 1), Version(first.0 + 2)]);
}

#[test]
fn a_failing_medium_poisons_the_store_permanently() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    commit(&mut writer, &[Batch::new().put("a", "1")])
        .remove(0)
        .unwrap();
    // A missing table makes commits fail in the same way as a broken disk.
    writer.connection.execute("DROP TABLE rows", []).unwrap();
    let poisoned = |answer: &Result<_, _>| matches!(answer, Err(CommitError::Poisoned { .. }));
    assert!(
        commit(&mut writer, &[Batch::new().put("a", "2")])
            .iter()
            .all(poisoned)
    );
    assert!(writer.poison.get().is_some());
    writer
        .connection
        .execute_batch("CREATE TABLE rows (key TEXT)")
        .unwrap();
    assert!(
        commit(&mut writer, &[Batch::new()]).iter().all(poisoned),
        "the poisoned store commits nothing"
    );
}

#[test]
fn a_refused_batch_does_not_affect_others_of_its_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let refused = Batch::new().expect_absent("a").put("b", "1");
    let first = Batch::new().put("a", "1");
    let answers = commit(&mut writer, &[first.clone(), refused, large("c"), first]);
    assert_eq!(*answers[0].as_ref().unwrap(), Version(1));
    let found = Some(Version(1));
    assert!(matches!(&answers[1], Err(CommitError::Conflict { found: at, .. }) if *at == found));
    assert_eq!(*answers[2].as_ref().unwrap(), Version(2));
    assert_eq!(
        *answers[3].as_ref().unwrap(),
        Version(1),
        "the same batch again"
    );
}

#[test]
fn the_oldest_batches_are_forgotten_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path());
    let old = Batch::new().put("a", "1");
    commit(&mut writer, std::slice::from_ref(&old))
        .remove(0)
        .unwrap();
    let next = Batch::new().put("a", "2");
    commit(&mut writer, std::slice::from_ref(&next))
        .remove(0)
        .unwrap();
    let many: Vec<_> = (2..=limit::REMEMBERED_BATCHES)
        .map(|_| Batch::new())
        .collect();
    for group in many.chunks(GROUP) {
        commit(&mut writer, group);
    }
    assert_eq!(writer.remembered.len() as u64, limit::REMEMBERED_BATCHES);
    assert!(!writer.remembered.contains_key(&old.id));
    assert_eq!(writer.remembered[&next.id], Version(2));
    let newest = writer.state.version;
    writer.recall().unwrap();
    assert_eq!(
        (writer.state.version, writer.remembered[&next.id]),
        (newest, Version(2))
    );
    assert_eq!(writer.remembered.len() as u64, limit::REMEMBERED_BATCHES);
}
