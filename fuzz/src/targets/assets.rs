//! Assets that are built from JSON: what is built has a canonical form, from which the same asset is built.

use std::collections::BTreeSet;

use prodspec_model::{
    Asset, AssetId, Message, TypeName, addons,
    asset::{self, MAX_BYTES},
    canonical,
};
use serde::Deserialize;
use serde_json::Value;

use crate::target::{Broken, Class, Effort, Target, law};

/// Builds an asset of its parts.
pub(crate) type Build = fn(&Parts) -> Result<Asset, asset::Error>;

/// The builder and the block format of assets.
#[derive(Debug)]
pub(crate) struct Assets(pub(crate) Build);

const WORDS: &[&str] = &[
    "{\"$asset\":\"job/eu\"}",
    "{\"$asset\":1}",
    "\"$asset\"",
    "\"prodspec.v1.DependsOn\"",
    "\"\\u0000\"",
    "1e308",
    "-0.0",
    "{\"a\":{},\"a\":[]}",
];

/// The canonical form of an asset.
#[derive(Debug, Deserialize)]
pub(crate) struct Parts {
    #[serde(default)]
    addons: serde_json::Map<String, Value>,
    id: AssetId,
    payload: Value,
    #[serde(rename = "type")]
    type_name: TypeName,
}

impl Parts {
    /// Builds the asset.
    ///
    /// # Errors
    /// When it breaks a rule of assets.
    pub(crate) fn build(&self) -> Result<Asset, asset::Error> {
        let mut builder =
            Asset::builder(self.id.clone()).payload_value(self.type_name.clone(), &self.payload)?;
        for (name, addon) in &self.addons {
            if let Ok(name) = TypeName::new(name) {
                builder = builder.addon_value(name, addon)?;
            }
        }
        builder.build()
    }
}

impl Target for Assets {
    fn name(&self) -> &'static str {
        "assets"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let seeds = [
            r#"{"addons":{"prodspec.v1.DependsOn":{"edges":[{"need":{"kind":"capacity","unit":"qps"},"provider":{"$asset":"db/eu"}}]}},"id":"job/eu","payload":{"replicas":3,"uses":[{"$asset":"lb/eu"},{"$asset":"db/eu"}]},"type":"test.v1.Job"}"#,
            r#"{"addons":{"prodspec.v1.Owner":{"owner":"ada"},"team.v1.X":[1,2.5,-0.0,1e300,null,true]},"id":"a.b_c:d-e/0","payload":{"\u0000é\ud83d\ude00":"\n\"","b":{},"a":[]},"type":"a.b"}"#,
            r#"{"id":"x","payload":[[[[{"$asset":"y"}]]]],"type":"x.v1.Y"}"#,
        ];
        seeds.map(|seed| seed.as_bytes().to_vec()).to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        WORDS
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let parts = match serde_json::from_slice::<Parts>(input) {
            Ok(parts) => parts,
            Err(error) => return Ok(Class::refused(&error.to_string())),
        };
        let asset = match (self.0)(&parts) {
            Ok(asset) => asset,
            Err(error) => return Ok(Class::refused(&error.to_string())),
        };
        check(self.0, &asset)?;
        let counts = [
            asset.canonical().len(),
            asset.addons().count(),
            asset.references().len(),
        ];
        Ok(Class::accepted(&counts))
    }
}

fn check(build: Build, asset: &Asset) -> Result<(), Broken> {
    let text = asset.canonical();
    law(
        text.len() <= MAX_BYTES,
        "an asset is not longer than the limit",
        || text.len().to_string(),
    )?;
    let again = serde_json::from_str::<Parts>(text)
        .ok()
        .and_then(|parts| build(&parts).ok());
    let same = again
        .as_ref()
        .is_some_and(|again| again.canonical() == text && again.digest() == asset.digest());
    law(same, "the asset of a canonical form has this form", || {
        format!("{text}\nthen {again:?}")
    })?;
    let value: Option<Value> = serde_json::from_str(text).ok();
    let encoded = value.and_then(|value| canonical::to_bytes(&value).ok());
    law(
        encoded.as_deref() == Some(text.as_bytes()),
        "a canonical form is the canonical encoding of its value",
        || text.into(),
    )?;
    let edited = asset.edit().build();
    law(
        edited.as_ref().is_ok_and(|edited| edited == asset),
        "an edit without a change gives the same asset",
        || text.into(),
    )?;
    let read = Asset::from_block(asset.block().clone());
    law(read.is_ok(), "the block of an asset is read", || {
        text.into()
    })?;
    let located: BTreeSet<AssetId> = asset
        .located_references()
        .into_iter()
        .map(|found| found.target)
        .collect();
    let references: BTreeSet<AssetId> = asset.references().into_iter().collect();
    law(
        located == references,
        "references and their places are the same",
        || format!("{located:?}\nbut {references:?}"),
    )?;
    let edges = asset
        .addon_json(addons::DependsOn::TYPE)
        .map(|_| addons::DependsOn::edges_of(asset));
    let provided = edges
        .unwrap_or_default()
        .iter()
        .all(|edge| references.contains(&edge.provider.id));
    law(
        provided,
        "the providers of an asset are among its references",
        || text.into(),
    )
}
