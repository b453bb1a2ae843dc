//! Manifests as a source of truth: which files are read, what their documents are called, and what changes cost.

#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::{fs, path::Path};

use plugin_sdk::{
    ChangeId, EditableSource, FieldEdit, Problems, SourceChange, SourceOfTruth, Update, conformance,
};
use plugins_kubernetes::{KubernetesYaml, Manifests};
use proptest::prelude::*;
use serde_json::{Value, json};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn read(source: &Manifests) -> Result<Vec<(String, String)>, Problems> {
    let reading = runtime().block_on(source.read())?;
    let documents = reading.documents.iter();
    Ok(documents
        .map(|document| (document.name(), document.place()))
        .collect())
}

fn map(name: &str, value: u32) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: prod}}\nn: {value}\n"
    )
}

#[test]
fn r43_kubernetes_objects_are_known_by_kind_namespace_and_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
    write("a.yml", &format!("---\n{}---\n# nothing\n", map("a", 1)));
    write(
        "sub/b.json",
        r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}"#,
    );
    write(
        "c.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: web, namespace: prod}\n- apiVersion: rbac.authorization.k8s.io/v1\n  kind: ClusterRole\n  metadata: {name: 'system:web'}\n",
    );
    write("README.md", "not a manifest");
    let expected = [
        ("ConfigMap/prod/a", "a.yml#0 (ConfigMap/prod/a)"),
        (
            "Deployment.apps/prod/web",
            "c.yaml#0 (Deployment.apps/prod/web)",
        ),
        (
            "ClusterRole.rbac.authorization.k8s.io/system:web",
            "c.yaml#1 (ClusterRole.rbac.authorization.k8s.io/system:web)",
        ),
        ("Namespace/prod", "sub/b.json#0 (Namespace/prod)"),
    ];
    let expected = expected.map(|(name, place)| (name.to_owned(), place.to_owned()));
    assert_eq!(read(&Manifests::directory(dir.path())).unwrap(), expected);
    let one = read(&Manifests::file(dir.path().join("a.yml")).named("one")).unwrap();
    assert_eq!(one[0].0, "ConfigMap/prod/a");
}

#[test]
fn r43_kubernetes_objects_without_identity_are_refused_with_every_problem() {
    let dir = tempfile::tempdir().unwrap();
    let source = Manifests::directory(dir.path()).named("cluster");
    let refused = |text: &str| {
        fs::write(dir.path().join("m.yaml"), text).unwrap();
        read(&source).unwrap_err().to_string()
    };
    let nothing = refused("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nspec: {}\n");
    assert_eq!(nothing.lines().count(), 3, "{nothing}");
    for (problem, field) in nothing.lines().zip(["apiVersion", "kind", "metadata.name"]) {
        let expected = format!(
            "m.yaml#1:5:1: {field}: is missing; every Kubernetes object has one (says source cluster)"
        );
        assert_eq!(problem, expected);
    }
    for (text, problem) in [
        (
            "kind: A\napiVersion: v1\nmetadata:\n  generateName: a-\n",
            "m.yaml#0:4:17: metadata.generateName: an object with a generated name",
        ),
        (
            "kind: A\napiVersion: v1\nmetadata: {name: 1}\n",
            "m.yaml#0:3:18: metadata.name: must be a text; quote it",
        ),
        (
            "kind: A\napiVersion: v1\nmetadata: {name: a/b}\n",
            "m.yaml#0:3:18: metadata.name: a name in Kubernetes has no `/`",
        ),
        (
            "kind: A\napiVersion: v1\nmetadata: {name: a, namespace: [b]}\n",
            "m.yaml#0:3:32: metadata.namespace: must be a text",
        ),
        (
            "kind: A.b\napiVersion: v1\nmetadata: {name: a}\n",
            "m.yaml#0:1:7: kind: a kind has no `/`",
        ),
        (
            "kind: A\napiVersion: a/b/c\nmetadata: {name: a}\n",
            "m.yaml#0:2:13: apiVersion: must be a version",
        ),
        (
            "kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\n",
            "m.yaml#0:1:7: kind: a kustomization is no object of a cluster; render it first",
        ),
        (
            "kind: A\napiVersion: v1\nmetadata: {name: '${NAME}'}\n",
            "m.yaml#0:3:18: metadata.name: `${NAME}` looks like a template; render it first",
        ),
        (
            "kind: A\nmetadata: {name: {{ .Release.Name }}}\n",
            "m.yaml:2:18: looks like a template: `{{` begins an expression; render it first, for example with an exec source",
        ),
    ] {
        let found = refused(text);
        assert!(
            found.starts_with(problem) && found.lines().count() == 1,
            "{text}: {found}"
        );
    }
}

