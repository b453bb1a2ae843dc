//! The problems that the standard validators find, also in hostile graphs.

use plugin_sdk::AssetType;
use prodspec_model::addons::PhysicalCluster;
use serde_json::json;

use super::*;
use crate::{
    Pipeline,
    testing::{self, incarnation, items},
};

fn problems_of(pipeline: &Pipeline, manifest: serde_json::Value) -> Vec<String> {
    match pipeline.dry_run([("docs", items(manifest))], None) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn standard(manifest: serde_json::Value) -> Vec<String> {
    problems_of(&testing::builder().build().unwrap(), manifest)
}

fn needs(n: u64, providers: &[&str]) -> serde_json::Value {
    let edge = |provider: &&str| json!({"provider": {"$asset": provider}, "need": {"kind": "capacity", "unit": "qps"}});
    json!({"n": n, "needs": {"edges": providers.iter().map(edge).collect::<Vec<_>>()}})
}

#[test]
fn cycles_are_reported_with_their_assets() {
    let said = standard(
        json!({"a": needs(0, &["b"]), "b": needs(0, &["c"]), "c": needs(0, &["a"]), "d": needs(0, &["a"])}),
    );
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("a: addons.prodspec.v1.DependsOn: depends on itself: a -> b -> c -> a; break the cycle (says dependencies)"), "{said:?}");
    let itself = standard(json!({"a": needs(0, &["a"])}));
    assert!(
        itself
            .iter()
            .any(|said| said.contains("depends on itself: a -> a")),
        "{itself:?}"
    );
}

#[test]
fn long_cycles_and_chains_cost_linear_time() {
    let name = |n: usize| format!("i{n:05}");
    for (n, closed) in [(2, true), (1_000, true), (20_000, true), (20_000, false)] {
        let next = |at: usize| match at + 1 {
            next if next < n => vec![name(next)],
            _ if closed => vec![name(0)],
            _ => vec![],
        };
        let manifest: serde_json::Map<_, _> = (0..n)
            .map(|at| {
                let providers = next(at);
                (
                    name(at),
                    needs(0, &providers.iter().map(String::as_str).collect::<Vec<_>>()),
                )
            })
            .collect();
        let said = standard(manifest.into());
        assert_eq!(said.len(), usize::from(closed), "{said:?}");
        assert!(
            said.iter()
                .all(|said| said.len() < 500 && said.contains("i00000 -> i00001"))
        );
    }
}

#[test]
fn new_cycle_through_unchanged_assets_is_refused() {
    let parent = incarnation(json!({"a": needs(0, &["b"]), "b": {"n": 0}}));
    let pipeline = testing::builder().build().unwrap();
    let manifest = items(json!({"a": needs(0, &["b"]), "b": needs(0, &["a"])}));
    let problems = pipeline
        .dry_run([("docs", manifest)], Some(&parent))
        .unwrap_err();
    assert!(problems.to_string().contains("a -> b -> a"), "{problems}");
}

#[test]
fn duplicate_edge_is_refused() {
    let said = standard(json!({"a": needs(0, &["b", "b"]), "b": {"n": 0}}));
    assert!(
        said[0].contains("a: addons.prodspec.v1.DependsOn.edges[1]: depends on `b` twice"),
        "{said:?}"
    );
}

#[test]
fn capacity_below_the_demand_of_all_consumers_is_refused() {
    let fits = json!({"lb": {"n": 10}, "x": needs(4, &["lb"]), "y": needs(6, &["lb"])});
    assert_eq!(standard(fits), Vec::<String>::new());
    let said = standard(json!({"lb": {"n": 9}, "x": needs(4, &["lb"]), "y": needs(6, &["lb"])}));
    assert_eq!(said.len(), 1);
    assert!(
        said[0]
            .contains("lb: payload: is meant to have 9 qps, its consumers need 10 (`x` 4, `y` 6)"),
        "{said:?}"
    );
    let mut leaving = needs(6, &["lb"]);
    leaving["turndown"] = true.into();
    assert_eq!(
        standard(json!({"lb": {"n": 4}, "x": needs(4, &["lb"]), "y": leaving})),
        Vec::<String>::new()
    );
    let huge = u64::MAX;
    let said =
        standard(json!({"lb": {"n": 1}, "x": needs(huge, &["lb"]), "y": needs(huge, &["lb"])}));
    assert!(said[0].contains("36893488147419103230"), "{said:?}");
}

