//! A truncated manifest is refused, or reads the same as the whole one.

use proptest::prelude::*;

use super::MANIFEST;
use crate::file::{JsonFile, YamlFile};

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
