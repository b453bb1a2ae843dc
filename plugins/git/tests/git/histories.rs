//! R43: for random histories of a repository, what has changed since a known commit gives the documents of a whole
//! reading, and only files whose content has changed are read.

use std::{collections::BTreeMap, fs};

use plugin_sdk::{Document, SourceOfTruth, Update, document::DocumentKey};
use plugins_git::Git;
use prodspec_gen::{format::Yaml, tree::TreeSource};
use prodspec_model::Revision;
use proptest::prelude::*;

use crate::origin::{Counting, Origin};

const PATHS: [&str; 5] = ["a.yaml", "b.yaml", "a/b.yaml", "a-b/c.yaml", "d/e/f.yaml"];
const TEXTS: [&str; 5] = ["a: 1", "a: 2", "a: 1\n---\na: 2", "# none", "a: ["];

/// One change of the repository. Numbers are indices of the tables above.
#[derive(Debug, Clone)]
enum Change {
    Write(usize, usize),
    Remove(usize),
    Rename(usize, usize),
    /// A file takes the place of a directory.
    Flatten,
    /// The branch goes back to an earlier commit.
    Back(usize),
    /// The branch gets a commit without a past.
    Orphan,
}

fn change() -> impl Strategy<Value = Change> {
    let (path, text) = (0..PATHS.len(), 0..TEXTS.len());
    prop_oneof![
        6 => (path.clone(), text).prop_map(|(path, text)| Change::Write(path, text)),
        2 => path.clone().prop_map(Change::Remove),
        2 => (path.clone(), path).prop_map(|(from, to)| Change::Rename(from, to)),
        1 => Just(Change::Flatten),
        2 => (1_usize..4).prop_map(Change::Back),
        1 => Just(Change::Orphan),
    ]
}

/// Makes a change, which may do nothing, and commits it. `commits` are those of the branch so far.
fn apply(origin: &Origin, nth: usize, change: &Change, commits: &mut Vec<String>) {
    let remove = |path: &str| {
        let path = origin.file(path);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    };
    match change {
        Change::Write(path, text) => {
            if fs::metadata(origin.file("d")).is_ok_and(|it| it.is_file()) {
                remove("d");
            }
            origin.write(PATHS[*path], TEXTS[*text]);
        }
        Change::Remove(path) => remove(PATHS[*path]),
        Change::Rename(from, to) => {
            let to = origin.file(PATHS[*to]);
            let _ = fs::rename(origin.file(PATHS[*from]), to);
        }
        Change::Flatten => {
            remove("d");
            origin.write("d", "a: 1");
        }
        Change::Back(steps) => {
            let at = commits.len().saturating_sub(1 + steps);
            origin.git(&["reset", "--quiet", "--hard", &commits[at]]);
            return;
        }
        Change::Orphan => {
            let name = format!("orphan{nth}");
            origin.git(&["checkout", "--quiet", "--orphan", &name]);
            origin.commit();
            origin.git(&["branch", "--force", "main", &name]);
            origin.git(&["checkout", "--quiet", "main"]);
        }
    }
    commits.push(origin.commit());
}

type Documents = BTreeMap<DocumentKey, Document>;
type Known = (Revision, Documents);

/// The content of each file by its path, as Git lists it.
fn blobs(origin: &Origin) -> BTreeMap<String, String> {
    let listed = origin.git(&["ls-tree", "-r", "HEAD"]);
    let blob = |line: &str| {
        let (about, path) = line.split_once('\t').unwrap();
        (path.to_owned(), about.to_owned())
    };
    listed.lines().map(blob).collect()
}

fn check(history: Vec<(Vec<Change>, usize)>) -> Result<(), TestCaseError> {
    let origin = Origin::of(&[("z.yaml", "a: 0")]);
    let (tree, read) = Counting::new(Git::new(&origin.url()).branch("main"));
    let kept = TreeSource::<_, Yaml>::new("origin", tree);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut callers: [Option<Known>; 2] = Default::default();
    let (mut commits, mut nth) = (vec![origin.head()], 0);
    let mut before = BTreeMap::new();
    let nothing = (Revision("".into()), Documents::new());
    for (changes, caller) in history {
        for change in &changes {
            nth += 1;
            apply(&origin, nth, change, &mut commits);
        }
        let fresh = Git::new(&origin.url())
            .branch("main")
            .yaml()
            .named("origin");
        let fresh = runtime.block_on(fresh.read());
        let update = runtime.block_on(async {
            match &callers[caller] {
                Some((revision, _)) => kept.read_since(revision).await,
                None => kept.read().await.map(Update::Whole),
            }
        });
        match (fresh, update) {
            (Ok(fresh), Ok(update)) => {
                prop_assert_eq!(&*fresh.revision.0, &*origin.head());
                let fresh = Update::Whole(fresh).applied_to(&nothing.0, &nothing.1);
                let (revision, documents) = callers[caller].as_ref().unwrap_or(&nothing);
                let now = update.applied_to(revision, documents);
                prop_assert_eq!(&now, &fresh);
                callers[caller] = Some(now);
            }
            (Err(fresh), Err(kept)) => prop_assert_eq!(fresh.to_string(), kept.to_string()),
            (fresh, kept) => return Err(TestCaseError::fail(format!("{fresh:?}\n{kept:?}"))),
        }
        let now = blobs(&origin);
        let changed = now
            .iter()
            .filter(|(path, blob)| before.get(*path) != Some(*blob));
        let changed = changed.filter(|(path, _)| path.ends_with(".yaml"));
        let changed: Vec<String> = changed.map(|(path, _)| path.clone()).collect();
        let mut read = std::mem::take(&mut *read.lock().unwrap());
        read.sort();
        prop_assert_eq!(read, changed);
        before = now;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn r43_delta_of_a_repository_equals_a_whole_reading(
        history in prop::collection::vec((prop::collection::vec(change(), 0..3), 0_usize..2), 1..10),
    ) {
        check(history)?;
    }
}
