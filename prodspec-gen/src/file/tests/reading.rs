//! Reading files and directories: names, revisions, problems with their positions, and the thread that reads (R44).

use std::{
    fs,
    sync::{Mutex, mpsc},
    time::Duration,
};

use plugin_sdk::{Document, Problem, Reading, SourceOfTruth};

use super::{MANIFEST, outcome, write};
use crate::{
    file::{Files, YamlDirectory, YamlFile, directory::Folder, one::OneFile, settings::Settings},
    format::{Format, Limits},
};

#[tokio::test]
async fn r44_no_reading_begins_while_one_that_was_given_up_holds_its_thread() {
    let settings: Settings = Settings::new("m.yaml".into(), false);
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
        Box::new(Files::<OneFile<Slow>>::new(path)),
        Box::new(Files::<Folder<Slow>>::new(dir.path())),
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

#[test]
fn text_that_is_parsed_as_a_file_has_the_limits_of_a_file() {
    let limits = Limits {
        bytes: 5,
        ..Limits::default()
    };
    let source = YamlFile::new("a.yaml").limits(limits);
    assert!(source.parse(b"a: 1\n").is_ok());
    assert_eq!(
        source.parse(b"a: 12\n").unwrap_err().to_string(),
        "a.yaml: 6 bytes long, 5 are allowed; split the file (says source a.yaml)"
    );
}

#[tokio::test]
async fn r45_files_that_are_declared_as_rendered_are_no_templates() {
    let dir = tempfile::tempdir().unwrap();
    let text = "n: '{{ x }}'\na: b\n  {{- c }}\n";
    let file = YamlFile::new(write(dir.path(), "m.yaml", text));
    let named = |file: YamlFile| file.documents_named_by("n".parse().unwrap());
    let refused = outcome(&file).await;
    assert!(
        refused.starts_with("m.yaml:2:4: looks like a template"),
        "{refused}"
    );
    let rendered = named(file.clone().rendered().limits(Limits::default()));
    assert_eq!(
        rendered.read().await.unwrap().documents[0].name(),
        "{{ x }}"
    );
    write(dir.path(), "m.yaml", "a: 1\nn: '{{ x }}'\n");
    let refused = outcome(&named(file.clone())).await;
    assert!(
        refused.starts_with(
            "m.yaml#0:2:4: n: `{{ x }}` gives the document its name and looks like a template"
        ),
        "{refused}"
    );
    assert_eq!(outcome(&file).await, "1 documents", "no name, no template");
}
