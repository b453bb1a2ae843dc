//! Sources whose files are those of a tree in memory, which counts what is read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use futures::{FutureExt, StreamExt, executor::block_on};
use plugin_sdk::{
    Document, Problem, Problems, SourceOfTruth, Update, conformance, document::DocumentKey,
};
use prodspec_model::{Digest, Revision};
use proptest::prelude::*;

use super::{Content, ContentId, Entry, Selection, Snapshot, Stop, Tree, TreeSource};
use crate::format::{Limits, Yaml};

/// A tree in memory. Clones share it.
#[derive(Clone, Default)]
struct Garden(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    files: BTreeMap<String, String>,
    revision: u32,
    /// A path that cannot be read.
    broken: Option<String>,
    /// The paths that were read.
    read: Vec<String>,
    listed: u32,
}

impl Garden {
    fn of(files: &[(&str, &str)]) -> Self {
        let garden = Self::default();
        files
            .iter()
            .for_each(|(path, text)| garden.write(path, text));
        garden
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) {
        let mut state = self.state();
        state.revision += 1;
        change(&mut state.files);
    }

    fn write(&self, path: &str, text: &str) {
        self.change(|files| drop(files.insert(path.into(), text.into())));
    }

    fn source(&self) -> TreeSource<Self, Yaml> {
        TreeSource::new("garden", self.clone())
    }

    fn read(&self) -> Vec<String> {
        std::mem::take(&mut self.state().read)
    }
}

impl Tree for Garden {
    fn look(
        &mut self,
        last: Option<&Revision>,
        _: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
        let revision = Snapshot::revision(self);
        let same = last == Some(&revision);
        Ok((!same).then(|| Box::new(self.clone()) as _))
    }
}

impl Snapshot for Garden {
    fn revision(&self) -> Revision {
        Revision(format!("commit:{:08}", self.state().revision).into())
    }

    fn list(&mut self, _: &Selection) -> Result<Vec<Entry>, Problems> {
        let mut state = self.state();
        state.listed += 1;
        let entry = |(path, text): (&String, &String)| match text.strip_prefix("->") {
            Some(_) => Entry::refused(path, "is a link; replace it by a file"),
            None => Entry::file(path, ContentId::from(&Digest::of(text.as_bytes()).0[..])),
        };
        Ok(state.files.iter().rev().map(entry).collect())
    }

    fn read(&mut self, entry: &Entry, cap: u64) -> Result<Content, Problem> {
        let mut state = self.state();
        state.read.push(entry.path().into());
        if state.broken.as_deref() == Some(entry.path()) {
            return Err(Problem::new("cannot be read"));
        }
        let text = &state.files[entry.path()];
        Ok(match text.len() as u64 > cap {
            true => Content::TooLong(text.len() as u64),
            false => Content::Bytes(text.clone().into()),
        })
    }
}

fn names(documents: &[Document]) -> Vec<String> {
    documents.iter().map(Document::name).collect()
}

fn refusal(source: &TreeSource<Garden, Yaml>) -> String {
    block_on_tokio(source.read()).unwrap_err().to_string()
}

fn block_on_tokio<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work)
}

#[tokio::test]
async fn tree_is_read_below_its_path_in_the_order_of_paths() {
    let garden = Garden::of(&[
        ("README.md", "- no"),
        ("other/a.yaml", "a: 1"),
        ("configs/b.yaml", "a: 1\n---\na: 2"),
        ("configs/a-b/c.yaml", "a: 1"),
        ("configs/a/c.yml", "a: 1"),
        ("configs/.git/c.yaml", "a: 1"),
        ("configs/c.json", "{}"),
    ]);
    let source = garden.source().path("./configs/");
    let reading = source.read().await.unwrap();
    let expected = [
        "configs/a/c.yml#0",
        "configs/a-b/c.yaml#0",
        "configs/b.yaml#0",
        "configs/b.yaml#1",
    ];
    assert_eq!(names(&reading.documents), expected);
    assert_eq!(garden.read().len(), 3);
    let one = garden.source().path("README.md");
    assert_eq!(names(&one.read().await.unwrap().documents), ["README.md#0"]);
}

