//! Files on a real disk: they are read completely or not at all, and every way in which editors write is noticed.

use std::{
    cell::Cell,
    fs,
    path::Path,
    sync::{Mutex, mpsc},
    time::Duration,
};

use proptest::prelude::*;

use super::{stable::Found, *};

const MANIFEST: &str = "clusters:\n  eu: {replicas: 2, weight: 1.5}\n  us: {replicas: 30}\n---\nversion: 12\nnotes:\n- plain\n- \"quoted\"\n...\n";

async fn outcome(source: &impl SourceOfTruth) -> String {
    match source.read().await {
        Ok(reading) => format!("{} documents", reading.documents.len()),
        Err(problems) => problems.to_string(),
    }
}

fn write(dir: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn r44_no_reading_begins_while_one_that_was_given_up_holds_its_thread() {
    let settings = Settings::new("m.yaml".into(), false);
    let (begun, told) = mpsc::channel();
    let (let_go, wait) = mpsc::channel::<()>();
    let holds = settings.aside(move |_| {
        begun.send(()).unwrap();
        let _ = wait.recv();
        Ok(Reading::new("1", vec![]))
    });
    {
        let mut holds = std::pin::pin!(holds);
        assert!(futures::poll!(&mut holds).is_pending());
        told.recv().unwrap();
    }
    let quick = async || settings.aside(|_| Ok(Reading::new("2", vec![]))).await;
    let refused = quick().await.unwrap_err().to_string();
    assert!(refused.contains("has not ended"), "{refused}");
    drop(let_go);
    while quick().await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn broken_files_are_reported_with_their_positions() {
    let dir = tempfile::tempdir().unwrap();
    let file = |text: &[u8]| YamlFile::new(write(dir.path(), "m.yaml", text));
    let empty = "m.yaml:1:1: the file is empty; to remove everything on purpose, see Turndown (says source m.yaml)";
    assert_eq!(outcome(&file(b"")).await, empty);
    assert_eq!(outcome(&file(b"# nothing\n\n")).await, empty);
    assert_eq!(
        outcome(&file(b"a: 1\nb: \xff")).await,
        "m.yaml:2:4: not UTF-8; save the file as UTF-8 text (says source m.yaml)"
    );
    let small = Limits {
        bytes: 10,
        ..Limits::default()
    };
    assert_eq!(
        outcome(&file(b"a: 4567890").limits(small)).await,
        "1 documents"
    );
    let long = outcome(&file(b"a: 45678901").limits(small)).await;
    assert!(long.contains("11 bytes long, 10 are allowed"), "{long}");
    let documents = file(b"---\n# c\n---\na: 1\n---\n---\nb: 1\n---\n");
    let documents = documents.read().await.unwrap().documents;
    let names: Vec<_> = documents.iter().map(Document::name).collect();
    assert_eq!(
        names,
        ["m.yaml#0", "m.yaml#1"],
        "skipped documents have no number"
    );
    let missing = outcome(&YamlFile::new(dir.path().join("none.yaml"))).await;
    assert!(missing.contains("none.yaml: cannot be read"), "{missing}");
}

#[tokio::test]
async fn equal_content_has_an_equal_revision() {
    let dir = tempfile::tempdir().unwrap();
    let a = YamlFile::new(write(dir.path(), "a.yaml", MANIFEST)).named("m");
    let b = YamlFile::new(write(dir.path(), "b.yaml", MANIFEST)).named("m");
    assert_eq!(a.read().await.unwrap(), b.read().await.unwrap());
    write(dir.path(), "b.yaml", "version: 13");
    assert_ne!(
        a.read().await.unwrap().revision,
        b.read().await.unwrap().revision
    );
}

#[tokio::test]
async fn directory_is_one_source_and_reports_every_broken_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = YamlDirectory::new(dir.path()).named("clusters");
    assert!(outcome(&source).await.contains("no YAML file"));
    fs::create_dir(dir.path().join("eu")).unwrap();
    write(dir.path(), "eu/b.yaml", "replicas: 1");
    write(dir.path(), "us.yml", "replicas: 2");
    write(dir.path(), ".hidden.yaml", "a: [");
    write(dir.path(), "README.md", "hello");
    let reading = source.read().await.unwrap();
    let names: Vec<_> = reading.documents.iter().map(Document::name).collect();
    assert_eq!(names, ["eu/b.yaml#0", "us.yml#0"]);
    write(dir.path(), "comments.yaml", "# nothing yet\n---\n");
    let reading = source.read().await.unwrap();
    assert_eq!(
        reading.documents.len(),
        2,
        "a file with comments only has no document"
    );
    write(dir.path(), "us.yml", "a: 1\na: 2");
    write(dir.path(), "eu/b.yaml", "");
    let said = outcome(&source).await;
    assert!(
        said.contains("eu/b.yaml:1:1:") && said.contains("us.yml:2:1:"),
        "{said}"
    );
}

#[tokio::test]
async fn directory_with_comments_only_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "# nothing\n");
    let said = outcome(&YamlDirectory::new(dir.path())).await;
    assert!(
        said.contains("no document in any YAML file of the directory"),
        "{said}"
    );
}