#[test]
fn r43_kubernetes_object_that_is_there_twice_is_refused_with_both_places() {
    let dir = tempfile::tempdir().unwrap();
    let source = Manifests::directory(dir.path()).named("cluster");
    fs::write(dir.path().join("a.yaml"), map("a", 1)).unwrap();
    fs::write(
        dir.path().join("b.yaml"),
        map("b", 1) + "---\n" + &map("a", 2),
    )
    .unwrap();
    let twice = read(&source).unwrap_err().to_string();
    assert!(
        twice.contains("a.yaml#0") && twice.contains("b.yaml#1"),
        "{twice}"
    );
    fs::write(
        dir.path().join("b.yaml"),
        map("b", 1) + "---\n" + &map("b", 2),
    )
    .unwrap();
    let twice = read(&source).unwrap_err().to_string();
    assert!(
        twice.contains("b.yaml#0") && twice.contains("b.yaml#1"),
        "{twice}"
    );
}

#[test]
fn r43_kubernetes_object_that_moves_to_another_file_stays_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let source = Manifests::directory(dir.path());
    fs::write(
        dir.path().join("a.yaml"),
        map("a", 1) + "---\n" + &map("b", 1),
    )
    .unwrap();
    let runtime = runtime();
    let before = runtime.block_on(source.read()).unwrap();
    fs::write(dir.path().join("a.yaml"), map("b", 1)).unwrap();
    fs::write(dir.path().join("c.yaml"), map("a", 1)).unwrap();
    let Update::Delta(delta) = runtime
        .block_on(source.read_since(&before.revision))
        .unwrap()
    else {
        panic!("no delta");
    };
    assert_eq!(delta.gone, []);
    assert!(
        delta
            .put
            .iter()
            .all(|document| before.documents.contains(document))
    );
}

#[test]
fn r45_kubernetes_manifests_that_are_rendered_are_no_templates() {
    let dir = tempfile::tempdir().unwrap();
    let source = Manifests::directory(dir.path()).named("cluster");
    let rule = "kind: A\napiVersion: v1\nmetadata: {name: a}\nannotations:\n  description: At {{ $labels.x }}\n    {{ printf \"%.2f\" $value }}% of it.\n";
    fs::write(dir.path().join("m.yaml"), rule).unwrap();
    assert_eq!(read(&source).unwrap()[0].0, "A/a");
    let named = "kind: A\napiVersion: v1\nmetadata: {name: '{{ x }}', namespace: '${y}'}\n";
    fs::write(dir.path().join("m.yaml"), named).unwrap();
    let refused = read(&source).unwrap_err().to_string();
    assert!(
        refused.starts_with(
            "m.yaml#0:3:18: metadata.name: `{{ x }}` looks like a template; render it first"
        ) && refused.contains("metadata.namespace: `${y}` looks like a template"),
        "{refused}"
    );
    assert_eq!(read(&source.rendered()).unwrap()[0].0, "A/${y}/{{ x }}");
}

