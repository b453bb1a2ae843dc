//! Changes between and during runs: the program runs again when an input has changed, and only then.

use std::{fs, os::unix::fs::symlink, process::Command, time::Duration};

use futures::stream::StreamExt;
use plugin_sdk::{Delta, SourceOfTruth, Update, conformance};
use serde_json::json;

use super::{Exec, Script, read, refused, values};

/// A script that prints the file `in.yaml`, which is an input.
fn printer() -> (Script, Exec) {
    let script = Script::new("cat in.yaml");
    script.write("in.yaml", "a: 1");
    let source = script.source().input("in.yaml");
    (script, source)
}

async fn delta(source: &Exec, since: &plugin_sdk::Reading) -> Delta {
    match source.read_since(&since.revision).await.unwrap() {
        Update::Delta(delta) => delta,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn r46_program_does_not_run_again_while_its_inputs_are_the_same() {
    let (script, source) = printer();
    let first = read(&source).await;
    assert_eq!(read(&source.clone()).await, first);
    assert_eq!(
        source.read_since(&first.revision).await.unwrap(),
        Update::Same
    );
    // The file is a new one, with the same content.
    script.write("new", "a: 1");
    fs::rename(script.path("new"), script.path("in.yaml")).unwrap();
    assert_eq!(
        source.read_since(&first.revision).await.unwrap(),
        Update::Same
    );
    assert_eq!(script.runs(), 1);
}

#[tokio::test]
async fn r46_program_runs_again_when_an_input_changes() {
    let (script, source) = printer();
    let first = read(&source).await;
    script.write("in.yaml", "a: 2");
    let second = read(&source).await;
    assert_eq!(values(&second.documents), [json!({"a": 2})]);
    assert_ne!(second.revision, first.revision);
    script.write("in.yaml", "a: 1");
    assert_eq!(
        read(&source).await,
        first,
        "revisions name inputs and output"
    );
    assert_eq!(script.runs(), 3);
}

/// Installs a program in the directory of a script. Another process writes it: this one starts others meanwhile, which
/// would have it open for writing.
fn install(script: &Script, name: &str, text: &str) {
    script.write("text", &format!("#!/bin/sh\n{text}\n"));
    let steps = format!("cp text new && chmod 755 new && mv new {name}");
    let mut shell = Command::new("sh");
    let shell = shell.args(["-c", &steps]).current_dir(script.dir.path());
    assert!(shell.status().unwrap().success());
}

#[tokio::test]
async fn r46_changed_program_runs_again() {
    let script = Script::new("");
    install(&script, "program", "echo 'a: 1'");
    let source = Exec::new("rendered", script.path("program"));
    let first = read(&source).await;
    install(&script, "program", "echo 'a: 2'");
    let second = read(&source).await;
    assert_eq!(values(&second.documents), [json!({"a": 2})]);
    assert_ne!(second.revision, first.revision);
}

#[tokio::test]
async fn r46_link_to_another_program_runs_it() {
    let script = Script::new("");
    symlink("/bin/sh", script.path("shell")).unwrap();
    let print = "echo \"bash: ${BASH_VERSION:+yes}\"";
    let source = Exec::new("rendered", script.path("shell")).args(["-c", print]);
    assert_eq!(
        values(&read(&source).await.documents),
        [json!({"bash": null})]
    );
    symlink("/bin/bash", script.path("new")).unwrap();
    fs::rename(script.path("new"), script.path("shell")).unwrap();
    assert_eq!(
        values(&read(&source).await.documents),
        [json!({"bash": "yes"})]
    );
}

#[tokio::test]
async fn r44_program_replaced_during_its_run_runs_again() {
    let script = Script::new("");
    install(&script, "next", "echo 'a: 2'");
    install(&script, "program", "echo 'a: 1'; /bin/mv next program");
    let source = Exec::new("rendered", script.path("program")).current_dir(script.dir.path());
    assert_eq!(values(&read(&source).await.documents), [json!({"a": 2})]);
}

#[tokio::test]
async fn r46_every_file_of_an_input_directory_counts() {
    let script = Script::new("cat in/*.yaml in/link/*.yaml in/.hidden");
    for (name, text) in [
        ("in/a.yaml", "a: 1"),
        ("far/b.yaml", "b: 1"),
        ("in/.hidden", "c: 1"),
        ("in/.git/HEAD", "1"),
    ] {
        let path = script.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    symlink("../far", script.path("in/link")).unwrap();
    symlink("user@host.1:2", script.path("in/.#a.yaml")).unwrap();
    let source = script.source().input("in");
    for (round, name) in [("in/a.yaml", "a"), ("far/b.yaml", "b"), ("in/.hidden", "c")]
        .iter()
        .enumerate()
    {
        read(&source).await;
        assert_eq!(script.runs(), 1 + round);
        script.write(name.0, &format!("{}: 2\n", name.1));
    }
    let all = read(&source).await;
    assert_eq!(values(&all.documents), [json!({"a": 2, "b": 2, "c": 2})]);
    script.write("in/.git/HEAD", "2");
    assert_eq!(
        source.read_since(&all.revision).await.unwrap(),
        Update::Same
    );
    script.write("in/new.txt", "");
    read(&source).await;
    assert_eq!(script.runs(), 5, "a new file is a change");
}

#[tokio::test]
async fn r46_run_that_failed_is_repeated_and_the_last_good_one_is_kept() {
    let script = Script::new("cat in.yaml; [ ! -e broken ]");
    script.write("in.yaml", "a: 1");
    let source = script.source().input("in.yaml");
    let good = read(&source).await;
    script.write("broken", "");
    script.write("in.yaml", "a: 2");
    refused(&source).await;
    refused(&source).await;
    fs::remove_file(script.path("broken")).unwrap();
    let delta = delta(&source, &good).await;
    assert_eq!(values(&delta.put), [json!({"a": 2})]);
    assert_eq!(script.runs(), 4);
}

#[tokio::test]
async fn r46_equal_output_of_other_inputs_is_an_empty_delta() {
    let script = Script::new("grep -v '#' in.yaml");
    script.write("in.yaml", "a: 1\n");
    let source = script.source().input("in.yaml");
    let first = read(&source).await;
    script.write("in.yaml", "a: 1\n# a comment\n");
    let delta = delta(&source, &first).await;
    assert_ne!(delta.revision, first.revision);
    assert_eq!((delta.put.len(), delta.gone.len()), (0, 0));
}

#[tokio::test]
async fn r46_delta_has_the_changed_documents_only() {
    let (script, source) = printer();
    script.write("in.yaml", "a: 1\n---\na: 2\n---\na: 3\n");
    let first = read(&source).await;
    script.write("in.yaml", "a: 1\n---\na: 9\n");
    let delta = delta(&source, &first).await;
    assert_eq!(values(&delta.put), [json!({"a": 9})]);
    assert_eq!(delta.gone, [first.documents[2].key().clone()]);
}

#[tokio::test]
async fn r46_source_keeps_the_laws_of_sources() {
    let (script, source) = printer();
    let texts = [
        "a: 1\n---\na: 2",
        "a: 1\n---\na: 3\n",
        "a: 1",
        "# a comment\na: 1",
        "a: 2\n---\na: 1\n---\na: 2",
        "a: 1",
    ];
    let changes = texts.map(|text| {
        let script = &script;
        move || script.write("in.yaml", text)
    });
    conformance::source(&source, changes).await.unwrap();
    assert_eq!(script.runs(), 1 + texts.len());
}

#[tokio::test]
async fn r44_input_changed_during_a_run_is_read_by_another_run() {
    let script = Script::new("cat in.yaml; [ -e once ] || { > once; echo 'a: 2' > in.yaml; }");
    script.write("in.yaml", "a: 1");
    let reading = read(&script.source().input("in.yaml")).await;
    assert_eq!(values(&reading.documents), [json!({"a": 2})]);
    assert_eq!(script.runs(), 2);
}

#[tokio::test]
async fn r44_input_put_back_during_the_run_is_refused() {
    let script = Script::new(
        "cp in.yaml kept; echo 'a: 9' > new; mv new in.yaml; cat in.yaml; mv kept in.yaml",
    );
    script.write("in.yaml", "a: 1");
    let said = refused(&script.source().input("in.yaml")).await;
    assert!(
        said.contains("an input changed during each of 3 runs"),
        "{said}"
    );
    assert_eq!(script.runs(), 3);
}

#[tokio::test]
async fn r44_program_that_changes_its_inputs_is_refused_even_if_it_fails() {
    let script = Script::new("cp runs in.yaml; exit 1");
    script.write("in.yaml", "");
    let said = refused(&script.source().input("in.yaml")).await;
    assert!(
        said.contains("do not declare as an input what the program writes"),
        "{said}"
    );
}

#[tokio::test]
async fn r44_inputs_that_are_not_regular_files_or_too_long_are_refused() {
    let (script, source) = printer();
    let said = refused(&source.clone().input("/dev/null")).await;
    assert!(said.contains("/dev/null: is not a regular file"), "{said}");
    let said = refused(&source.clone().input_limit(10)).await;
    assert!(said.contains("bytes long"), "{said}");
    symlink(".", script.path("loop")).unwrap();
    let said = refused(&source.input(".")).await;
    assert!(
        said.contains("more than 16 levels of directories"),
        "{said}"
    );
    assert_eq!(script.runs(), 0);
}

#[tokio::test]
async fn r43_settled_inputs_are_not_opened_again() {
    // A file that is older than any tick of a clock.
    let source = Exec::new("rendered", "echo")
        .arg("a: 1")
        .input("/usr/bin/env");
    let first = read(&source).await;
    assert_eq!(read(&source).await, first);
    assert_eq!(source.kept.lock().unwrap().inputs.opened, 1);
}

#[tokio::test]
async fn watched_inputs_give_hints() {
    let (script, source) = printer();
    let mut silent = source.changes();
    let source = source.watched();
    let mut changes = source.changes();
    read(&source).await;
    script.write("in.yaml", "a: 2");
    let told = tokio::time::timeout(Duration::from_secs(30), changes.next());
    assert!(told.await.unwrap().is_some());
    let reading = read(&source).await;
    assert_eq!(values(&reading.documents), [json!({"a": 2})]);
    assert!(futures::poll!(silent.next()).is_pending());
}
