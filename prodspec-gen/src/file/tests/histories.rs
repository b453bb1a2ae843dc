//! R43: over random histories of a directory, what a source gives that remembers the files equals what one gives that has
//! no past, whether the system tells of changes or not.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use plugin_sdk::{Document, Update, document::DocumentKey};
use prodspec_model::Revision;
use proptest::{prelude::*, test_runner::TestCaseResult};

use super::{at_once, later, read};
use crate::file::settings::Settings;

/// One change of the directory. Files are known by their numbers.
#[derive(Debug, Clone)]
enum Change {
    Write(u8, Vec<u8>),
    Remove(u8),
    Rename(u8, u8),
    Link(u8, u8),
    /// Makes a link to a folder.
    LinkFolder(u8, u8),
    /// Removes the permission to read a file, or gives it back.
    Attributes(u8),
    RenameFolder(u8, u8),
    RemoveFolder(u8),
    /// Replaces the root by a copy of another folder, which may be empty.
    ReplaceRoot(u8),
    /// Makes a link of the root, or changes its target.
    LinkRoot(u8),
}

fn change() -> impl Strategy<Value = Change> {
    let file = || 0_u8..8;
    let folder = || 0_u8..3;
    prop_oneof![
        12 => (file(), prop::collection::vec(0_u8..8, 0..4)).prop_map(|(at, all)| Change::Write(at, all)),
        4 => file().prop_map(Change::Remove),
        4 => (file(), file()).prop_map(|(from, to)| Change::Rename(from, to)),
        2 => (file(), file()).prop_map(|(at, to)| Change::Link(at, to)),
        1 => (file(), folder()).prop_map(|(at, to)| Change::LinkFolder(at, to)),
        1 => file().prop_map(Change::Attributes),
        1 => (folder(), folder()).prop_map(|(from, to)| Change::RenameFolder(from, to)),
        1 => folder().prop_map(Change::RemoveFolder),
        1 => folder().prop_map(Change::ReplaceRoot),
        1 => folder().prop_map(Change::LinkRoot),
    ]
}

/// A folder in the root, of which one is hidden.
fn folder(root: &Path, nth: u8) -> PathBuf {
    root.join(["d", "d/e", ".h"][usize::from(nth % 3)])
}

fn path(root: &Path, file: u8) -> PathBuf {
    match file {
        0..4 => root.join(format!("f{file}.yaml")),
        4..6 => root.join(format!("f{file}.txt")),
        _ => folder(root, file).join(format!("f{file}.yaml")),
    }
}

/// Makes change number `nth`. It may fail, for example if the file is not there. Each file that is written has a length
/// of its own: two changes within a tick of the file system's clock would have the same time.
fn apply(root: &Path, nth: usize, change: &Change) {
    let aside = |name: &str| root.with_file_name(format!("{name}-{nth}"));
    match change {
        Change::Write(at, documents) => {
            let a = nth % 3;
            let texts = documents
                .iter()
                .map(|n| format!("name: n{n}\na: {a}\n---\n"));
            let text = format!("#{}\n{}", "x".repeat(100 * nth), texts.collect::<String>());
            let path = path(root, *at);
            drop(fs::create_dir_all(path.parent().unwrap()));
            // In place, or as a new file.
            if nth.is_multiple_of(2) || path.is_symlink() {
                drop(fs::remove_file(&path));
            }
            drop(fs::write(path, text));
        }
        Change::Remove(at) => drop(fs::remove_file(path(root, *at))),
        Change::Rename(from, to) => drop(fs::rename(path(root, *from), path(root, *to))),
        Change::Link(at, to) => {
            drop(fs::remove_file(path(root, *at)));
            link(&path(root, *to), &path(root, *at));
        }
        Change::LinkFolder(at, to) => {
            drop(fs::remove_file(path(root, *at)));
            link(&folder(root, *to), &path(root, *at));
        }
        Change::Attributes(at) => {
            if let Ok(metadata) = fs::metadata(path(root, *at)) {
                let mut permissions = metadata.permissions();
                permissions.set_readonly(!permissions.readonly());
                drop(fs::set_permissions(path(root, *at), permissions));
            }
        }
        Change::RenameFolder(from, to) => {
            drop(fs::rename(folder(root, *from), folder(root, *to)));
        }
        Change::RemoveFolder(at) => drop(fs::remove_dir_all(folder(root, *at))),
        Change::ReplaceRoot(from) => {
            drop(fs::rename(root, aside("was")));
            drop(fs::rename(folder(&aside("was"), *from), root));
            drop(fs::create_dir(root));
        }
        Change::LinkRoot(from) => {
            drop(fs::rename(root, aside("was")));
            link(&folder(&aside("was"), *from), root);
        }
    }
}

