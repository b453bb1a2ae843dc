//! R34, R48: edits of files: what is proposed is what is committed, once, over crashes at every point and beside other
//! writers.

use std::{fs, io, path::Path};

use jiff::Timestamp;
use plugin_sdk::{
    ChangeId, EditError, EditableSource, FieldEdit, SourceChange, SourceOfTruth, conformance,
};
use serde_json::{Value, json};

use super::*;
use crate::{YamlDirectory, YamlFile, format::Yaml};

const TEXT: &str = "# Our clusters.\nclusters:\n- name: eu # the first\n  replicas: 3\n- {name: us, replicas: 2}\n";

const POINTS: [Point; 7] = [
    Point::Created,
    Point::Written,
    Point::Durable,
    Point::Compared,
    Point::Exchanged,
    Point::Confirmed,
    Point::Removed,
];

fn change(id: &str, edits: impl IntoIterator<Item = FieldEdit>) -> SourceChange {
    let id = ChangeId::new(id).unwrap();
    let edits = edits.into_iter().collect();
    SourceChange::new(id, edits, "autoscaler", "more load", Timestamp::UNIX_EPOCH)
}

fn set(path: &str, was: impl Into<Value>, to: impl Into<Value>) -> FieldEdit {
    FieldEdit::set("m.yaml#0", path.parse().unwrap(), was, to)
}

/// A directory with the one file `m.yaml`, and a source that reads it.
fn one_file() -> (tempfile::TempDir, YamlFile) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("m.yaml"), TEXT).unwrap();
    let source = YamlFile::new(dir.path().join("m.yaml"));
    (dir, source)
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("m.yaml")).unwrap()
}

/// The names of all files, hidden ones included.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn refusal(error: EditError) -> String {
    match error {
        EditError::Refused(problems) => problems.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Commits as a process that dies when `dies` says so. No later code of the commit runs then.
fn commit_dying(
    source: &YamlFile,
    change: &SourceChange,
    proposal: &Proposal,
    dies: impl Fn(Point) -> bool,
) -> Result<Revision, EditError> {
    let shape = OneFile::<Yaml>::from(source.settings.clone());
    source.settings.commit_now(
        &shape,
        now(),
        change,
        proposal,
        &mut |point| match dies(point) {
            true => Err(io::Error::other("died")),
            false => Ok(()),
        },
    )
}

#[tokio::test]
async fn r48_proposal_is_what_the_source_reads_after_the_commit() {
    let (dir, source) = one_file();
    let before = source.read().await.unwrap();
    let change = change("one", [set("clusters[0].replicas", 3, 5)]);
    let proposal = source.propose(&change).await.unwrap();
    assert_eq!(text(dir.path()), TEXT, "a proposal changes nothing");
    assert_eq!(proposal.before, before.revision);
    assert!(
        proposal.diff.contains("-  replicas: 3\n+  replicas: 5\n"),
        "{}",
        proposal.diff
    );
    let revision = source.commit(&change, &proposal).await.unwrap();
    assert_eq!(source.read().await.unwrap(), proposal.reading);
    assert_eq!(revision, proposal.reading.revision);
    assert_eq!(text(dir.path()), TEXT.replace("replicas: 3", "replicas: 5"));
    assert_eq!(names(dir.path()), ["m.yaml"]);
    let again = source.commit(&change, &proposal).await.unwrap();
    assert_eq!(again, revision, "the same change again is one change");
}

#[tokio::test]
async fn r48_directory_is_edited_file_by_file() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["eu", "us"] {
        fs::write(
            dir.path().join(format!("{name}.yaml")),
            format!("name: {name}\nreplicas: 1\n"),
        )
        .unwrap();
    }
    let source = YamlDirectory::new(dir.path()).documents_named_by("name".parse().unwrap());
    let edit = |name, to| FieldEdit::set(name, "replicas".parse().unwrap(), 1, to);
    let one = change("one", [edit("us", 4)]);
    let proposal = source.propose(&one).await.unwrap();
    source.commit(&one, &proposal).await.unwrap();
    let reading = source.read().await.unwrap();
    let sorted = |reading: &Reading| {
        let mut all = reading.documents.clone();
        all.sort_by(|a, b| a.key().cmp(b.key()));
        (reading.revision.clone(), all)
    };
    assert_eq!(sorted(&reading), sorted(&proposal.reading));
    let both = change(
        "two",
        [
            edit("eu", 2),
            FieldEdit::set("us", "replicas".parse().unwrap(), 4, 2),
        ],
    );
    let refused = refusal(source.propose(&both).await.unwrap_err());
    assert!(refused.contains("eu.yaml and us.yaml"), "{refused}");
    let renamed = change(
        "three",
        [FieldEdit::set("eu", "name".parse().unwrap(), "eu", "uk")],
    );
    let refused = refusal(source.propose(&renamed).await.unwrap_err());
    assert!(refused.contains("rename a document"), "{refused}");
}