#[cfg(unix)]
#[test]
fn r43_kubernetes_objects_that_a_program_prints_are_known_by_name_and_once() {
    let print = |text: &str| {
        let exec =
            prodspec_gen::Exec::new("cluster", "/bin/sh").args(["-c", "printf %s \"$0\"", text]);
        runtime().block_on(exec.format::<KubernetesYaml>().read())
    };
    let once = print(&map("a", 1)).unwrap();
    assert_eq!(once.documents[0].name(), "ConfigMap/prod/a");
    let twice = print(&format!("{}---\n{}", map("a", 1), map("a", 2)));
    let twice = twice.unwrap_err().to_string();
    assert!(twice.contains("#0") && twice.contains("#1"), "{twice}");
}

#[test]
fn r43_comments_change_no_kubernetes_document() {
    let dir = tempfile::tempdir().unwrap();
    let source = Manifests::file(dir.path().join("m.yaml"));
    let of = |text: String| {
        fs::write(dir.path().join("m.yaml"), text).unwrap();
        runtime().block_on(source.read()).unwrap().documents
    };
    assert_eq!(
        of(map("a", 1)),
        of(format!("# c\n---\n\n{}# end\n", map("a", 1)))
    );
}

/// Makes the files of a directory those of `files`: the objects in each file, by number.
fn write_all(dir: &Path, files: &[Vec<(u32, u32)>]) {
    for (at, objects) in files.iter().enumerate() {
        let path = dir.join(format!("{at}.yaml"));
        let objects: Vec<String> = objects
            .iter()
            .map(|(name, value)| map(&format!("m{name}"), *value))
            .collect();
        match objects.is_empty() {
            true => drop(fs::remove_file(path)),
            false => fs::write(path, objects.join("---\n")).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Objects 0 to 4 move between three files and change.
    #[test]
    fn r43_kubernetes_delta_equals_a_whole_read(
        states in proptest::collection::vec(proptest::collection::vec((0_usize..3, 0_u32..2), 5), 1..5)
    ) {
        let dir = tempfile::tempdir().unwrap();
        let source = Manifests::directory(dir.path());
        let files = |state: &Vec<(usize, u32)>| {
            let mut files = vec![Vec::new(); 3];
            for (name, (file, value)) in (0..).zip(state) {
                files[*file].push((name, *value));
            }
            files
        };
        write_all(dir.path(), &files(&vec![(0, 0); 5]));
        let changes = states.iter().map(|state| {
            let (path, files) = (dir.path(), files(state));
            move || write_all(path, &files)
        });
        runtime().block_on(conformance::source(&source, changes)).unwrap();
    }
}

#[test]
fn r48_objects_are_edited_and_what_kubectl_would_read_otherwise_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.yaml");
    let text = format!(
        "# Ours.
{}size: 1
---
{}size: 2 # measured
",
        map("a", 1),
        map("b", 2)
    );
    fs::write(&path, &text).unwrap();
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}}]}"#;
    fs::write(dir.path().join("list.json"), list).unwrap();
    let source = Manifests::directory(dir.path());
    let change = |name: &str, path: &str, was: Value, to: Value| {
        let edit = FieldEdit::set(name, path.parse().unwrap(), was, to);
        let id = ChangeId::new("one").unwrap();
        SourceChange::new(id, vec![edit], "ada", "test", Default::default())
    };
    let b = "ConfigMap/prod/b";
    let edit = change(b, "size", json!(2), json!(5));
    runtime()
        .block_on(conformance::editable(&source, [edit]))
        .unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        text.replace("size: 2", "size: 5")
    );
    let refusal = |change: &SourceChange| {
        let proposed = runtime().block_on(source.propose(change));
        proposed.unwrap_err().to_string()
    };
    // The key `n` is read as `false`.
    let refused = refusal(&change(b, "n", json!(2), json!(3)));
    assert!(refused.contains("more than it says"), "{refused}");
    let namespace = change(
        "Namespace/prod",
        "metadata.name",
        json!("prod"),
        json!("test"),
    );
    let refused = refusal(&namespace);
    assert!(refused.contains("list.json"), "{refused}");
}