#[cfg(unix)]
fn link(target: &Path, at: &Path) {
    drop(std::os::unix::fs::symlink(target, at));
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) {}

type Documents = BTreeMap<DocumentKey, Document>;
/// The changes before one reading, its caller, and whether it is long after them.
type Step = (Vec<Change>, usize, bool);

/// Callers ask at different times, so that they know different revisions; each reading is compared with that of a source
/// without a past.
fn compare(history: Vec<Step>, named: bool, watched: bool) -> TestCaseResult {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir(&root).unwrap();
    let settings = |watched| {
        Settings::new(root.clone(), watched).set(|settings| {
            settings.parsing.named_by = named.then(|| "name".parse().unwrap());
        })
    };
    let kept = settings(watched);
    let mut callers: [Option<(Revision, Documents)>; 3] = Default::default();
    let mut nth = 0;
    for (changes, caller, settled) in history {
        for change in &changes {
            nth += 1;
            apply(&root, nth, change);
        }
        let now = if settled { later() } else { at_once() };
        let known = callers[caller].take();
        callers[caller] = compare_once(&settings(false), &kept, now, known)?;
    }
    Ok(())
}

/// Compares one reading with that of a source without a past, and returns what the caller knows then.
fn compare_once(
    fresh: &Settings,
    kept: &Settings,
    now: SystemTime,
    known: Option<(Revision, Documents)>,
) -> Result<Option<(Revision, Documents)>, TestCaseError> {
    let fresh = read(fresh, now, None);
    let update = read(kept, now, known.as_ref().map(|(revision, _)| revision));
    let (fresh, update): (Update, Update) = match (fresh, update) {
        (Ok(fresh), Ok(update)) => (fresh, update),
        (Err(fresh), Err(kept)) => {
            prop_assert_eq!(fresh.to_string(), kept.to_string());
            return Ok(known);
        }
        (fresh, kept) => return Err(TestCaseError::fail(format!("{fresh:?}\n{kept:?}"))),
    };
    let nothing = (Revision("".into()), Documents::new());
    let (before, documents) = known.as_ref().unwrap_or(&nothing);
    let fresh = fresh.applied_to(&nothing.0, &nothing.1);
    let now = update.applied_to(before, documents);
    prop_assert_eq!(&now, &fresh);
    prop_assert_eq!(
        format!("{now:?}"),
        format!("{fresh:?}"),
        "positions and places too"
    );
    Ok(Some(now))
}

fn history(settled: impl Strategy<Value = bool>) -> impl Strategy<Value = Vec<Step>> {
    let changes = prop::collection::vec(change(), 0..3);
    prop::collection::vec((changes, 0_usize..3, settled), 1..25)
}

proptest! {
    #[test]
    fn r43_delta_equals_a_whole_reading(named in any::<bool>(), history in history(any::<bool>())) {
        compare(history, named, false)?;
    }

    /// The time goes on rarely, because all files are listed then.
    #[test]
    fn r43_delta_equals_a_whole_reading_where_the_system_tells_of_changes(
        named in any::<bool>(),
        history in history(prop::bool::weighted(0.97)),
    ) {
        compare(history, named, true)?;
    }
}