/// The texts that are read while `happens` changes the files. It runs after the first listing of each attempt (0, 2,
/// ...) and before the second listing (1, 3, ...).
#[cfg(unix)]
fn read_while(link: &Path, happens: impl Fn(u32)) -> Result<Vec<String>, Problems> {
    let looks = Cell::new(0);
    let list = || {
        let nth = looks.replace(looks.get() + 1);
        if nth % 2 == 1 {
            happens(nth);
        }
        let reached = fs::canonicalize(link).unwrap();
        let found = ["a", "b"].map(|name| Found::direct(link.join(name), reached.join(name)));
        if nth.is_multiple_of(2) {
            happens(nth);
        }
        Ok(found.into())
    };
    let files = stable::read_all(link, list, 100)?;
    let text = |(_, bytes): (PathBuf, Vec<u8>)| String::from_utf8(bytes).unwrap();
    Ok(files.into_iter().map(text).collect())
}

/// Two versions of a directory with the files `a` and `b`, and a link to the first.
#[cfg(unix)]
fn versions(dir: &Path) -> PathBuf {
    for version in ["1", "2"] {
        fs::create_dir(dir.join(version)).unwrap();
        for name in ["a", "b"] {
            write(&dir.join(version), name, version);
        }
    }
    switch(dir, "1");
    dir.join("link")
}

#[cfg(unix)]
fn switch(dir: &Path, version: &str) {
    std::os::unix::fs::symlink(version, dir.join("new")).unwrap();
    fs::rename(dir.join("new"), dir.join("link")).unwrap();
}

#[cfg(unix)]
#[test]
fn r44_reading_has_one_state_despite_concurrent_changes() {
    let read = |happens: &dyn Fn(&Path, u32)| {
        let dir = tempfile::tempdir().unwrap();
        let link = versions(dir.path());
        let read = read_while(&link, |nth| happens(dir.path(), nth));
        read.map_err(|problems| problems.to_string())
    };
    let first = |change: fn(&Path)| {
        move |dir: &Path, nth: u32| {
            if nth == 0 {
                change(dir)
            }
        }
    };
    let both = |text: &str| Ok(vec![text.to_owned(), text.to_owned()]);
    assert_eq!(read(&|_, _| {}), both("1"));
    assert_eq!(
        read(&first(|dir| switch(dir, "2"))),
        both("2"),
        "the link is switched"
    );
    let rewritten = first(|dir| {
        for name in ["a", "b"] {
            fs::write(dir.join("1").join(name), "new").unwrap();
        }
    });
    assert_eq!(read(&rewritten), both("new"), "files are written again");
    let replaced = first(|dir| {
        fs::rename(dir.join("1"), dir.join("0")).unwrap();
        fs::rename(dir.join("2"), dir.join("1")).unwrap();
    });
    assert_eq!(
        read(&replaced),
        both("2"),
        "the directory is swapped for another"
    );
    let there_and_back = |dir: &Path, nth: u32| {
        let moves = match nth {
            0 => [("1/a", "a"), ("2/a", "1/a")],
            1 => [("1/a", "2/a"), ("a", "1/a")],
            _ => return,
        };
        for (from, to) in moves {
            fs::rename(dir.join(from), dir.join(to)).unwrap();
        }
    };
    assert_eq!(
        read(&there_and_back),
        both("1"),
        "a file is swapped for a moment"
    );
    let restless = |dir: &Path, nth: u32| switch(dir, if nth % 4 < 2 { "2" } else { "1" });
    let said = read(&restless).unwrap_err();
    assert!(
        said.contains("link: changes while it is being read"),
        "{said}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn r44_directory_switched_by_a_link_is_read_in_one_state() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["1", "2"] {
        fs::create_dir(dir.path().join(version)).unwrap();
        for file in 0..8 {
            let text = format!("a: {version}");
            write(&dir.path().join(version), &format!("{file}.yaml"), text);
        }
    }
    switch(dir.path(), "1");
    // A link to a directory, as releases are switched; links to files, as Kubernetes mounts a ConfigMap.
    let mounted = dir.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    for file in 0..8 {
        let to = format!("../link/{file}.yaml");
        std::os::unix::fs::symlink(to, mounted.join(format!("{file}.yaml"))).unwrap();
    }
    let (stop, stopped) = mpsc::channel::<()>();
    let root = dir.path().to_owned();
    let switching = std::thread::spawn(move || {
        while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
            switch(&root, "2");
            switch(&root, "1");
        }
    });
    for source in [dir.path().join("link"), mounted].map(YamlDirectory::new) {
        for _ in 0..50 {
            let Ok(reading) = source.read().await else {
                continue;
            };
            let read: Result<std::collections::BTreeSet<_>, _> =
                reading.documents.iter().map(a).collect();
            assert_eq!(read.unwrap().len(), 1);
        }
    }
    drop(stop);
    switching.join().unwrap();
}