#[tokio::test]
async fn r34_edit_that_does_not_fit_is_refused_with_its_place() {
    let (_dir, source) = one_file();
    let wrong = async |edit| refusal(source.propose(&change("x", [edit])).await.unwrap_err());
    assert_eq!(
        wrong(set("clusters[0].replicas", 4, 5)).await,
        "m.yaml:4:1: clusters[0].replicas: `clusters[0].replicas`, line 4, is 3, but 4 was expected; read the file again and decide anew (says source m.yaml)"
    );
    assert!(
        wrong(set("clusters[0].cpu", 4, 5))
            .await
            .contains("is absent")
    );
    let other = FieldEdit::add("other.yaml#0", "a".parse().unwrap(), 1);
    assert!(
        wrong(other)
            .await
            .contains("has no document `other.yaml#0`")
    );
}

#[tokio::test]
async fn r34_nothing_to_change_is_success() {
    let (dir, source) = one_file();
    for edits in [vec![], vec![set("clusters[0].replicas", 3, 3)]] {
        let change = change("none", edits);
        let proposal = source.propose(&change).await.unwrap();
        assert!(proposal.is_unchanged());
        source.commit(&change, &proposal).await.unwrap();
    }
    assert_eq!(text(dir.path()), TEXT);
}

#[tokio::test]
async fn r34_file_that_changes_after_the_proposal_is_not_replaced() {
    let (dir, source) = one_file();
    let change = change("one", [set("clusters[0].replicas", 3, 5)]);
    let proposal = source.propose(&change).await.unwrap();
    let by_hand = format!("{TEXT}# by hand\n");
    fs::write(dir.path().join("m.yaml"), &by_hand).unwrap();
    let moved = source.commit(&change, &proposal).await.unwrap_err();
    let now = source.read().await.unwrap().revision;
    assert_eq!(moved, EditError::Moved { now });
    assert_eq!(text(dir.path()), by_hand);
    let proposal = source.propose(&change).await.unwrap();
    source.commit(&change, &proposal).await.unwrap();
    assert_eq!(
        text(dir.path()),
        by_hand.replace("replicas: 3", "replicas: 5")
    );
}

