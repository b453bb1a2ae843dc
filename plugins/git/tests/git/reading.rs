//! What a source reads of a real repository.

use crate::origin::{Counting, Origin, names, refusal};
use plugin_sdk::{SourceOfTruth, Update, conformance};
use plugins_git::Git;
use prodspec_gen::{
    format::{Limits, Yaml},
    tree::TreeSource,
};

#[tokio::test]
async fn files_of_the_format_below_the_path_are_read_at_the_commit() {
    let origin = Origin::of(&[
        ("README.md", "# hello"),
        ("other.yaml", "a: ["),
        ("configs/eu.yaml", "a: 1"),
        ("configs/us/east.yml", "a: 1\n---\na: 2"),
        ("configs/.github/x.yaml", "a: ["),
        ("configs/x.json", "{"),
    ]);
    let source = Git::new(&origin.url())
        .branch("main")
        .yaml()
        .path("configs");
    let reading = source.read().await.unwrap();
    assert_eq!(*reading.revision.0, *origin.head());
    let expected = [
        "configs/eu.yaml#0",
        "configs/us/east.yml#0",
        "configs/us/east.yml#1",
    ];
    assert_eq!(names(&reading.documents), expected);
    let one = Git::new(&origin.url()).json().path("configs/eu.yaml");
    assert!(refusal(&one).await.starts_with("configs/eu.yaml at "));
    let file_url = format!("file://{}", origin.url());
    let default = Git::new(&file_url).yaml().path("configs").read().await;
    assert_eq!(default.unwrap().revision, reading.revision);
}

#[tokio::test]
async fn r43_only_files_that_changed_are_read() {
    let origin = Origin::of(&[("a.yaml", "a: 1"), ("b.yaml", "a: 1"), ("c/d.yaml", "a: 1")]);
    let (tree, read) = Counting::new(Git::new(&origin.url()).branch("main"));
    let source = TreeSource::<_, Yaml>::new("origin", tree);
    let first = source.read().await.unwrap().revision;
    assert_eq!(read.lock().unwrap().len(), 3);
    assert_eq!(source.read_since(&first).await.unwrap(), Update::Same);
    origin.write("b.yaml", "a: 2");
    origin.git(&["mv", "c/d.yaml", "e.yaml"]);
    origin.commit();
    read.lock().unwrap().clear();
    let Update::Delta(delta) = source.read_since(&first).await.unwrap() else {
        panic!("the first revision is known");
    };
    assert_eq!(names(&delta.put), ["b.yaml#0", "e.yaml#0"]);
    assert_eq!(delta.gone[0].to_string(), "c/d.yaml#0");
    assert_eq!(*read.lock().unwrap(), ["b.yaml", "e.yaml"]);
}

#[tokio::test]
async fn r43_commit_that_changes_no_file_gives_an_empty_delta() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    let source = Git::new(&origin.url()).yaml();
    let first = source.read().await.unwrap().revision;
    let second = origin.commit();
    let Update::Delta(delta) = source.read_since(&first).await.unwrap() else {
        panic!("the first revision is known");
    };
    assert_eq!(
        (&*delta.revision.0, delta.put.len(), delta.gone.len()),
        (&*second, 0, 0)
    );
}

#[tokio::test]
async fn tags_are_read_at_the_commit_that_they_name() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    origin.git(&["tag", "light"]);
    origin.git(&["tag", "--annotate", "--message=one", "heavy"]);
    origin.git(&["tag", "--annotate", "--message=two", "nested", "heavy"]);
    origin.git(&["update-ref", "refs/environments/production", "HEAD"]);
    let tagged = origin.head();
    origin.write("a.yaml", "a: [");
    origin.commit();
    let git = || Git::new(&origin.url());
    let production = git().reference("refs/environments/production");
    let tags = [
        git().tag("light"),
        git().tag("heavy"),
        git().tag("nested"),
        production,
    ];
    for source in tags.map(Git::yaml) {
        let reading = source.read().await.unwrap();
        assert_eq!(*reading.revision.0, *tagged);
        let again = source.read_since(&reading.revision).await.unwrap();
        assert_eq!(again, Update::Same);
    }
    origin.git(&["tag", "tree", "HEAD^{tree}"]);
    let said = refusal(&git().tag("tree").yaml()).await;
    assert!(
        said.contains("its tag `tree` names a tree, not a commit"),
        "{said}"
    );
}

