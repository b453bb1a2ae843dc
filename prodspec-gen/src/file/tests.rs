//! Files on a real disk: read whole or not at all, watched through every way an editor writes.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;

const MANIFEST: &str = "clusters:\n  eu: {replicas: 2, weight: 1.5}\n  us: {replicas: 30}\n---\nversion: 12\nnotes:\n- plain\n- \"quoted\"\n...\n";

async fn says(source: &impl SourceOfTruth) -> String {
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
async fn broken_files_say_what_is_wrong_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let file = |text: &[u8]| YamlFile::new(write(dir.path(), "m.yaml", text));
    let empty = "m.yaml:1:1: the file is empty; to remove everything on purpose, see Turndown (says source m.yaml)";
    assert_eq!(says(&file(b"")).await, empty);
    assert_eq!(says(&file(b"# nothing\n\n")).await, empty);
    assert_eq!(
        says(&file(b"a: 1\nb: \xff")).await,
        "m.yaml:2:4: not UTF-8; save the file as UTF-8 text (says source m.yaml)"
    );
    let small = Limits {
        bytes: 10,
        ..Limits::default()
    };
    assert_eq!(
        says(&file(b"a: 4567890").limits(small)).await,
        "1 documents"
    );
    let long = says(&file(b"a: 45678901").limits(small)).await;
    assert!(long.contains("11 bytes long, 10 are allowed"), "{long}");
    let missing = says(&YamlFile::new(dir.path().join("none.yaml"))).await;
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
async fn a_directory_is_one_source_and_reports_every_broken_file() {
    let dir = tempfile::tempdir().unwrap();
    let source = YamlDirectory::new(dir.path()).named("clusters");
    assert!(says(&source).await.contains("no YAML file"));
    fs::create_dir(dir.path().join("eu")).unwrap();
    write(dir.path(), "eu/b.yaml", "replicas: 1");
    write(dir.path(), "us.yml", "replicas: 2");
    write(dir.path(), ".hidden.yaml", "a: [");
    write(dir.path(), "README.md", "hello");
    let reading = source.read().await.unwrap();
    let names: Vec<_> = reading.documents.iter().map(Document::name).collect();
    assert_eq!(names, ["eu/b.yaml#0", "us.yml#0"]);
    write(dir.path(), "us.yml", "a: 1\na: 2");
    write(dir.path(), "eu/b.yaml", "");
    let said = says(&source).await;
    assert!(
        said.contains("eu/b.yaml:1:1:") && said.contains("us.yml:2:1:"),
        "{said}"
    );
}

#[tokio::test]
async fn every_way_of_writing_a_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "m.yaml", "a: 1");
    let source = YamlFile::watch(&path);
    let mut changes = source.changes();
    write(dir.path(), "m.yaml", "a: 2");
    sees(&source, &mut changes, "2").await;
    let other = write(dir.path(), "m.yaml.new", "a: 3");
    fs::rename(other, &path).unwrap();
    sees(&source, &mut changes, "3").await;
}

#[tokio::test]
async fn a_watched_directory_notices_new_files() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "a.yaml", "a: 1");
    let source = YamlDirectory::watch(dir.path());
    let mut changes = source.changes();
    write(dir.path(), "b.yaml", "a: 2");
    sees(&source, &mut changes, "1, 2").await;
    fs::create_dir(dir.path().join("c")).unwrap();
    write(dir.path(), "c/c.yaml", "a: 3");
    sees(&source, &mut changes, "1, 2, 3").await;
}

#[cfg(unix)]
#[tokio::test]
async fn links_that_lead_elsewhere_are_noticed() {
    // As Kubernetes mounts a ConfigMap: what changes is where a hidden link leads to. And as releases are switched: what
    // changes is a link above.
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
            sees(&source, &mut changes, &version[2..]).await;
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_out_of_a_watched_directory_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    let outside = write(dir.path(), "m.yaml", "a: 1");
    std::os::unix::fs::symlink(&outside, dir.path().join("d/m.yaml")).unwrap();
    let source = YamlDirectory::watch(dir.path().join("d"));
    let mut changes = source.changes();
    for a in ["2", "3"] {
        fs::write(&outside, format!("a: {a}")).unwrap();
        sees(&source, &mut changes, a).await;
    }
}

#[tokio::test]
async fn a_directory_that_comes_later_or_is_replaced_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let watched = dir.path().join("above/d");
    let directory = YamlDirectory::watch(&watched);
    let file = YamlFile::watch(watched.join("a.yaml"));
    let mut hints = [directory.changes(), file.changes()];
    for round in 0..4 {
        fs::create_dir_all(&watched).unwrap();
        for a in [2 * round, 2 * round + 1] {
            write(&watched, "a.yaml", format!("a: {a}"));
            sees(&directory, &mut hints[0], &a.to_string()).await;
            sees(&file, &mut hints[1], &a.to_string()).await;
        }
        // Gone, or moved away; itself, or what it is in.
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
async fn a_directory_that_is_swapped_for_another_is_watched() {
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
            sees(&source, &mut changes, a).await;
        }
    }
}

/// Waits for the hint after which reading gives each document's `a` as told; hints may repeat. On a busy machine too.
async fn sees(source: &impl SourceOfTruth, changes: &mut BoxStream<'static, ()>, what: &str) {
    let a = |document: &Document| {
        document
            .read::<serde_json::Value>()
            .map(|it| it["a"].to_string())
    };
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
    assert!(told.await.is_ok(), "{what}: {}", says(source).await);
}

#[test]
fn a_manifest_cut_anywhere_is_refused_or_identical() {
    let file = YamlFile::new("m.yaml").with_end_marker();
    let whole = file.parse(MANIFEST.as_bytes()).unwrap();
    let mut identical = 0;
    for cut in 0..MANIFEST.len() {
        if let Ok(reading) = file.parse(&MANIFEST.as_bytes()[..cut]) {
            assert_eq!(reading.documents, whole.documents, "cut at {cut}");
            identical += 1;
        }
    }
    assert_eq!(identical, 1, "only the last line break may go");
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
    fn any_manifest_cut_anywhere_is_refused_or_identical(manifest in manifests(), at in any::<prop::sample::Index>()) {
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
