//! The validator of custom resources: each fits the schema of its CustomResourceDefinition, when that is there.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use plugin_sdk::{Candidate, FieldPath, Problem, Problems, Validator};
use prodspec_model::{Asset, Digest, Provenance, snapshot::Change};
use serde_json::Value;

use crate::{assets::ManifestAssets, large::LargeObjects, names, object::Kind, schema::Schema};

/// Validates the custom resources that a [`ManifestAssets`] makes with the schemas of the CustomResourceDefinitions that it
/// makes, as an API server with strict field validation does. Resources without a definition are not validated.
///
/// Not evaluated are `format`, list types (`set` and `map`), rules in CEL (`x-kubernetes-validations`), and `metadata`: the
/// server checks them. Problems have the path of the field, and its line in the manifest.
#[derive(Debug)]
pub struct CustomResources {
    prefix: String,
    /// Where large fields are. `None`: in the assets.
    large: Option<LargeObjects>,
    /// The digest of the last candidate without a problem: what has not changed since then is valid.
    valid: Mutex<Option<Digest>>,
}

impl CustomResources {
    /// A validator for the assets of this generator.
    pub fn of(assets: &ManifestAssets) -> Self {
        Self {
            prefix: format!("{}/", assets.prefix()),
            large: assets.large.clone(),
            valid: Mutex::new(None),
        }
    }

    /// The object of an asset.
    ///
    /// # Errors
    /// When one of its large fields is not in memory.
    fn object(&self, asset: &Asset) -> Result<Value, Problem> {
        let object: Value = serde_json::from_str(asset.payload_json()).unwrap_or_default();
        match &self.large {
            None => Ok(object),
            Some(large) => large.whole(object).ok_or_else(|| {
                let message = "its large fields are no longer in memory, so nothing can be validated with them; restart this process";
                problem(asset, &FieldPath::default(), message)
            }),
        }
    }

    /// The resources of a definition that may not be valid: all, or those that changed since the parent.
    fn suspects(
        &self,
        candidate: &Candidate,
        definition: &Definition,
        changes: Option<&[Change]>,
    ) -> Vec<Asset> {
        let prefix = format!("{}{}/", self.prefix, names::segment(&definition.qualified));
        match changes {
            None => candidate.snapshot.iter_prefix(&prefix).collect(),
            Some(changes) => {
                let ids = changes
                    .iter()
                    .map(|change| change.id())
                    .filter(|id| id.as_str().starts_with(&prefix));
                ids.filter_map(|id| candidate.snapshot.get(id.as_str()))
                    .collect()
            }
        }
    }
}

impl Validator for CustomResources {
    fn name(&self) -> &str {
        "custom-resources"
    }

    fn validate_incarnation(&self, candidate: &Candidate, problems: &mut Problems) {
        let mut valid = self.valid.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = candidate
            .parent
            .as_ref()
            .map(|parent| parent.header().digest);
        let changes = Some(&*candidate.changes).filter(|_| parent.is_some() && parent == *valid);
        let prefix = format!(
            "{}CustomResourceDefinition.apiextensions.k8s.io/",
            self.prefix
        );
        let before = problems.len();
        for asset in candidate.snapshot.iter_prefix(&prefix) {
            let read = self.object(&asset);
            let definition = match read.and_then(|object| Definition::read(&asset, &object)) {
                Ok(Some(definition)) => definition,
                Ok(None) => continue,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            let is_changed =
                |changes: &&[Change]| changes.iter().any(|change| change.id() == asset.id());
            let changes = changes.filter(|changes| !is_changed(changes));
            for resource in self.suspects(candidate, &definition, changes) {
                match self.object(&resource) {
                    Ok(object) => definition.check(&resource, &object, problems),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        if problems.len() == before {
            *valid = Some(candidate.digest);
        }
    }
}

/// What a CustomResourceDefinition says about its resources.
struct Definition {
    /// The name of the kind with its group.
    qualified: String,
    /// The schema of each version that is served. `None`: the version has none.
    versions: BTreeMap<String, Option<Schema>>,
}

impl Definition {
    /// Reads the definition in an asset. `None`: it has another form, such as that of `v1beta1`.
    fn read(asset: &Asset, payload: &Value) -> Result<Option<Self>, Problem> {
        let spec = &payload["spec"];
        let (Some(group), Some(kind)) = (spec["group"].as_str(), spec["names"]["kind"].as_str())
        else {
            return Ok(None);
        };
        let mut versions = BTreeMap::new();
        for (at, version) in spec["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let Some(name) = version["name"]
                .as_str()
                .filter(|_| version["served"] != false)
            else {
                continue;
            };
            let path = FieldPath::default()
                .key("spec")
                .key("versions")
                .index(at)
                .key("schema")
                .key("openAPIV3Schema");
            let schema = match &version["schema"]["openAPIV3Schema"] {
                Value::Null => None,
                schema => Some(
                    Schema::read(schema, &path)
                        .map_err(|misfit| problem(asset, &misfit.path, &misfit.message))?,
                ),
            };
            versions.insert(name.to_owned(), schema);
        }
        let qualified = Kind::new(&format!("{group}/v"), kind).qualified();
        Ok((!versions.is_empty()).then_some(Self {
            qualified,
            versions,
        }))
    }

    /// Adds everything in a resource that does not fit.
    fn check(&self, resource: &Asset, payload: &Value, problems: &mut Problems) {
        let api_version = payload["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        match self.versions.get(version) {
            Some(Some(schema)) => {
                let misfits = schema.misfits(payload).into_iter();
                problems
                    .extend(misfits.map(|misfit| problem(resource, &misfit.path, &misfit.message)));
            }
            Some(None) => {}
            None => {
                let served: Vec<&str> = self.versions.keys().map(String::as_str).collect();
                let message = format!(
                    "its definition serves {} only; use another version, or add this one to the definition",
                    served.join(" and ")
                );
                problems.push(problem(
                    resource,
                    &FieldPath::default().key("apiVersion"),
                    &message,
                ));
            }
        }
    }
}

/// A problem of a field of an object.
fn problem(asset: &Asset, path: &FieldPath, message: &str) -> Problem {
    let origin = Provenance {
        path: path.to_string(),
        ..asset.provenance()
    };
    let steps = FieldPath::default()
        .key("payload")
        .steps()
        .iter()
        .chain(path.steps())
        .cloned()
        .collect::<Vec<_>>();
    let problem = Problem::new(message).asset(asset.id()).origin(&origin);
    problem.field(FieldPath::from(steps).to_string())
}