#[test]
fn growing_consumer_is_refused_if_its_provider_is_too_small() {
    let parent = incarnation(json!({"lb": {"n": 10}, "x": needs(4, &["lb"])}));
    let pipeline = testing::builder().build().unwrap();
    let mut memo = crate::memo::Memo::new();
    let mut draft = |manifest: serde_json::Value, parent: Option<&prodspec_model::Incarnation>| {
        let readings = [(
            prodspec_model::SourceName("docs".into()),
            Ok(items(manifest).into()),
        )];
        let draft = memo.draft(&pipeline, readings.into(), parent);
        let draft = draft.map_err(|refused| refused.problems)?;
        memo.accept(draft);
        Ok::<_, plugin_sdk::Problems>(())
    };
    draft(
        json!({"lb": {"n": 10}, "x": needs(4, &["lb"])}),
        Some(&parent),
    )
    .unwrap();
    let problems = draft(
        json!({"lb": {"n": 10}, "x": needs(11, &["lb"])}),
        Some(&parent),
    )
    .unwrap_err();
    assert!(
        problems
            .to_string()
            .contains("lb: payload: is meant to have 10 qps"),
        "{problems}"
    );
}

#[test]
fn unknown_types_and_unreadable_payloads_are_refused() {
    let bare = Pipeline::builder(prodspec_model::PartitionId::new("test").unwrap())
        .source(testing::ByHand("docs"))
        .generator(testing::Items)
        .validators(standard_set());
    let said = problems_of(&bare.build().unwrap(), json!({"a": {"n": 1}}));
    assert!(
        said[0].contains("a: type: the type test.v1.Item is not declared"),
        "{said:?}"
    );

    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Other {
        n: u8,
    }
    impl prodspec_model::Message for Other {
        const TYPE: &'static str = "test.v1.Item";
    }
    let strict = testing::builder()
        .asset_type(AssetType::<Other>::new())
        .build()
        .unwrap();
    let said = problems_of(&strict, json!({"a": {"n": 300}}));
    assert!(
        said[0].contains("a: payload.n: invalid value: integer `300`, expected u8 (says types)"),
        "{said:?}"
    );
}

fn standard_set() -> Vec<Arc<dyn Validator>> {
    super::standard()
}

#[test]
fn validator_of_an_asset_type_is_called() {
    let odd = AssetType::<testing::Item>::new().valid(|item, view, problems| {
        if item.n % 2 == 0 {
            problems.push(view.problem("must be odd").field("payload.n"));
        }
    });
    let pipeline = testing::builder().asset_type(odd).build().unwrap();
    assert_eq!(
        problems_of(&pipeline, json!({"a": {"n": 1}, "b": {"n": 2}})),
        ["m#0:2:0: b: payload.n: must be odd (says types)"]
    );
}

#[test]
fn spread_over_too_few_clusters_is_refused() {
    struct Placed;
    impl plugin_sdk::Generator for Placed {
        fn info(&self) -> plugin_sdk::GeneratorInfo {
            plugin_sdk::GeneratorInfo::per_asset::<testing::Item>("placed")
        }
        fn generate(
            &self,
            input: &plugin_sdk::Input<'_>,
            out: &mut plugin_sdk::Drafts,
        ) -> Result<(), plugin_sdk::Problems> {
            if let Some(item) = input.asset() {
                let cluster = item.payload::<testing::Item>()?.n.to_string();
                out.amend(item.edit().addon(&PhysicalCluster { cluster })?)?;
            }
            Ok(())
        }
    }
    let pipeline = testing::builder()
        .generator(Placed)
        .validator(DomainSpread::of::<testing::Item>(2))
        .build()
        .unwrap();
    assert_eq!(
        problems_of(&pipeline, json!({"a": {"n": 1}, "b": {"n": 2}})),
        Vec::<String>::new()
    );
    let said = problems_of(&pipeline, json!({"a": {"n": 1}, "b": {"n": 1}}));
    assert_eq!(
        said,
        [
            "the assets of type test.v1.Item are in 1 clusters (1), 2 are required; add assets in other clusters (says domain-spread)"
        ]
    );
}

#[test]
fn r49_reference_that_may_dangle_needs_no_target() {
    let dangles = json!({"a": {"n": 1, "may_dangle": ["elsewhere", "b"]}, "b": {"n": 1}});
    assert_eq!(standard(dangles), Vec::<String>::new());
    assert_eq!(
        standard(json!({"a": {"n": 1, "may_dangle": ["a"]}})),
        [
            "m#0:1:0: a: payload.may_dangle[0]: refers to itself; remove the reference (says references)"
        ]
    );
    let sealed = incarnation(json!({"a": {"n": 1, "may_dangle": ["elsewhere"]}}));
    assert_eq!(
        sealed.snapshot().referrers("elsewhere"),
        [testing::id("a")],
        "it is in the reverse index"
    );
}

/// Adds a dependency edge whose provider is written as if it might dangle.
struct DanglingEdge;

impl plugin_sdk::Generator for DanglingEdge {
    fn info(&self) -> plugin_sdk::GeneratorInfo {
        plugin_sdk::GeneratorInfo::per_asset::<testing::Item>("edges")
    }

    fn generate(
        &self,
        input: &plugin_sdk::Input<'_>,
        out: &mut plugin_sdk::Drafts,
    ) -> Result<(), plugin_sdk::Problems> {
        if let Some(item) = input.asset() {
            let edge =
                json!({"provider": {"$asset?": "b"}, "need": {"kind": "capacity", "unit": "qps"}});
            let name = prodspec_model::TypeName::new("prodspec.v1.DependsOn").unwrap();
            out.amend(item.edit().addon_value(name, &json!({"edges": [edge]}))?)?;
        }
        Ok(())
    }
}

