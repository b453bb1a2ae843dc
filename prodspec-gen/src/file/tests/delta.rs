//! R43: an unchanged file is not opened again, and what has changed since a known revision, applied to the documents of
//! that revision, gives the documents of a whole reading.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use plugin_sdk::{Delta, Document, Reading, Update, conformance};
use prodspec_model::Revision;

use super::{at_once, later, opened, read, write};
use crate::file::{YamlDirectory, YamlFile, settings::Settings};

fn settings(dir: &Path) -> Settings {
    Settings::new(dir.into(), false)
}

fn whole(settings: &Settings, now: SystemTime) -> Reading {
    match read(settings, now, None).unwrap() {
        Update::Whole(reading) => reading,
        other => panic!("{other:?}"),
    }
}

fn paths(delta: &Delta) -> (Vec<String>, Vec<String>) {
    let put = delta.put.iter().map(Document::name).collect();
    (put, delta.gone.iter().map(ToString::to_string).collect())
}

#[test]
fn r43_unchanged_file_is_not_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.yaml", "b.yaml", "c.yaml"] {
        write(dir.path(), name, "a: 1");
    }
    let settings = settings(dir.path());
    let first = whole(&settings, later()).revision;
    assert_eq!(opened(&settings), 3);
    let same = read(&settings, later(), Some(&first)).unwrap();
    assert_eq!((same, opened(&settings)), (Update::Same, 3));
    write(dir.path(), "b.yaml", "a: 22");
    fs::remove_file(dir.path().join("c.yaml")).unwrap();
    let Update::Delta(delta) = read(&settings, later(), Some(&first)).unwrap() else {
        panic!("the first revision is known");
    };
    assert_eq!(
        paths(&delta),
        (vec!["b.yaml#0".into()], vec!["c.yaml#0".into()])
    );
    assert_eq!(opened(&settings), 4, "only the changed file");
    assert_eq!(whole(&settings, later()).documents.len(), 2);
    assert_eq!(
        opened(&settings),
        4,
        "a whole reading opens no file that it knows"
    );
}

#[test]
fn r43_file_that_has_just_changed_is_read_again_until_its_time_tells() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "a: 1");
    let settings = settings(dir.path());
    for (now, reads) in [(at_once(), 1), (at_once(), 2), (later(), 3), (later(), 3)] {
        whole(&settings, now);
        assert_eq!(opened(&settings), reads);
    }
}

#[cfg(unix)]
#[test]
fn r43_file_with_a_time_in_the_future_is_not_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "a.yaml", "a: 1");
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(later() + Duration::from_secs(86_400))
        .unwrap();
    let settings = settings(dir.path());
    for _ in 0..2 {
        whole(&settings, later());
    }
    assert_eq!(opened(&settings), 1);
}

#[test]
fn r43_broken_file_keeps_its_problem_and_is_not_parsed_again() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "a: 1");
    let settings = settings(dir.path());
    let known = whole(&settings, later()).revision;
    write(dir.path(), "b.yaml", "a: [");
    let refused = || {
        read(&settings, later(), Some(&known))
            .unwrap_err()
            .to_string()
    };
    let said = refused();
    assert!(said.starts_with("b.yaml:"), "{said}");
    assert_eq!((refused(), opened(&settings)), (said, 2));
    write(dir.path(), "b.yaml", "a: []");
    let Update::Delta(delta) = read(&settings, later(), Some(&known)).unwrap() else {
        panic!("the last good revision is known");
    };
    assert_eq!(paths(&delta).0, ["b.yaml#0"]);
}

#[tokio::test]
async fn r43_file_and_directory_keep_the_laws_of_sources() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "a: 1");
    let dir = dir.path();
    // `None` removes the file.
    let change = |name, text: Option<&'static str>| {
        move || match text {
            Some(text) => drop(write(dir, name, text)),
            None => fs::remove_file(dir.join(name)).unwrap(),
        }
    };
    let changes = || {
        [
            change("a.yaml", Some("a: 22\n---\na: 3")),
            change("b.yaml", Some("a: 4")),
            change("b.yaml", None),
            change("a.yaml", Some("a: 1")),
        ]
    };
    let file = YamlFile::new(dir.join("a.yaml"));
    conformance::source(&file, changes()).await.unwrap();
    let directory = YamlDirectory::new(dir);
    conformance::source(&directory, changes()).await.unwrap();
}

#[test]
fn r43_caller_that_knows_the_oldest_revision_is_told_all_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "a: 1");
    write(dir.path(), "b.yaml", "a: 1");
    let settings = settings(dir.path());
    let first = whole(&settings, later()).revision;
    fs::remove_file(dir.path().join("b.yaml")).unwrap();
    for n in 2..9 {
        write(dir.path(), "a.yaml", format!("a: {}", "1".repeat(n)));
        whole(&settings, later());
    }
    write(dir.path(), "a.yaml", "a: two");
    let Update::Delta(delta) = read(&settings, later(), Some(&first)).unwrap() else {
        panic!("eight revisions are known");
    };
    assert_eq!(paths(&delta).1, ["b.yaml#0"]);
    let again = read(&settings, later(), Some(&first)).unwrap();
    assert!(
        matches!(again, Update::Whole(_)),
        "it is the ninth now: {again:?}"
    );
}

#[test]
fn r43_document_with_a_name_stays_the_same_in_another_file() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "a.yaml",
        "{name: eu, n: 1}\n---\n{name: us, n: 2}",
    );
    let settings = settings(dir.path());
    let settings = settings.set(|it| it.parsing.named_by = Some("name".parse().unwrap()));
    let first = whole(&settings, later());
    write(dir.path(), "a.yaml", "# now there is one\n{name: us, n: 2}");
    write(dir.path(), "b.yaml", "{name: eu, n: 1}");
    let Update::Delta(delta) = read(&settings, later(), Some(&first.revision)).unwrap() else {
        panic!("the first revision is known");
    };
    assert_eq!(paths(&delta), (vec!["us".into(), "eu".into()], vec![]));
    assert_eq!(delta.put[0], first.documents[1], "equal content");
    write(dir.path(), "c.yaml", "{name: us, n: 3}");
    let refused = read(&settings, later(), None).unwrap_err().to_string();
    let said = "c.yaml#0 (us):1:1: has the same name as a.yaml#0 (us); rename one";
    assert!(refused.starts_with(said), "{refused}");
    write(dir.path(), "c.yaml", "{n: 3}");
    let refused = read(&settings, later(), None).unwrap_err().to_string();
    let said = "c.yaml#0:1:1: name: gives the document its name, and must be a text; add it";
    assert!(refused.starts_with(said), "{refused}");
}

#[test]
fn r43_revision_that_is_too_old_gives_a_whole_reading() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let mut first = None;
    for n in 1..11 {
        write(dir.path(), "a.yaml", format!("a: {}", "1".repeat(n)));
        let revision = whole(&settings, later()).revision;
        first.get_or_insert(revision);
    }
    let update = read(&settings, later(), first.as_ref()).unwrap();
    assert!(matches!(update, Update::Whole(_)), "{update:?}");
    let other = Revision("of another process".into());
    let update = read(&settings, later(), Some(&other)).unwrap();
    assert!(matches!(update, Update::Whole(_)), "{update:?}");
}
