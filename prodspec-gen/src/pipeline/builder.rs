//! Building a pipeline. Parts that do not fit together are refused here, not at the first edit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{
    AddonType, AssetType, AssetTypes, Blobs, EditableSource, ExternalValidator, Generator,
    SourceOfTruth, Validator, document::FieldPath, generate::Unit,
};
use prodspec_model::{Message, PartitionId, SourceName};

use super::{Editable, External, Inner, Pipeline, Stage, error::Error, graph};
use crate::{
    abandoned::Abandoned,
    guard::{GrowthGuard, Guards, ShrinkGuard},
    kernel::Timing,
};

/// A pipeline under construction. [`Builder::build`] checks it.
#[must_use]
pub struct Builder {
    inner: Inner,
}

impl Builder {
    pub(super) fn new(partition: PartitionId) -> Self {
        Self {
            inner: Inner {
                partition,
                sources: Vec::new(),
                editable: BTreeMap::new(),
                late: BTreeMap::new(),
                generators: Vec::new(),
                validators: Vec::new(),
                external: Vec::new(),
                blobs: None,
                types: Arc::default(),
                guards: Guards::default(),
                timing: Timing::default(),
            },
        }
    }

    /// Adds a source of truth. Its name must be unique in the pipeline.
    pub fn source(mut self, source: impl SourceOfTruth) -> Self {
        self.inner.sources.push(Arc::new(source));
        self
    }

    /// Adds a source of truth whose fields programs may change. Its name must be unique in the pipeline.
    pub fn editable(mut self, source: impl EditableSource) -> Self {
        let source = Arc::new(source);
        let editable = Editable::Source(source.clone());
        self.inner.editable.insert(source.name(), editable);
        self.inner.sources.push(source);
        self
    }

    /// Adds a table as a source of truth. Programs may change it; its name must be unique in the pipeline. Needs the feature
    /// `files`.
    #[cfg(feature = "files")]
    pub fn table(mut self, table: crate::table::Table) -> Self {
        let editable = Editable::Table(table.clone());
        self.inner.editable.insert(table.name(), editable);
        self.source(table)
    }

    /// Adds a generator. Its name must be unique in the pipeline.
    pub fn generator(mut self, generator: impl Generator) -> Self {
        self.inner.generators.push(Stage {
            info: generator.info(),
            generator: Box::new(generator),
        });
        self
    }

    /// Adds a validator of assets or whole incarnations.
    pub fn validator(mut self, validator: impl Validator) -> Self {
        self.inner.validators.push(Arc::new(validator));
        self
    }

    /// Adds several validators, such as those of [`crate::validators::standard`].
    pub fn validators(mut self, validators: impl IntoIterator<Item = Arc<dyn Validator>>) -> Self {
        self.inner.validators.extend(validators);
        self
    }

    /// Adds an external validator, which asks another system. No answer within `deadline` is a refusal.
    pub fn external_validator(
        mut self,
        validator: impl ExternalValidator,
        deadline: Duration,
    ) -> Self {
        self.inner.external.push(External {
            validator: Arc::new(validator),
            deadline,
            late: Abandoned::default(),
        });
        self
    }

    /// Sets where the content of external references ([`ExternalRef`](prodspec_model::ExternalRef)) is. Before an
    /// incarnation is sealed, the content of its new references is read, verified and kept; one that is missing or has
    /// another digest is a problem. Without this call, external references are refused.
    pub fn blobs(mut self, blobs: impl Blobs) -> Self {
        self.inner.blobs = Some(Arc::new(blobs));
        self
    }

    /// Declares an asset type: assets can have payloads of this type.
    pub fn asset_type<T>(mut self, declared: AssetType<T>) -> Self {
        self.types().add(declared);
        self
    }

    /// Declares an addon type: what an addon of this type must be.
    pub fn addon_type<A: Message>(mut self, declared: AddonType<A>) -> Self {
        self.types().add_addon(declared);
        self
    }

    fn types(&mut self) -> &mut AssetTypes {
        Arc::make_mut(&mut self.inner.types)
    }

    /// Sets how many assets one seal can lose. By default 3 assets or 10 per cent, whichever is more.
    pub fn shrink_guard(mut self, guard: ShrinkGuard) -> Self {
        self.inner.guards.shrink = guard;
        self
    }

    /// Sets how many assets one seal can add. By default 100 assets or just under 100 per cent, whichever is more.
    pub fn growth_guard(mut self, guard: GrowthGuard) -> Self {
        self.inner.guards.growth = guard;
        self
    }

    /// Sets the times after which runs start, and the deadlines of a run.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.inner.timing = timing;
        self
    }

    /// Checks the parts and builds the pipeline. Logs a warning for each asset type without a validator.
    ///
    /// # Errors
    /// When the parts do not fit together: see [`Error`].
    pub fn build(mut self) -> Result<Pipeline, Error> {
        self.check_names()?;
        self.check_inputs()?;
        self.inner.generators = graph::order(self.inner.generators)?;
        let names = self.inner.sources.iter().map(|source| source.name());
        self.inner.late = names.map(|name| (name, Abandoned::default())).collect();
        let partition = &self.inner.partition;
        for type_name in self.inner.types.without_validator() {
            tracing::warn!(%partition, type_name, "asset type without a validator; declare one with AssetType::valid");
        }
        Ok(Pipeline(Arc::new(self.inner)))
    }

    fn check_names(&self) -> Result<(), Error> {
        let Inner {
            sources,
            generators,
            ..
        } = &self.inner;
        if sources.is_empty() || generators.is_empty() {
            return Err(Error::Empty);
        }
        let named = sources.iter().map(|source| source.name().0);
        unique("sources", named)?;
        unique(
            "generators",
            generators.iter().map(|stage| stage.info.name.clone()),
        )
    }

    fn check_inputs(&self) -> Result<(), Error> {
        let Inner {
            sources,
            generators,
            ..
        } = &self.inner;
        let there: BTreeSet<SourceName> = sources.iter().map(|source| source.name()).collect();
        let made: BTreeSet<_> = generators
            .iter()
            .flat_map(|stage| &stage.info.makes)
            .collect();
        for Stage { info, .. } in generators {
            let entries = match &info.unit {
                Unit::Entry(_, path) => Some(path),
                _ => None,
            };
            for path in info.shares.iter().chain(entries) {
                let source: Result<FieldPath, _> = path.parse();
                source.map_err(|source| Error::WrongPath {
                    generator: info.name.to_string(),
                    source,
                })?;
            }
            if let Some(source) = info.sources().find(|name| !there.contains(name)) {
                return Err(Error::UnknownSource {
                    generator: info.name.to_string(),
                    source_name: source.0.to_string(),
                });
            }
            if let (Unit::AnyAsset, Some(made)) = (&info.unit, info.makes.first()) {
                return Err(Error::MakesAssets {
                    generator: info.name.to_string(),
                    type_name: made.to_string(),
                });
            }
            let mut wanted = info.uses().chain(info.amends());
            if let Some(missing) = wanted.find(|name| !made.contains(name)) {
                return Err(Error::NoProducer {
                    generator: info.name.to_string(),
                    type_name: missing.to_string(),
                });
            }
        }
        Ok(())
    }
}

fn unique(kind: &'static str, names: impl Iterator<Item = Arc<str>>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(Error::Duplicate {
                kind,
                name: name.to_string(),
            });
        }
    }
    Ok(())
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("partition", &self.inner.partition)
            .finish_non_exhaustive()
    }
}