/// A person writes between any two points of the replacement, in place or as a new file: the text is never lost.
#[tokio::test]
async fn r34_text_written_by_hand_during_the_replacement_is_kept() {
    for point in &POINTS[..5] {
        for replaces in [false, true] {
            let (dir, source) = one_file();
            let change = change("one", [set("clusters[0].replicas", 3, 5)]);
            let proposal = source.propose(&change).await.unwrap();
            let by_hand = format!("{TEXT}# by hand\n");
            let path = dir.path().join("m.yaml");
            // What an editor that has the file open writes after the exchange goes into the old file.
            let there = match point {
                Point::Exchanged => dir.path().join(".one.edit"),
                _ => path.clone(),
            };
            let shape = OneFile::<Yaml>::from(source.settings.clone());
            let mut exchanged = false;
            let committed =
                source
                    .settings
                    .commit_now(&shape, now(), &change, &proposal, &mut |reached| {
                        exchanged |= reached == Point::Exchanged;
                        if reached == *point {
                            match replaces {
                                true => {
                                    fs::write(dir.path().join("new"), &by_hand)?;
                                    fs::rename(dir.path().join("new"), &there)?;
                                }
                                false => fs::write(&there, &by_hand)?,
                            }
                        }
                        Ok(())
                    });
            assert!(
                matches!(committed, Err(EditError::Moved { .. })),
                "{point:?}: {committed:?}"
            );
            assert_eq!(text(dir.path()), by_hand, "{point:?}");
            assert_eq!(names(dir.path()), ["m.yaml"], "{point:?}");
            // No reader sees a text that replaces one which is known to have changed.
            let known_before = !matches!(point, Point::Compared | Point::Exchanged);
            assert_eq!(exchanged, !known_before, "{point:?}");
        }
    }
}

#[tokio::test]
async fn r34_process_that_dies_at_any_point_leaves_the_file_before_or_after_and_the_next_try_is_one_edit()
 {
    let after = TEXT.replace("replicas: 3", "replicas: 5");
    for point in POINTS {
        let (dir, source) = one_file();
        let change = change("one", [set("clusters[0].replicas", 3, 5)]);
        let proposal = source.propose(&change).await.unwrap();
        commit_dying(&source, &change, &proposal, |reached| reached == point).unwrap_err();
        let exchanged = POINTS.iter().position(|it| *it == point) >= Some(4);
        let expected = if exchanged { &*after } else { TEXT };
        assert_eq!(text(dir.path()), expected, "{point:?}");
        // Another process goes on.
        let source = YamlFile::new(dir.path().join("m.yaml"));
        let revision = source.commit(&change, &proposal).await.unwrap();
        assert_eq!(revision, proposal.reading.revision);
        assert_eq!(text(dir.path()), after, "{point:?}");
    }
}

#[tokio::test]
async fn r34_one_of_two_changes_of_the_same_field_wins_and_the_other_has_to_look_again() {
    let (dir, source) = one_file();
    let (a, b) = (
        change("a", [set("clusters[0].replicas", 3, 5)]),
        change("b", [set("clusters[0].replicas", 3, 6)]),
    );
    let first = source.propose(&a).await.unwrap();
    let second = source.propose(&b).await.unwrap();
    let now = source.commit(&b, &second).await.unwrap();
    let late = source.commit(&a, &first).await;
    assert_eq!(late, Err(EditError::Moved { now }));
    assert_eq!(text(dir.path()), TEXT.replace("replicas: 3", "replicas: 6"));
}

#[cfg(unix)]
#[tokio::test]
async fn permissions_and_the_link_to_the_file_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let (dir, _) = one_file();
    let file = dir.path().join("m.yaml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let link = dir.path().join("link.yaml");
    symlink("m.yaml", &link).unwrap();
    let source = YamlFile::new(&link);
    let edit = FieldEdit::set(
        "link.yaml#0",
        "clusters[1]".parse().unwrap(),
        json!({"name": "us", "replicas": 2}),
        json!({"name": "us", "replicas": 9}),
    );
    let change = change("one", [edit]);
    let proposal = source.propose(&change).await.unwrap();
    source.commit(&change, &proposal).await.unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert!(text(dir.path()).contains("{name: us, replicas: 9}"));
}

#[tokio::test]
async fn r34_files_keep_the_laws_of_editable_sources() {
    let (_dir, source) = one_file();
    let changes = [
        change("one", [set("clusters[0].replicas", 3, 5)]),
        change(
            "two",
            [
                set("clusters[0].replicas", 5, 6),
                set("clusters[1].replicas", 2, 6),
            ],
        ),
    ];
    conformance::editable(&source, changes).await.unwrap();
}