#[cfg(target_os = "linux")]
fn make_pipe(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn r44_path_that_is_not_a_regular_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("m.yaml");
    make_pipe(&pipe);
    fs::create_dir(dir.path().join("d")).unwrap();
    std::os::unix::fs::symlink("../m.yaml", dir.path().join("d/n.yaml")).unwrap();
    let sources: [Box<dyn SourceOfTruth>; 4] = [
        Box::new(YamlFile::new(&pipe)),
        Box::new(YamlFile::new(dir.path().join("d"))),
        Box::new(YamlDirectory::new(dir.path())),
        Box::new(YamlDirectory::new(dir.path().join("d"))),
    ];
    for source in sources {
        let read = tokio::time::timeout(Duration::from_secs(10), source.read()).await;
        let said = read.unwrap().unwrap_err().to_string();
        assert!(said.contains("is not a regular file"), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn r44_pipe_that_replaces_a_file_does_not_block_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let link = versions(dir.path());
    let (done, answer) = mpsc::channel();
    let root = dir.path().to_owned();
    std::thread::spawn(move || {
        let read = read_while(&link, |nth| {
            if nth == 0 {
                fs::remove_file(root.join("1/a")).unwrap();
                make_pipe(&root.join("1/a"));
            }
        });
        done.send(read.unwrap_err().to_string())
    });
    let said = answer.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(said.contains("link/a: is not a regular file"), "{said}");
}

/// A format whose parser reports that it has begun, and continues when the test tells it to.
struct Slow;

type Steps = (tokio::sync::mpsc::UnboundedSender<()>, mpsc::Receiver<()>);

static SLOW: Mutex<Option<Steps>> = Mutex::new(None);

impl Format for Slow {
    const NAME: &'static str = "slow";
    const EXTENSIONS: &'static [&'static str] = &["slow"];
    const END: Option<&'static str> = None;

    fn parse(_: &str, _: &Limits) -> Result<Vec<plugin_sdk::document::Node>, Problem> {
        let (begun, go_on) = SLOW.lock().unwrap().take().unwrap();
        begun.send(()).unwrap();
        let told = go_on.recv_timeout(Duration::from_secs(10));
        told.map_err(|_| Problem::new("parsing held the executor"))?;
        Ok(vec![serde_json::json!({"a": 1}).into()])
    }
}

#[tokio::test]
async fn r44_parsing_does_not_hold_the_executor() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "m.slow", "slow");
    let sources: [Box<dyn SourceOfTruth>; 2] = [
        Box::new(File::<Slow>::new(path)),
        Box::new(Directory::<Slow>::new(dir.path())),
    ];
    for source in sources {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, goes_on) = mpsc::channel();
        *SLOW.lock().unwrap() = Some((begun, goes_on));
        let read = tokio::spawn(async move { source.read().await });
        begins.recv().await.unwrap();
        let _ = go_on.send(());
        assert_eq!(read.await.unwrap().unwrap().documents.len(), 1);
    }
}

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

/// The value of the field `a` of a document.
fn a(document: &Document) -> Result<String, Problem> {
    let read = document.read::<serde_json::Value>();
    read.map(|it| it["a"].to_string())
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

#[test]
fn truncated_manifest_is_refused_or_reads_the_same() {
    let file = YamlFile::new("m.yaml").with_end_marker();
    let whole = file.parse(MANIFEST.as_bytes()).unwrap();
    let mut identical = 0;
    for cut in 0..MANIFEST.len() {
        if let Ok(reading) = file.parse(&MANIFEST.as_bytes()[..cut]) {
            assert_eq!(reading.documents, whole.documents, "cut at {cut}");
            identical += 1;
        }
    }
    assert_eq!(identical, 1, "only the last line break may be missing");
}

/// Manifests of many shapes, as text.
fn manifests() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        "[a-z .\n…#]{0,12}".prop_map(serde_json::Value::from),
        Just(serde_json::Value::from("...")),
    ];
    let tree = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-z.]{1,6}", inner, 0..4)
                .prop_map(serde_json::Value::from_iter),
        ]
    });
    prop::collection::btree_map("[a-z.]{1,6}", tree, 1..5).prop_map(serde_json::Value::from_iter)
}

proptest! {
    #[test]
    fn any_truncated_manifest_is_refused_or_reads_the_same(manifest in manifests(), at in any::<prop::sample::Index>()) {
        let block = |value: &serde_json::Value| match value {
            serde_json::Value::Object(map) => map.iter().map(|(key, value)| format!("\"{key}\":\n  {value}\n")).collect(),
            other => format!("{other}\n"),
        };
        let text = block(&manifest) + "...\n";
        let file = YamlFile::new("m.yaml").with_end_marker();
        let whole = file.parse(text.as_bytes()).unwrap();
        let cut = at.index(text.len());
        if let Ok(reading) = file.parse(&text.as_bytes()[..cut]) {
            prop_assert_eq!(reading.documents, whole.documents);
        }
        let json = serde_json::to_string_pretty(&manifest).unwrap();
        let cut = at.index(json.len());
        prop_assert!(JsonFile::new("m.json").parse(&json.as_bytes()[..cut]).is_err());
    }
}
