//! `generate`: one manifest of `n` entries becomes typed assets, encoded, validated and hashed, without a past.
//!
//! `ns_each` is per asset. The peer `limit` reads the same manifest with serde into the same types, encodes each and
//! hashes the bytes.

use std::collections::BTreeMap;

use plugin_sdk::{AssetType, Drafts, Generator, GeneratorInfo, Input, Problems};
use prodspec_gen::{JsonFile, Pipeline, validators};
use prodspec_model::{Asset, AssetId, Digest, PartitionId};

use super::{OURS, Scenario, Sizes};
use crate::{
    Error,
    assets::{JobType, manifest},
    measure::{Meter, Sample},
};

/// The scenario `generate` with its sizes and sides.
pub(super) static SCENARIO: Scenario = Scenario {
    name: "generate",
    about: "one manifest: read, made into typed assets, encoded, validated, hashed",
    target: "2x the limit",
    sizes: Sizes {
        named: 100_000,
        all: 20_000,
        smoke: 1_000,
    },
    sides: &[(OURS, ours), ("limit", limit)],
};

/// Name of the source.
const SOURCE: &str = "jobs";

fn ours(n: usize) -> Result<Vec<Sample>, Error> {
    let text = manifest(n)?;
    let source = JsonFile::new("jobs").named(SOURCE);
    let pipeline = Pipeline::builder(PartitionId::new("bench")?)
        .generator(Jobs)
        .asset_type(AssetType::<JobType>::new().valid(JobType::valid))
        .validators(validators::standard())
        .source(source.clone())
        .build()?;
    let meter = Meter::start()?;
    let reading = source.parse(text.as_bytes())?;
    let candidate = pipeline.dry_run([(SOURCE, reading)], None)?;
    let sample = meter.stop("all", n)?;
    match candidate.snapshot.len() == n {
        true => Ok(vec![sample.bytes(meter.grown()?)]),
        false => Err(format!("{} of {n} assets", candidate.snapshot.len()).into()),
    }
}

fn limit(n: usize) -> Result<Vec<Sample>, Error> {
    let text = manifest(n)?;
    let meter = Meter::start()?;
    let jobs: BTreeMap<String, JobType> = serde_json::from_str(&text)?;
    let mut encoded = BTreeMap::new();
    for (name, job) in jobs {
        let id = AssetId::new(&format!("job/{name}"))?;
        let bytes = serde_json::to_vec(&job)?;
        let digest = Digest::of(&bytes);
        encoded.insert(id, (bytes, digest));
    }
    let sample = meter.stop("all", n)?;
    match encoded.len() == n {
        true => Ok(vec![sample.bytes(meter.grown()?)]),
        false => Err(format!("{} of {n} assets", encoded.len()).into()),
    }
}

/// Makes a job of each entry of the manifest.
struct Jobs;

impl Generator for Jobs {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("jobs")
            .reads(SOURCE)
            .makes::<JobType>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let jobs: BTreeMap<String, JobType> = document.read()?;
            for (name, job) in jobs {
                let asset = Asset::builder(AssetId::new(&format!("job/{name}"))?);
                out.asset(asset.payload(&job)?, document.provenance_at(name))?;
            }
        }
        Ok(())
    }
}
