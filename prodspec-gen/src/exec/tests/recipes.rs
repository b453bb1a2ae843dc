//! The recipes with the real tools, where they are installed.

use plugin_sdk::Reading;
use serde_json::json;

use super::{Exec, Program, read, refused, values, write_all};

fn config_map(name: &str, replicas: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{replicas: \"{replicas}\"}}\n"
    )
}

#[tokio::test]
async fn r46_kustomize_recipe_reads_an_overlay_and_notices_a_change_of_its_base() {
    testing_programs::needs!("kubectl", "kubernetes-client");
    let dir = tempfile::tempdir().unwrap();
    let files = [
        (
            "base/kustomization.yaml",
            "resources: [jobs.yaml, queue.yaml]\n",
        ),
        ("base/jobs.yaml", &config_map("jobs", "2")),
        ("base/queue.yaml", &config_map("queue", "1")),
        // `resources` cannot name a directory in kubectl before 1.21.
        (
            "overlays/prod/kustomization.yaml",
            "namePrefix: prod-\nbases: [../../base]\n",
        ),
    ];
    write_all(dir.path(), &files);
    let source = Exec::kustomize("overlays/prod")
        .input("base")
        .current_dir(dir.path());
    let first = read(&source).await;
    let found = |reading: &Reading| -> Vec<String> {
        let maps = values(&reading.documents).into_iter();
        maps.map(|it| format!("{}: {}", it["metadata"]["name"], it["data"]["replicas"]))
            .collect()
    };
    let both = [r#""prod-jobs": "2""#, r#""prod-queue": "1""#];
    assert_eq!(found(&first), both);
    assert_eq!(
        first.documents[0].name(),
        "output of `kubectl kustomize overlays/prod`#0"
    );
    assert_eq!(&*first.documents[0].key().source.0, "prod");
    write_all(dir.path(), &[("base/jobs.yaml", &config_map("jobs", "3"))]);
    assert_eq!(found(&read(&source).await)[0], r#""prod-jobs": "3""#);
    write_all(
        dir.path(),
        &[("base/kustomization.yaml", "resources: [none.yaml]\n")],
    );
    let said = refused(&source).await;
    assert!(
        said.contains("ended with exit status: 1") && said.contains("none.yaml"),
        "{said}"
    );
}

#[tokio::test]
async fn r46_kustomize_recipe_refuses_bases_that_are_not_declared() {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        (
            "overlays/prod/kustomization.yaml",
            "resources:\n- jobs.yaml\n- ../../base\n- github.com/example/base\n",
        ),
        ("overlays/prod/jobs.yaml", ""),
        (
            "base/kustomization.yml",
            "components: [../parts/a, ../parts/b]\n",
        ),
        ("parts/a/Kustomization", "bases: [../../base]\n"),
        ("parts/b/Kustomization", ""),
    ];
    write_all(dir.path(), &files);
    // Any program: it does not run before all bases are declared.
    let source = Exec::kustomize("overlays/prod").current_dir(dir.path());
    let source = source.set(|task| task.program = Program::find("/bin/true".into(), None));
    let said = refused(&source).await;
    assert!(said.contains("overlays/prod/kustomization.yaml:3:3: the directory `../../base` is in no declared input"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let source = source.input("base").input("parts/a");
    let said = refused(&source).await;
    assert!(
        said.contains("base/kustomization.yml:1:26: the directory `../parts/b` is in no"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let said = refused(&source.input("parts")).await;
    assert!(said.contains("printed no document"), "{said}");
}

#[tokio::test]
async fn r46_jsonnet_recipe_reads_one_document_for_each_item() {
    testing_programs::needs!("jsonnet", "jsonnet");
    let dir = tempfile::tempdir().unwrap();
    let files = [
        (
            "jobs/main.jsonnet",
            "local lib = import 'lib.libsonnet'; [{ a: lib.a }, { b: import 'b.libsonnet' }]",
        ),
        ("jobs/lib.libsonnet", "{ a: 1 }"),
        ("vendor/b.libsonnet", "'ä\\n...\\n'"),
    ];
    write_all(dir.path(), &files);
    let source = Exec::jsonnet("jobs/main.jsonnet")
        .args(["-J", "vendor"])
        .input("vendor");
    let source = source.current_dir(dir.path());
    let reading = read(&source).await;
    assert_eq!(
        values(&reading.documents),
        [json!({"a": 1}), json!({"b": "ä\n...\n"})]
    );
    write_all(dir.path(), &[("jobs/lib.libsonnet", "{ a: 2 }")]);
    assert_eq!(values(&read(&source).await.documents)[0], json!({"a": 2}));
    write_all(dir.path(), &[("jobs/lib.libsonnet", "{ a: ")]);
    let said = refused(&source).await;
    assert!(
        said.contains("ended with exit status: 1") && said.contains("STATIC ERROR"),
        "{said}"
    );
}

#[tokio::test]
async fn r46_helm_recipe_reads_a_chart_with_its_values() {
    testing_programs::needs!("helm");
    let dir = tempfile::tempdir().unwrap();
    let files = [
        (
            "charts/shop/Chart.yaml",
            "apiVersion: v2\nname: shop\nversion: 0.1.0\n",
        ),
        ("charts/shop/values.yaml", "replicas: 1\nzone: none\n"),
        (
            "charts/shop/templates/jobs.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-jobs}\ndata: {replicas: \"{{ .Values.replicas }}\", zone: {{ .Values.zone }}}\n",
        ),
        ("values/all.yaml", "replicas: 2\nzone: a\n"),
        ("values/eu.yaml", "zone: eu\n"),
    ];
    write_all(dir.path(), &files);
    let values_of = ["values/all.yaml", "values/eu.yaml"];
    let source = Exec::helm("eu", "charts/shop", values_of).current_dir(dir.path());
    let reading = read(&source).await;
    let jobs = &values(&reading.documents)[0];
    assert_eq!(jobs["metadata"]["name"], "eu-jobs");
    assert_eq!(jobs["data"], json!({"replicas": "2", "zone": "eu"}));
    write_all(dir.path(), &[("values/eu.yaml", "zone: us\n")]);
    assert_eq!(
        values(&read(&source).await.documents)[0]["data"]["zone"],
        "us"
    );
}

#[tokio::test]
async fn r46_cue_recipe_reads_the_value_of_a_package() {
    testing_programs::needs!("cue");
    let dir = tempfile::tempdir().unwrap();
    let files = [
        (
            "cue.mod/module.cue",
            "module: \"example.com/config\"\nlanguage: version: \"v0.9.0\"\n",
        ),
        (
            "jobs/jobs.cue",
            "package jobs\n\njobs: frontend: replicas: int & >1\n",
        ),
        (
            "jobs/eu.cue",
            "package jobs\n\njobs: frontend: replicas: 2\n",
        ),
    ];
    write_all(dir.path(), &files);
    let source = Exec::cue(dir.path().join("jobs")).input("../cue.mod");
    let reading = read(&source).await;
    let frontend = json!({"jobs": {"frontend": {"replicas": 2}}});
    assert_eq!(values(&reading.documents), [frontend]);
    write_all(
        dir.path(),
        &[(
            "jobs/eu.cue",
            "package jobs\n\njobs: frontend: replicas: 1\n",
        )],
    );
    let said = refused(&source).await;
    assert!(
        said.contains("ended with exit status: 1") && said.contains("replicas"),
        "{said}"
    );
}

#[tokio::test]
async fn r46_recipe_whose_tool_is_missing_says_so() {
    let recipes = [
        (Exec::kustomize("overlays/prod"), "kubectl", "Kustomize"),
        (
            Exec::helm("eu", "charts/shop", ["values/eu.yaml"]),
            "helm",
            "Helm",
        ),
        (Exec::jsonnet("main.jsonnet"), "jsonnet", "Jsonnet"),
        (Exec::cue("jobs"), "cue", "CUE"),
    ];
    for (source, tool, recipe) in recipes {
        let said = refused(&source.find_on("/nonexistent")).await;
        let what = format!(
            "`{tool}` was not found on the PATH of this process; the recipe for {recipe} runs it; install"
        );
        assert!(said.contains(&what), "{said}");
        assert!(said.contains(", then restart the process"), "{said}");
    }
}

#[test]
fn recipes_run_the_documented_commands() {
    let command = |source: Exec| source.task.program.command(&source.task.args);
    let helm = Exec::helm("eu", "charts/shop", ["a.yaml", "b.yaml"]);
    assert_eq!(
        command(helm),
        "helm template eu charts/shop --values a.yaml --values b.yaml"
    );
    assert_eq!(command(Exec::kustomize("prod")), "kubectl kustomize prod");
    assert_eq!(
        command(Exec::jsonnet("main.jsonnet")),
        "jsonnet -y main.jsonnet"
    );
    assert_eq!(command(Exec::cue("jobs")), "cue export --out yaml");
}