#[tokio::test]
async fn r43_unchanged_file_of_a_tree_is_not_read_again() {
    let garden = Garden::of(&[("a.yaml", "a: 1"), ("b.yaml", "a: 1"), ("c.yaml", "a: 1")]);
    let source = garden.source();
    let first = source.read().await.unwrap().revision;
    assert_eq!(garden.read().len(), 3);
    assert_eq!(source.read_since(&first).await.unwrap(), Update::Same);
    assert_eq!(garden.state().listed, 1, "the revision tells");
    garden.write("b.yaml", "a: 2");
    garden.change(|files| drop(files.remove("c.yaml")));
    let Update::Delta(delta) = source.read_since(&first).await.unwrap() else {
        panic!("the first revision is known");
    };
    assert_eq!(names(&delta.put), ["b.yaml#0"]);
    assert_eq!(delta.gone.len(), 1);
    assert_eq!(garden.read(), ["b.yaml"]);
}

#[tokio::test]
async fn r44_problems_name_the_present_revision() {
    let garden = Garden::of(&[("configs/a.yaml", "a: ["), ("configs/b.yaml", "-> a.yaml")]);
    let source = garden.source();
    let said = |problems: Problems| problems.to_string();
    let first = said(source.read().await.unwrap_err());
    assert!(
        first.starts_with("configs/a.yaml at commit:0000000:"),
        "{first}"
    );
    assert!(
        first.contains("\nconfigs/b.yaml at commit:0000000: is a link"),
        "{first}"
    );
    assert!(first.ends_with("(says source garden)"), "{first}");
    let again = said(source.read().await.unwrap_err());
    assert_eq!(again, first);
    garden.state().revision = 99_999_990;
    let moved = said(source.read().await.unwrap_err());
    assert!(
        moved.starts_with("configs/a.yaml at commit:9999999:"),
        "{moved}"
    );
}

#[test]
fn file_that_cannot_be_read_is_read_again_at_the_same_revision() {
    let garden = Garden::of(&[("a.yaml", "a: 1"), ("b.yaml", "a: 1")]);
    let source = garden.source();
    garden.state().broken = Some("b.yaml".into());
    let said = refusal(&source);
    assert!(
        said.starts_with("b.yaml at commit:0000000: cannot be read"),
        "{said}"
    );
    garden.state().broken = None;
    garden.read();
    assert_eq!(block_on_tokio(source.read()).unwrap().documents.len(), 2);
    assert_eq!(garden.read(), ["b.yaml"]);
}

#[test]
fn limits_count_all_files_of_a_tree() {
    let garden = Garden::of(&[("a.yaml", "a: 1"), ("b.yaml", "a: 1"), ("c.yaml", "a: 1")]);
    let limits = |bytes| Limits {
        bytes,
        ..Limits::default()
    };
    let source = garden.source().limits(limits(11));
    let said = refusal(&source);
    assert!(
        said.contains("c.yaml at commit:0000000: 4 bytes long, 3 are allowed"),
        "{said}"
    );
    garden.write("a.yaml", "- 1");
    assert!(block_on_tokio(source.read()).is_ok());
    garden.write("a.yaml", "a:   1");
    let said = refusal(&source);
    assert!(
        said.contains("c.yaml at commit:0000000: 4 bytes long, 1 are allowed"),
        "{said}"
    );
}

#[test]
fn tree_without_documents_is_refused() {
    let garden = Garden::of(&[("a.json", "{}")]);
    let said = refusal(&garden.source().path("configs"));
    assert!(
        said.starts_with("configs at commit:0000000: no YAML file; add one"),
        "{said}"
    );
    garden.write("b.yaml", "# later");
    let said = refusal(&garden.source());
    assert!(
        said.starts_with("the tree at commit:0000000: no document in any YAML file"),
        "{said}"
    );
    garden.write("b.yaml", "");
    let said = refusal(&garden.source());
    assert!(said.contains("the file is empty"), "{said}");
}

#[test]
fn links_elsewhere_do_not_matter() {
    let garden = Garden::of(&[("a/b.yaml", "a: 1"), ("link", "-> a"), ("a/.link", "-> b")]);
    assert!(block_on_tokio(garden.source().path("a").read()).is_ok());
    let said = refusal(&garden.source().path("link/b.yaml"));
    assert!(
        said.starts_with("link at commit:0000000: is a link"),
        "{said}"
    );
}

#[test]
fn hook_gives_a_hint_to_every_stream() {
    let source = Garden::default().source();
    let (mut one, mut two) = (source.changes(), source.changes());
    assert!(one.next().now_or_never().is_none());
    source.hook().poke();
    source.hook().poke();
    block_on(async { (one.next().await, two.next().await) });
    assert!(
        one.next().now_or_never().is_none(),
        "both hints count as one"
    );
}