#[test]
fn r49_dependency_edge_may_not_dangle() {
    let pipeline = testing::builder().generator(DanglingEdge).build().unwrap();
    for manifest in [
        json!({"a": {"n": 1}}),
        json!({"a": {"n": 1}, "b": {"n": 1}}),
    ] {
        let said = problems_of(&pipeline, manifest);
        let expected = "a: addons.prodspec.v1.DependsOn.edges[0].provider: refers to `b` with `$asset?`, but this \
                        reference may not dangle; write `$asset` (says references)";
        assert!(said.iter().any(|said| said.contains(expected)), "{said:?}");
    }
}

/// The problems of an edit from one manifest to the other.
fn edited(from: serde_json::Value, to: serde_json::Value) -> Vec<String> {
    let pipeline = testing::builder().build().unwrap();
    match pipeline.dry_run([("docs", items(to))], Some(&incarnation(from))) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn r49_rename_is_accepted_and_its_addon_may_stay() {
    let moved = json!({"b": {"n": 1, "moved_from": "a"}});
    assert_eq!(
        edited(json!({"a": {"n": 1}}), moved.clone()),
        [""; 0],
        "the rename"
    );
    assert_eq!(standard(moved.clone()), [""; 0], "of a first seal");
    let later = json!({"b": {"n": 2, "moved_from": "a"}, "c": {"n": 1}});
    assert_eq!(edited(moved.clone(), later), [""; 0]);
    let again = json!({"c": {"n": 1, "moved_from": "b"}});
    assert_eq!(edited(moved, again), [""; 0], "a second rename");
}

#[test]
fn r49_rename_of_an_id_that_is_in_intent_is_refused() {
    let field = "addons.prodspec.v1.Moved.from: is moved from";
    let both = json!({"a": {"n": 1}, "b": {"n": 1, "moved_from": "a"}});
    let said = edited(json!({"a": {"n": 1}}), both.clone());
    let there = format!(
        "m#0:2:0: b: {field} `a`, which is still in intent; remove that asset, or the addon if the rename is done \
         (says moves)"
    );
    assert_eq!(said, std::slice::from_ref(&there));
    let back = edited(json!({"b": {"n": 1, "moved_from": "a"}}), both);
    assert_eq!(back, [there], "the old id comes back");
    let cycle = json!({"a": {"n": 1, "moved_from": "b"}, "b": {"n": 1, "moved_from": "a"}});
    let said = edited(json!({"a": {"n": 1}, "b": {"n": 1}}), cycle);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("which is renamed itself; rename one after the other"));
    let chain = json!({"b": {"n": 1, "moved_from": "a"}, "c": {"n": 1, "moved_from": "b"}});
    let said = edited(json!({"a": {"n": 1}}), chain);
    assert!(
        said[0].contains(
            "c: addons.prodspec.v1.Moved.from: is moved from `b`, which is renamed itself"
        )
    );
}

#[test]
fn r49_two_renames_of_one_id_are_refused() {
    let both = json!({"b": {"n": 1, "moved_from": "a"}, "c": {"n": 1, "moved_from": "a"}});
    let said = edited(json!({"a": {"n": 1}}), both.clone());
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[0].ends_with(
            "b: addons.prodspec.v1.Moved.from: is moved from `a`, and so is `c`; an asset has one new id: remove the \
             addon of all but one (says moves)"
        ),
        "{said:?}"
    );
    let later = edited(json!({"b": {"n": 1, "moved_from": "a"}}), both);
    assert_eq!(later.len(), 2, "the second one comes later: {later:?}");
}

#[test]
fn r49_rename_to_another_type_or_to_an_asset_beside_is_refused() {
    let beside = json!({"a": {"n": 1}, "b": {"n": 1}});
    let said = edited(beside, json!({"b": {"n": 1, "moved_from": "a"}}));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("is moved from `a`, but has been in intent beside it"),
        "{said:?}"
    );

    let sealed = incarnation(json!({"b": {"n": 1}}));
    let name = prodspec_model::TypeName::new("test.v1.Other").unwrap();
    let other = prodspec_model::Asset::builder(testing::id("a")).payload_value(name, &json!({}));
    let put = vec![other.unwrap().build().unwrap()];
    let no = prodspec_model::IncarnationNo(2);
    let snapshot = sealed.snapshot().edit(no, put, &[testing::id("b")]);
    let parent = prodspec_model::Incarnation::new(sealed.header().clone(), snapshot);
    let pipeline = testing::builder().build().unwrap();
    let moved = items(json!({"b": {"n": 1, "moved_from": "a"}}));
    let said = pipeline
        .dry_run([("docs", moved)], Some(&parent))
        .unwrap_err();
    assert!(
        said.to_string()
            .contains("which has the type test.v1.Other; a rename keeps the type"),
        "{said}"
    );
}
