//! R45, R47: rendered YAML reads back as the assets, and shows where they come from.

use control_plane_runtime::TokioRuntime;
use plugin_sdk::document::Node;
use prodspec_model::TypeName;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    YamlFile,
    format::{Format, Limits, Yaml},
    testing::{self, Item},
};

/// Texts that readers of YAML can take for something else.
const TRAPS: [&str; 24] = [
    "",
    " ",
    "yes",
    "No",
    "null",
    "~",
    "0123",
    "1e3",
    "1_000",
    "0x1f",
    "-",
    "- a",
    "a: b",
    "a #b",
    "#",
    "*a",
    "&a",
    "!a",
    "{",
    "%a",
    "@a",
    "...",
    "---",
    "line\nline\n",
];

fn json() -> impl Strategy<Value = serde_json::Value> {
    let text = || {
        prop_oneof![
            prop::sample::select(&TRAPS[..]).prop_map(str::to_owned),
            any::<String>()
        ]
    };
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        prop::num::f64::NORMAL.prop_map(Into::into),
        text().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn r45_rendered_yaml_reads_back_as_the_asset(payload in json()) {
        let payload = json!({ "value": payload });
        let asset = Asset::builder(testing::id("a"))
            .payload_value(TypeName::new("test.v1.A").unwrap(), &payload);
        let asset = asset.unwrap().build().unwrap();
        let text = yaml(&asset).unwrap();
        let read = Yaml::parse(&text, &Limits::default());
        let read = read.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        let canonical = serde_json::from_str(asset.payload_json()).unwrap();
        let expected = json!({ "id": "a", "type": "test.v1.A", "payload": serde_json::Value::Null });
        let mut expected: serde_json::Map<_, _> = expected.as_object().unwrap().clone();
        expected.insert("payload".into(), canonical);
        let expected = Node::from(serde_json::Value::from(expected));
        let sorted = |node: &Node| { let mut it = node.clone(); sort(&mut it); it };
        prop_assert_eq!(read.iter().map(sorted).collect::<Vec<_>>(), vec![sorted(&expected)], "{}", text);
    }
}

/// Sorts all maps, because their order has no meaning.
fn sort(node: &mut Node) {
    use plugin_sdk::document::Value;
    match &mut node.value {
        Value::Map(entries) => {
            entries.sort_by(|(a, _), (b, _)| a.text.cmp(&b.text));
            entries.iter_mut().for_each(|(_, node)| sort(node));
        }
        Value::Sequence(items) => items.iter_mut().for_each(sort),
        _ => {}
    }
}

#[tokio::test]
async fn r47_rendering_shows_assets_their_places_and_what_would_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docs");
    std::fs::write(&path, "a: {n: 1}\nb: {n: 2}\n").unwrap();
    let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(YamlFile::new(&path))
        .generator(testing::Items)
        .asset_type(plugin_sdk::AssetType::<Item>::new())
        .build()
        .unwrap();
    let runtime = TokioRuntime::current();
    let first = pipeline.render(&runtime).await.unwrap();
    let yaml = first.yaml().unwrap();
    assert!(
        yaml.contains("# b: made by items, from `b` in docs#0:2:4 (source docs at "),
        "{yaml}"
    );
    assert!(
        yaml.contains("id: b\ntype: test.v1.Item\npayload:\n  \"n\": 2\n"),
        "{yaml}"
    );

    let before = plugin_sdk::testing::incarnation(42, first.candidate().snapshot.iter());
    std::fs::write(&path, "a: {n: 1}\nb: {n: 3}\nc: {n: 4}\n").unwrap();
    let second = pipeline.render(&runtime).await.unwrap();
    let diff = second.diff(&before).unwrap();
    assert!(
        diff.contains("--- b at test@42\n+++ b rendered\n"),
        "{diff}"
    );
    assert!(diff.contains("\n-  \"n\": 2\n+  \"n\": 3\n"), "{diff}");
    assert!(diff.contains("--- /dev/null\n+++ c rendered\n"), "{diff}");
    assert_eq!(first.diff(&before).unwrap(), "");

    std::fs::write(&path, "a: {n: 13}\n").unwrap();
    let refused = pipeline.render(&runtime).await.unwrap_err().to_string();
    assert!(refused.starts_with("docs#0:1:4: "), "{refused}");
}

/// Tells on which thread it was called.
struct Where(std::sync::mpsc::Sender<std::thread::ThreadId>);

impl plugin_sdk::Generator for Where {
    fn info(&self) -> plugin_sdk::GeneratorInfo {
        plugin_sdk::GeneratorInfo::per_document("where", "docs")
    }
    fn generate(
        &self,
        _: &plugin_sdk::Input<'_>,
        _: &mut plugin_sdk::Drafts,
    ) -> Result<(), Problems> {
        self.0.send(std::thread::current().id()).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn r44_rendering_generates_outside_of_the_executor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docs");
    std::fs::write(&path, "a: 1").unwrap();
    let (send, threads) = std::sync::mpsc::channel();
    let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(YamlFile::new(&path))
        .generator(Where(send))
        .build()
        .unwrap();
    pipeline.render(&TokioRuntime::current()).await.unwrap();
    assert_ne!(threads.recv().unwrap(), std::thread::current().id());
}

#[tokio::test]
async fn r49_diff_shows_a_rename_as_one_change() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("docs");
    std::fs::write(&path, "b: {n: 2, moved_from: a}\n").unwrap();
    let pipeline = crate::Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(YamlFile::new(&path))
        .generator(testing::Items)
        .asset_type(plugin_sdk::AssetType::<Item>::new())
        .build()
        .unwrap();
    let rendered = pipeline.render(&TokioRuntime::current()).await.unwrap();
    let before = testing::incarnation(json!({"a": {"n": 1}}));
    let diff = rendered.diff(&before).unwrap();
    assert!(
        diff.starts_with("--- a at test@1\n+++ b rendered\n"),
        "{diff}"
    );
    assert_eq!(diff.matches("+++").count(), 1, "{diff}");
    let trace = rendered.trace(&testing::id("b")).unwrap().to_string();
    assert!(
        trace.starts_with("b: made by items, moved from a, from `b`"),
        "{trace}"
    );
}
