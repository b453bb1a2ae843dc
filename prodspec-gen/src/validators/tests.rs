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
