//! The standard generators in a pipeline with assets of two types.

use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Problems};
use prodspec_model::{
    Message, Snapshot,
    addons::{ImpactedDomains, Owner, PhysicalCluster},
};
use serde_json::{Value, json};

use super::{AddonTable, ClusterDomains};
use crate::{
    Pipeline, pipeline,
    testing::{self, ByHand, Extra, Extras, document, items, reading},
};

fn builder() -> pipeline::Builder {
    testing::builder()
        .source(ByHand("rules"))
        .asset_type(AssetType::<Extra>::new())
}

/// The assets that `pipeline` makes of two items, one of them with an extra asset.
fn made(pipeline: &Pipeline, rules: Value) -> Result<Snapshot, Vec<String>> {
    let docs = items(json!({ "eu.a": { "n": 1 }, "us.b": { "n": 2 } }));
    let rules = reading(vec![document("rules", "rules.yaml", 1, rules)]);
    let drafted = pipeline.dry_run(vec![("docs", docs), ("rules", rules)], None);
    let said = |problems: Problems| problems.iter().map(ToString::to_string).collect();
    drafted.map(|made| made.snapshot).map_err(said)
}

fn owner_of(made: &Snapshot, id: &str) -> Option<String> {
    let owner = made.get(id).unwrap().addon::<Owner>().unwrap();
    owner.map(|owner| owner.owner)
}

fn owners() -> AddonTable<Owner> {
    AddonTable::new("owners", "rules", "owners")
}

#[test]
fn table_adds_the_addon_of_the_first_rule_that_fits_whatever_the_type() {
    let pipeline = builder().generator(owners()).generator(Extras).build();
    let rules = json!({ "owners": [
        { "prefix": "us", "addon": null },
        { "type": Extra::TYPE, "addon": { "owner": "extra-team" } },
        { "addon": { "owner": "sre" } },
    ] });
    let made = made(&pipeline.unwrap(), rules).unwrap();
    assert_eq!(owner_of(&made, "eu.a").as_deref(), Some("sre"));
    assert_eq!(owner_of(&made, "extra/eu.a").as_deref(), Some("extra-team"));
    assert_eq!(owner_of(&made, "us.b"), None);
}

#[test]
fn table_leaves_assets_that_have_the_addon() {
    let first = AddonTable::<Owner>::new("first", "rules", "first");
    let pipeline = builder().generator(first).generator(owners()).build();
    let rules = json!({
        "first": [{ "prefix": "eu", "addon": { "owner": "eu-team" } }],
        "owners": [{ "addon": { "owner": "sre" } }],
    });
    let made = made(&pipeline.unwrap(), rules).unwrap();
    assert_eq!(owner_of(&made, "eu.a").as_deref(), Some("eu-team"));
    assert_eq!(owner_of(&made, "us.b").as_deref(), Some("sre"));
}

#[test]
fn required_addon_without_a_rule_is_a_problem_of_the_asset() {
    let pipeline = builder().generator(owners().required()).build().unwrap();
    let rules = json!({ "owners": [{ "prefix": "eu", "addon": { "owner": "eu-team" } }] });
    assert_eq!(
        made(&pipeline, rules).unwrap_err(),
        [
            "m#0:2:0: us.b: has no addon prodspec.v1.Owner, and no rule at `owners` in rules fits it; add one (says owners)"
        ]
    );
}

#[test]
fn mistake_in_a_rule_is_reported_at_its_place() {
    let pipeline = builder().generator(owners()).build().unwrap();
    for (rule, message) in [
        (
            json!({ "prefx": "eu", "addon": null }),
            "owners[0].prefx: unknown field",
        ),
        (
            json!({ "addon": { "onwer": "x" } }),
            "owners[0].addon.onwer: unknown field",
        ),
        (
            json!({ "prefix": "eu" }),
            "owners[0]: missing field `addon`",
        ),
    ] {
        let said = made(&pipeline, json!({ "owners": [rule] })).unwrap_err();
        assert!(said[0].contains(message), "{said:?}");
        assert!(said[0].starts_with("rules.yaml#0:"), "{said:?}");
    }
}

/// Adds a physical cluster to the items whose id begins with `eu`.
struct Clusters;

impl Generator for Clusters {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_any_asset("clusters")
    }
    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let asset = input
            .asset()
            .filter(|asset| asset.id_str().starts_with("eu"));
        if let Some(asset) = asset {
            out.amend(asset.edit().addon(&PhysicalCluster::new("eu-1"))?)?;
        }
        Ok(())
    }
}

#[test]
fn domains_follow_the_physical_cluster() {
    let pipeline = builder()
        .generator(Clusters)
        .generator(ClusterDomains)
        .build();
    let made = made(&pipeline.unwrap(), json!({})).unwrap();
    let domains = |id: &str| made.get(id).unwrap().addon::<ImpactedDomains>().unwrap();
    let eu = ImpactedDomains::Domains(vec!["eu-1".into()]);
    assert_eq!(domains("eu.a"), Some(eu));
    assert_eq!(domains("us.b"), None);
}

#[test]
fn generator_for_assets_of_any_type_cannot_make_assets() {
    struct Maker;
    impl Generator for Maker {
        fn info(&self) -> GeneratorInfo {
            GeneratorInfo::per_any_asset("maker").makes::<Extra>()
        }
        fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> {
            Ok(())
        }
    }
    let refused = builder().generator(Maker).build().unwrap_err().to_string();
    assert!(
        refused.contains("make the assets in another one"),
        "{refused}"
    );
}
