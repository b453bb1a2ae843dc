//! The generator and the validator of Kubernetes manifests: schemas of custom resources come from the manifests too.

use std::sync::Arc;

use plugin_sdk::{AssetTypes, Candidate, Document, Drafts, Generator, Input, Problems, Validator};
use plugins_kubernetes::{CustomResources, KubernetesYaml, ManifestAssets};
use prodspec_gen::file::{Files, OneFile};
use prodspec_model::{IncarnationNo, Snapshot};

use super::{LIMITS, MANIFESTS, tars::refused};
use crate::{
    seeds,
    target::{Broken, Class, Effort, Target, law},
};

/// The way from a manifest to validated assets.
#[derive(Debug)]
pub(crate) struct CustomResource;

impl CustomResource {
    fn generator() -> Option<ManifestAssets> {
        let assets = ManifestAssets::of("cluster")
            .kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
            .ok()?;
        assets.kind("example.com/v1", "Shop").ok()
    }
}

impl Target for CustomResource {
    fn name(&self) -> &'static str {
        "custom-resources"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        seeds::custom_resources()
    }

    fn words(&self) -> &'static [&'static str] {
        MANIFESTS
    }

    fn run(&self, input: &[u8], _: Effort) -> Result<Class, Broken> {
        let file = Files::<OneFile<KubernetesYaml>>::new("cluster").limits(LIMITS);
        let (Ok(reading), Some(generator)) = (file.parse(input), Self::generator()) else {
            return Ok(Class::refused("not parsed"));
        };
        let mut drafts = Drafts::of("kubernetes");
        let documents: Vec<&Document> = reading.documents.iter().collect();
        if let Err(problems) = generator.generate(&Input::new(documents, &[]), &mut drafts) {
            return Ok(refused(&problems));
        }
        let made = drafts.finish().0;
        let snapshot = Snapshot::empty().edit(IncarnationNo(1), made.clone(), &[]);
        law(
            snapshot.len() == made.len(),
            "each object is an asset of its own",
            || format!("{} of {}", snapshot.len(), made.len()),
        )?;
        let (first, second) = (
            validated(&generator, &snapshot),
            validated(&generator, &snapshot),
        );
        law(
            first == second,
            "a validator finds the same problems again",
            || format!("{first}\nthen {second}"),
        )?;
        Ok(refused(&first).and(Class::accepted(&[made.len(), first.len()])))
    }
}

fn validated(generator: &ManifestAssets, snapshot: &Snapshot) -> Problems {
    let candidate = Candidate {
        parent: None,
        snapshot: snapshot.clone(),
        digest: snapshot.digest(),
        changes: Snapshot::empty().diff(snapshot).into(),
        types: Arc::new(AssetTypes::default()),
    };
    let mut problems = Problems::none();
    CustomResources::of(generator).validate_incarnation(&candidate, &mut problems);
    problems
}
