//! Manifests through a pipeline: from a directory to sealed assets, with schemas of custom resources.

#![allow(clippy::unwrap_used, reason = "a test fails where it panics")]

use std::{fs, path::Path, sync::Arc};

use plugins_kubernetes::{CustomResources, LargeObjects, ManifestAssets, Manifests};
use prodspec_gen::{
    Handle, Pipeline, Regeneration, Status, runtime::TokioRuntime, seal::InMemory, validators,
};
use prodspec_model::PartitionId;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: MOST}
"#;

fn widget(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {{name: {name}, namespace: prod}}\nspec: {spec}\n"
    )
}

fn pipeline(dir: &Path) -> Pipeline {
    let large = LargeObjects::default();
    let assets = ManifestAssets::of("cluster")
        .kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        .and_then(|assets| assets.kind("example.com/v1", "Widget"))
        .and_then(|assets| assets.kind("example.com/v2", "Widget"))
        .unwrap()
        .large(&large);
    let builder = Pipeline::builder(PartitionId::new("test").unwrap())
        .source(Manifests::directory(dir).named("cluster"))
        .validators(validators::standard())
        .validator(CustomResources::of(&assets))
        .blobs(large);
    let types = assets.types().into_iter();
    let builder = types.fold(builder, |builder, declared| {
        builder.asset_type(declared.modelled_only().valid(|object, view, problems| {
            if object["metadata"]["name"] == "bad" {
                problems.push(view.problem("a bad name").field("payload.metadata.name"));
            }
        }))
    });
    builder.generator(assets).build().unwrap()
}

async fn start(dir: &Path) -> Handle {
    let seals = Arc::new(InMemory::new());
    let (regeneration, handle) = Regeneration::new(TokioRuntime::current(), pipeline(dir), seals);
    tokio::spawn(regeneration.run());
    handle
}

async fn problems(handle: &Handle) -> String {
    let status: Status = handle.next_run().await;
    status.problems.to_string()
}

#[tokio::test]
async fn r43_kubernetes_objects_become_assets_of_types_known_at_run_time() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("w.yaml"), widget("a", "{size: 1}")).unwrap();
    let handle = start(dir.path()).await;
    let status = handle.next_run().await;
    assert!(status.problems.is_empty(), "{}", status.problems);
    let incarnation = status.incarnation.unwrap();
    assert_eq!(incarnation.id.to_string(), "test@1");

    fs::write(dir.path().join("w.yaml"), widget("bad", "{size: 1}")).unwrap();
    let bad = problems(&handle).await;
    assert!(bad.contains("payload.metadata.name: a bad name"), "{bad}");

    fs::write(dir.path().join("w.yaml"), widget("a", "{size: 1}")).unwrap();
    let other = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db, namespace: prod}\n";
    fs::write(dir.path().join("db.yaml"), other).unwrap();
    let unknown = problems(&handle).await;
    assert!(
        unknown.starts_with("db.yaml#0 (StatefulSet.apps/prod/db):2:7: kind: the kind apps/v1 StatefulSet is not listed; add `.kind(\"apps/v1\", \"StatefulSet\")`"),
        "{unknown}"
    );
}

#[tokio::test]
async fn custom_resources_fit_their_schema_and_problems_have_todays_line() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
    write("crd.yaml", &DEFINITION.replace("MOST", "9"));
    write("w.yaml", &widget("a", "{size: 5}"));
    let handle = start(dir.path()).await;
    assert_eq!(problems(&handle).await, "");

    write("w.yaml", &widget("a", "\n  size: 10\n  sise: 1"));
    let wrong = problems(&handle).await;
    let expected = [
        "w.yaml#0 (Widget.example.com/prod/a):5:9: k8s/Widget.example.com/prod/a: payload.spec.size: must be at most 9, is 10 (says custom-resources)",
        "w.yaml#0 (Widget.example.com/prod/a):6:9: k8s/Widget.example.com/prod/a: payload.spec.sise: is not a field of this kind; correct its name or remove it (says custom-resources)",
    ];
    let mut wrong: Vec<&str> = wrong.lines().collect();
    wrong.sort_unstable();
    assert_eq!(wrong, expected);

    // The schema alone changes, and with it the verdict on a resource that does not; comments move its line.
    write("w.yaml", &widget("a", "{size: 5}"));
    assert_eq!(problems(&handle).await, "");
    write(
        "w.yaml",
        &format!("# moved\n\n{}", widget("a", "{size: 5}")),
    );
    write("crd.yaml", &DEFINITION.replace("MOST", "4"));
    let narrower = problems(&handle).await;
    assert!(
        narrower.starts_with("w.yaml#0 (Widget.example.com/prod/a):6:14: "),
        "{narrower}"
    );
    assert!(narrower.contains("must be at most 4, is 5"), "{narrower}");

    // Without its definition, a resource is taken as it is.
    fs::remove_file(dir.path().join("crd.yaml")).unwrap();
    assert_eq!(problems(&handle).await, "");
}

#[tokio::test]
async fn definitions_that_cannot_be_used_and_versions_that_are_not_served_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
    write(
        "crd.yaml",
        &DEFINITION.replace("maximum: MOST", "pattern: '('"),
    );
    write("w.yaml", &widget("a", "{size: 5}"));
    let handle = start(dir.path()).await;
    let wrong = problems(&handle).await;
    assert!(
        wrong.starts_with(
            "crd.yaml#0 (CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com):21:58: "
        ),
        "{wrong}"
    );
    assert!(wrong.contains("is not a regular expression"), "{wrong}");
    write("crd.yaml", &DEFINITION.replace("MOST", "9"));
    write(
        "w.yaml",
        &widget("a", "{size: 5}").replace("example.com/v1", "example.com/v2"),
    );
    let other = problems(&handle).await;
    assert!(
        other.contains(":1:13: ")
            && other.contains("payload.apiVersion: its definition serves v1 only"),
        "{other}"
    );
}

#[tokio::test]
async fn r43_kubernetes_definition_that_is_too_large_is_sealed_and_validates_its_resources() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| fs::write(dir.path().join(path), text).unwrap();
    let definition = |most: &str| {
        let description = format!("description: {}, type: integer", "x".repeat(200_000));
        let text = DEFINITION.replace("MOST", most);
        text.replace("type: integer", &description)
    };
    write("crd.yaml", &definition("9"));
    write("w.yaml", &widget("a", "{size: 5}"));
    let handle = start(dir.path()).await;
    let status = handle.next_run().await;
    assert_eq!(status.problems.to_string(), "");
    assert_eq!(status.incarnation.unwrap().id.to_string(), "test@1");
    write("crd.yaml", &definition("4"));
    let narrower = problems(&handle).await;
    assert!(narrower.contains("must be at most 4, is 5"), "{narrower}");
    write("w.yaml", &widget("a", "{size: 3}"));
    let status = handle.next_run().await;
    assert_eq!(status.problems.to_string(), "");
    assert_eq!(status.incarnation.unwrap().id.to_string(), "test@2");
}

#[tokio::test]
async fn r43_kubernetes_names_that_are_no_asset_ids_are_mapped() {
    let dir = tempfile::tempdir().unwrap();
    let names = [
        "'alice@example.com'",
        "read pods",
        "-admin",
        &"x".repeat(300),
    ];
    let all = names.map(|name| widget(name, "{size: 1}"));
    fs::write(dir.path().join("w.yaml"), all.join("---\n")).unwrap();
    let status = start(dir.path()).await.next_run().await;
    assert_eq!(status.problems.to_string(), "");
}
