//! R43: an unchanged file is not opened again, and what has changed since a known revision, applied to the documents of
//! that revision, gives the documents of a whole reading.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use plugin_sdk::{Delta, Document, Problems, Reading, Update, conformance, document::DocumentKey};
use prodspec_model::Revision;
use proptest::prelude::*;

use super::write;
use crate::{
    file::{YamlDirectory, YamlFile, directory::Folder, settings::Settings},
    format::Yaml,
};

/// The time of a reading long after every change, so that the state of each file tells its content.
fn later() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 33)
}

/// The time of a reading just after every change.
fn at_once() -> SystemTime {
    SystemTime::UNIX_EPOCH
}

fn settings(dir: &Path) -> Settings {
    Settings::new(dir.into(), false)
}

fn read(
    settings: &Settings,
    now: SystemTime,
    known: Option<&Revision>,
) -> Result<Update, Problems> {
    let shape = Folder::<Yaml>::from(settings.clone());
    settings.read_now(&shape, now, known)
}

fn whole(settings: &Settings, now: SystemTime) -> Reading {
    match read(settings, now, None).unwrap() {
        Update::Whole(reading) => reading,
        other => panic!("{other:?}"),
    }
}

fn opened(settings: &Settings) -> u64 {
    settings.cache.lock().unwrap().opened
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

/// One change of the directory.
#[derive(Debug, Clone)]
enum Change {
    Write(u8, Vec<u8>),
    Remove(u8),
    Rename(u8, u8),
    Link(u8, u8),
}

fn change() -> impl Strategy<Value = Change> {
    let file = || 0_u8..4;
    prop_oneof![
        5 => (file(), prop::collection::vec(0_u8..8, 0..4)).prop_map(|(at, all)| Change::Write(at, all)),
        2 => file().prop_map(Change::Remove),
        2 => (file(), file()).prop_map(|(from, to)| Change::Rename(from, to)),
        1 => (file(), file()).prop_map(|(at, to)| Change::Link(at, to)),
    ]
}

fn path(dir: &Path, file: u8) -> PathBuf {
    dir.join(format!("f{file}.yaml"))
}

/// Makes change number `nth`. It may fail, for example if the file is not there. Each file that is written has a length
/// of its own: two changes within a tick of the file system's clock would have the same time.
fn apply(dir: &Path, nth: usize, change: &Change) {
    match change {
        Change::Write(at, documents) => {
            let a = nth % 3;
            let texts = documents
                .iter()
                .map(|n| format!("name: n{n}\na: {a}\n---\n"));
            let text = format!("#{}\n{}", "x".repeat(100 * nth), texts.collect::<String>());
            let _ = fs::remove_file(path(dir, *at));
            fs::write(path(dir, *at), text).unwrap();
        }
        Change::Remove(at) => drop(fs::remove_file(path(dir, *at))),
        Change::Rename(from, to) => drop(fs::rename(path(dir, *from), path(dir, *to))),
        Change::Link(at, to) => {
            let _ = fs::remove_file(path(dir, *at));
            #[cfg(unix)]
            drop(std::os::unix::fs::symlink(path(dir, *to), path(dir, *at)));
            #[cfg(not(unix))]
            let _ = to;
        }
    }
}

type Documents = BTreeMap<DocumentKey, Document>;

proptest! {
    /// Callers ask at different times, so that they know different revisions; each reading is compared with that of a
    /// source without a past.
    #[test]
    fn r43_delta_equals_a_whole_reading(
        named in any::<bool>(),
        history in prop::collection::vec((prop::collection::vec(change(), 0..3), 0_usize..3, any::<bool>()), 1..25),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let settings = |dir: &Path| settings(dir).set(|settings| {
            settings.parsing.named_by = named.then(|| "name".parse().unwrap());
        });
        let kept = settings(dir.path());
        let mut callers: [Option<(Revision, Documents)>; 3] = Default::default();
        let mut nth = 0;
        for (changes, caller, settled) in history {
            for change in &changes {
                nth += 1;
                apply(dir.path(), nth, change);
            }
            let now = if settled { later() } else { at_once() };
            let fresh = read(&settings(dir.path()), now, None);
            let known = callers[caller].take();
            let update = read(&kept, now, known.as_ref().map(|(revision, _)| revision));
            let (fresh, update) = match (fresh, update) {
                (Ok(fresh), Ok(update)) => (fresh, update),
                (Err(fresh), Err(kept)) => {
                    prop_assert_eq!(fresh.to_string(), kept.to_string());
                    callers[caller] = known;
                    continue;
                }
                (fresh, kept) => return Err(TestCaseError::fail(format!("{fresh:?}\n{kept:?}"))),
            };
            let nothing = (Revision("".into()), Documents::new());
            let (before, documents) = known.as_ref().unwrap_or(&nothing);
            let fresh = fresh.applied_to(&nothing.0, &nothing.1);
            let now = update.applied_to(before, documents);
            prop_assert_eq!(&now, &fresh);
            prop_assert_eq!(format!("{now:?}"), format!("{fresh:?}"), "positions and places too");
            callers[caller] = Some(now);
        }
    }
}
