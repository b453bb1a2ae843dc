//! Watched files and directories: every way in which editors and mounts change them is noticed.

use std::fs;

use futures::stream::{BoxStream, StreamExt};
use plugin_sdk::SourceOfTruth;

use super::{a, outcome, write};
use crate::file::{YamlDirectory, YamlFile};

#[tokio::test]
async fn overwritten_and_replaced_files_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "m.yaml", "a: 1");
    let source = YamlFile::watch(&path);
    let mut changes = source.changes();
    write(dir.path(), "m.yaml", "a: 2");
    wait_for_content(&source, &mut changes, "2").await;
    let other = write(dir.path(), "m.yaml.new", "a: 3");
    fs::rename(other, &path).unwrap();
    wait_for_content(&source, &mut changes, "3").await;
}

#[tokio::test]
async fn watched_directory_notices_new_files() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "a: 1");
    let source = YamlDirectory::watch(dir.path());
    let mut changes = source.changes();
    write(dir.path(), "b.yaml", "a: 2");
    wait_for_content(&source, &mut changes, "1, 2").await;
    fs::create_dir(dir.path().join("c")).unwrap();
    write(dir.path(), "c/c.yaml", "a: 3");
    wait_for_content(&source, &mut changes, "1, 2, 3").await;
}

#[cfg(unix)]
#[tokio::test]
async fn links_with_new_targets_are_noticed() {
    // As Kubernetes mounts a ConfigMap: the target of a hidden link changes. And as releases are switched: a link to a
    // parent directory changes.
    let dir = tempfile::tempdir().unwrap();
    let link =
        |to: &str, name: &str| std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    for version in ["..1", "..2"] {
        fs::create_dir(dir.path().join(version)).unwrap();
        let text = format!("a: {}", &version[2..]);
        write(&dir.path().join(version), "m.yaml", text);
    }
    link("..1", "..data");
    link("..data/m.yaml", "m.yaml");
    for name in ["m.yaml", "..data/m.yaml"] {
        let source = YamlFile::watch(dir.path().join(name));
        let mut changes = source.changes();
        for version in ["..2", "..1"] {
            link(version, "..tmp");
            fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
            wait_for_content(&source, &mut changes, &version[2..]).await;
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn link_out_of_a_watched_directory_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let outside = write(dir.path(), "m.yaml", "a: 1");
    std::os::unix::fs::symlink(&outside, dir.path().join("d/m.yaml")).unwrap();
    let source = YamlDirectory::watch(dir.path().join("d"));
    let mut changes = source.changes();
    for a in ["2", "3"] {
        fs::write(&outside, format!("a: {a}")).unwrap();
        wait_for_content(&source, &mut changes, a).await;
    }
}

#[tokio::test]
async fn directory_created_or_replaced_later_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let watched = dir.path().join("above/d");
    let directory = YamlDirectory::watch(&watched);
    let file = YamlFile::watch(watched.join("a.yaml"));
    let mut hints = [directory.changes(), file.changes()];
    for round in 0..4 {
        fs::create_dir_all(&watched).unwrap();
        for a in [2 * round, 2 * round + 1] {
            write(&watched, "a.yaml", format!("a: {a}"));
            wait_for_content(&directory, &mut hints[0], &a.to_string()).await;
            wait_for_content(&file, &mut hints[1], &a.to_string()).await;
        }
        // The directory, or its parent, is removed or renamed.
        let goes = if round < 2 {
            &watched
        } else {
            &dir.path().join("above")
        };
        if round % 2 == 0 {
            fs::remove_dir_all(goes).unwrap();
        } else {
            fs::rename(goes, dir.path().join(format!("was-{round}"))).unwrap();
        }
    }
}

#[tokio::test]
async fn directory_swapped_for_another_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("above/d/m.yaml");
    fs::create_dir_all(dir.path().join("above/d")).unwrap();
    write(dir.path(), "above/d/m.yaml", "a: 0");
    let source = YamlFile::watch(&file);
    let mut changes = source.changes();
    for (round, swapped) in ["above", "above/d"].into_iter().enumerate() {
        let away = dir.path().join(format!("was-{round}"));
        fs::rename(dir.path().join(swapped), away).unwrap();
        fs::create_dir_all(dir.path().join("above/d")).unwrap();
        for a in ["1", "2"] {
            fs::write(&file, format!("a: {a}")).unwrap();
            wait_for_content(&source, &mut changes, a).await;
        }
    }
}

/// Waits for hints until the field `a` of all documents reads `what`. Hints may repeat, and the machine may be busy.
async fn wait_for_content(
    source: &impl SourceOfTruth,
    changes: &mut BoxStream<'static, ()>,
    what: &str,
) {
    let told = async {
        loop {
            changes.next().await.unwrap();
            let reading = source.read().await;
            let documents = reading.iter().flat_map(|reading| &reading.documents);
            let has: Result<Vec<_>, _> = documents.map(a).collect();
            if has.is_ok_and(|has| has.join(", ") == what) {
                break;
            }
        }
    };
    let told = tokio::time::timeout(std::time::Duration::from_secs(10), told);
    assert!(told.await.is_ok(), "{what}: {}", outcome(source).await);
}