#[tokio::test]
async fn r44_refused_run_names_commit_path_and_line() {
    let origin = Origin::of(&[
        ("configs/eu.yaml", "a: 1\nb:\n  - [\n"),
        ("configs/us.yaml", "a: 1\na: 2"),
    ]);
    let source = Git::new(&origin.url())
        .yaml()
        .path("configs")
        .named("clusters");
    let said = refusal(&source).await;
    let short = &origin.head()[..7];
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with(&format!("configs/eu.yaml at {short}:")),
        "{said}"
    );
    assert!(
        lines[1].starts_with(&format!("configs/us.yaml at {short}:2:1: ")),
        "{said}"
    );
    assert!(lines[1].ends_with("(says source clusters)"), "{said}");
}

#[cfg(unix)]
#[tokio::test]
async fn links_and_submodules_are_refused_where_they_matter() {
    let origin = Origin::of(&[("configs/a.yaml", "a: 1")]);
    std::os::unix::fs::symlink("configs/a.yaml", origin.file("top.yaml")).unwrap();
    origin.commit();
    let source = Git::new(&origin.url()).yaml().path("configs");
    assert_eq!(source.read().await.unwrap().documents.len(), 1);
    std::os::unix::fs::symlink("a.yaml", origin.file("configs/b.yaml")).unwrap();
    let commit = origin.head();
    let submodule = format!("160000,{commit},configs/sub");
    origin.git(&["update-index", "--add", "--cacheinfo", &submodule]);
    origin.git(&["add", "configs/b.yaml"]);
    origin.git(&["commit", "--quiet", "--message=links"]);
    let said = refusal(&source).await;
    let short = &origin.head()[..7];
    assert!(
        said.contains(&format!("configs/b.yaml at {short}: is a symbolic link")),
        "{said}"
    );
    assert!(
        said.contains(&format!("configs/sub at {short}: is a submodule")),
        "{said}"
    );
    let said = refusal(&Git::new(&origin.url()).yaml().path("top.yaml")).await;
    assert!(said.contains("is a symbolic link"), "{said}");
}

#[tokio::test]
async fn long_file_is_refused_without_reading_it() {
    let origin = Origin::of(&[("a.yaml", "a: 1")]);
    origin.write("b.yaml", format!("a: {}", "x".repeat(5000)));
    origin.commit();
    let limits = Limits {
        bytes: 1000,
        ..Limits::default()
    };
    let source = Git::new(&origin.url()).yaml().limits(limits);
    let said = refusal(&source).await;
    assert!(said.contains("5003 bytes long, 996 are allowed"), "{said}");
    origin.write("b.yaml", "a: 2");
    origin.commit();
    assert_eq!(source.read().await.unwrap().documents.len(), 2);
}

#[tokio::test]
async fn r43_repository_keeps_the_laws_of_sources() {
    let origin = Origin::of(&[("a.yaml", "a: 1"), ("b/c.yaml", "a: 1")]);
    let change = |path: &'static str, text: Option<&'static str>| {
        let origin = &origin;
        move || {
            match text {
                Some(text) => origin.write(path, text),
                None => std::fs::remove_file(origin.file(path)).unwrap(),
            }
            origin.commit();
        }
    };
    let changes = [
        change("a.yaml", Some("a: 2\n---\na: 3")),
        change("b/d.yaml", Some("a: 1")),
        change("b/c.yaml", None),
        change("a.yaml", Some("a: 1")),
    ];
    let source = Git::new(&origin.url()).branch("main").yaml();
    conformance::source(&source, changes).await.unwrap();
}