/// A tree whose server never answers, until it is told to stop. It tells when it is asked, and whether it was told to stop
/// when it ends.
struct Silent(std::sync::mpsc::Sender<bool>);

impl Tree for Silent {
    fn look(
        &mut self,
        _: Option<&Revision>,
        stop: &Stop,
    ) -> Result<Option<Box<dyn Snapshot + '_>>, Problems> {
        let (send, wait) = std::sync::mpsc::channel::<()>();
        let _ = self.0.send(stop.is_stopped());
        stop.when_over(move || drop(send));
        let ended = wait.recv().is_err();
        let _ = self.0.send(ended && stop.is_stopped());
        Err(Problem::new("was told to stop").into())
    }
}

#[tokio::test(start_paused = true)]
async fn r44_reading_that_is_given_up_ends_and_lets_the_next_begin() {
    let (send, ended) = std::sync::mpsc::channel();
    let source = TreeSource::<_, Yaml>::new("silent", Silent(send));
    for _ in 0..2 {
        let mut reading = source.read();
        // The thread of the reading before may need a moment to end.
        while (&mut reading).now_or_never().is_some() {
            std::thread::yield_now();
            reading = source.read();
        }
        assert!(!ended.recv().unwrap(), "it is asked");
        drop(reading);
        assert!(ended.recv().unwrap(), "it is told to stop");
    }
}

#[tokio::test]
async fn r43_tree_keeps_the_laws_of_sources() {
    let garden = Garden::of(&[("a.yaml", "a: 1"), ("b/c.yaml", "a: 1")]);
    let change = |path: &'static str, text: Option<&'static str>| {
        let garden = garden.clone();
        move || {
            garden.change(|files| match text {
                Some(text) => drop(files.insert(path.into(), text.into())),
                None => drop(files.remove(path)),
            });
        }
    };
    let changes = [
        change("a.yaml", Some("a: 2\n---\na: 3")),
        change("b/d.yaml", Some("a: 1")),
        change("b/c.yaml", None),
        change("a.yaml", Some("a: 1")),
    ];
    conformance::source(&garden.source(), changes)
        .await
        .unwrap();
}

type Documents = BTreeMap<DocumentKey, Document>;

proptest! {
    /// Each reading is compared with that of a source without a past. Texts include a link, a broken and an empty file.
    #[test]
    fn r43_delta_of_a_tree_equals_a_whole_reading(
        history in prop::collection::vec((prop::collection::vec((0_usize..5, 0_usize..8), 0..3), 0_usize..3), 1..25),
    ) {
        let texts = [Some("a: 1"), Some("a: 2"), Some("a: 1\n---\na: 2"), Some("# none"), Some("a: ["), Some("-> b"), None, None];
        let paths = ["a.yaml", "b.yaml", "b/a.yaml", "b-c/a.yaml", "b/c/a.yaml"];
        let garden = Garden::of(&[("z.yaml", "a: 0")]);
        let kept = garden.source();
        let mut changed: BTreeSet<&str> = ["z.yaml"].into();
        let mut callers: [Option<(Revision, Documents)>; 3] = Default::default();
        let nothing = (Revision("".into()), Documents::new());
        for (changes, caller) in history {
            for (path, text) in changes {
                changed.insert(paths[path]);
                garden.change(|files| match texts[text] {
                    Some(text) => drop(files.insert(paths[path].into(), text.into())),
                    None => drop(files.remove(paths[path])),
                });
            }
            let fresh = block_on_tokio(garden.source().read());
            garden.read();
            let (before, documents) = callers[caller].as_ref().unwrap_or(&nothing);
            let update = match callers[caller] {
                Some(_) => block_on_tokio(kept.read_since(before)),
                None => block_on_tokio(kept.read()).map(Update::Whole),
            };
            match (fresh, update) {
                (Ok(fresh), Ok(update)) => {
                    let fresh = Update::Whole(fresh).applied_to(&nothing.0, &nothing.1);
                    let now = update.applied_to(before, documents);
                    prop_assert_eq!(&now, &fresh);
                    callers[caller] = Some(now);
                }
                (Err(fresh), Err(kept)) => prop_assert_eq!(fresh.to_string(), kept.to_string()),
                (fresh, kept) => return Err(TestCaseError::fail(format!("{fresh:?}\n{kept:?}"))),
            }
            let read = garden.read();
            let all_changed = read.iter().all(|path| changed.contains(path.as_str()));
            prop_assert!(all_changed, "{:?} of {:?}", read, changed);
            changed.clear();
        }
    }
}
