use serde::{Deserialize, Serialize};
use serde_json::json;

use super::*;
use crate::{
    addons::{DependsOn, Edge, Need, Owner},
    reference::AssetRef,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Job {
    name: String,
}

impl Message for Job {
    const TYPE: &'static str = "test.v1.Job";
}

fn id(text: &str) -> AssetId {
    AssetId::new(text).unwrap()
}

fn job(name: &str) -> AssetBuilder {
    Asset::builder(id("job/eu"))
        .payload(&Job { name: name.into() })
        .unwrap()
}

#[test]
fn asset_parts_round_trip() {
    let depends = DependsOn {
        edges: vec![Edge {
            provider: AssetRef::to(id("db")),
            need: Need::Capacity { unit: "qps".into() },
        }],
    };
    let provenance = Provenance {
        generator: "g".into(),
        amenders: vec!["h".into()],
        source: "m".into(),
        document: "m.yaml#0".into(),
        path: "jobs.eu".into(),
    };
    let asset = job("x")
        .addon(&depends)
        .unwrap()
        .addon(&Owner { owner: "me".into() })
        .unwrap();
    let asset = asset.provenance(provenance.clone()).build().unwrap();
    assert_eq!(asset.id(), id("job/eu"));
    assert_eq!(asset.type_str(), "test.v1.Job");
    assert_eq!(asset.payload::<Job>().unwrap().name, "x");
    assert_eq!(asset.addon::<DependsOn>().unwrap(), Some(depends));
    assert_eq!(asset.addons().count(), 2);
    assert_eq!(asset.references(), [id("db")]);
    let located = asset.located_references();
    let field = "addons.prodspec.v1.DependsOn.edges[0].provider";
    assert_eq!(
        (located[0].field.as_str(), &located[0].target),
        (field, &id("db"))
    );
    assert_eq!(asset.provenance(), provenance);
    assert!(asset.payload::<Owner>().is_err());
    assert_eq!(asset.edit().build().unwrap(), asset);
    assert_eq!(Asset::try_from(asset.canonical()).unwrap(), asset);
}

#[test]
fn asset_of_the_maximum_size_is_accepted_and_one_byte_more_is_refused() {
    let base = job("").build().unwrap().canonical().len();
    let at_limit = job(&"x".repeat(MAX_BYTES - base)).build().unwrap();
    assert_eq!(at_limit.canonical().len(), MAX_BYTES);
    let over = job(&"x".repeat(MAX_BYTES - base + 1)).build();
    assert!(matches!(over, Err(Error::TooLarge { bytes, .. }) if bytes == MAX_BYTES + 1));
}

#[test]
fn second_addon_of_the_same_type_is_refused() {
    let owner = Owner { owner: "me".into() };
    let twice = job("x").addon(&owner).unwrap().addon(&owner);
    assert!(matches!(twice, Err(Error::DuplicateAddon { .. })));
    assert!(
        job("x")
            .addon(&owner)
            .unwrap()
            .without_addon::<Owner>()
            .build()
            .unwrap()
            .addons()
            .next()
            .is_none()
    );
}

#[test]
fn provenance_is_outside_the_digest() {
    let moved = job("x")
        .provenance(Provenance {
            path: "jobs[9]".into(),
            ..Provenance::default()
        })
        .build()
        .unwrap();
    assert_eq!(moved.digest(), job("x").build().unwrap().digest());
}

#[test]
fn references_to_invalid_ids_or_with_a_second_key_are_refused() {
    for to in [
        json!({"$asset": "../b"}),
        json!({"$asset": "b", "weight": 1}),
    ] {
        let type_name = TypeName::new("test.v1.Any").unwrap();
        let built = Asset::builder(id("a"))
            .payload_value(type_name, &json!({"to": to}))
            .unwrap()
            .build();
        assert!(matches!(built, Err(Error::Reference { .. })), "{to}");
    }
}

#[test]
fn asset_with_any_flipped_or_missing_byte_is_refused() {
    let asset = job("x").build().unwrap();
    let good = asset.block().bytes().to_vec();
    let load = |bytes| Asset::from_block(Block::at(std::sync::Arc::new(bytes), 0));
    assert_eq!(load(good.clone()).unwrap(), asset);
    let content = 52 + asset.canonical().len();
    for at in 0..content {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        let same = load(bad).is_ok_and(|read| read == asset && read.id_str() == "job/eu");
        assert!(!same, "the flipped byte {at} was not noticed");
    }
    for cut in 0..content {
        assert!(load(good[..cut].to_vec()).is_err());
    }
}
