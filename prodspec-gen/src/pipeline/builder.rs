//! Building a pipeline: what does not fit together is refused here, not at the first edit.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use plugin_sdk::{
    AssetType, AssetTypes, ExternalValidator, Generator, SourceOfTruth, Validator, generate::Unit,
};
use prodspec_model::{Message, PartitionId, SourceName};

use super::{External, Inner, Pipeline, Stage, graph};
use crate::{
    guard::{GrowthGuard, Guards, ShrinkGuard},
    kernel::Timing,
};

/// Why parts do not make a pipeline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Generators wait for each other.
    #[error(
        "generators form a cycle: {path}; break it by letting one of them read a source instead"
    )]
    Cycle {
        /// Who makes what for whom.
        path: String,
    },
    /// Two parts have one name.
    #[error("two {kind} are called `{name}`; rename one")]
    Duplicate {
        /// Which parts.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A generator reads a source that is not there.
    #[error(
        "the generator `{generator}` reads `{source_name}`, which is not a source of this pipeline; add it or name it so"
    )]
    UnknownSource {
        /// Who reads.
        generator: String,
        /// What it reads.
        source_name: String,
    },
    /// A generator consumes a type that no generator makes.
    #[error("the generator `{generator}` consumes `{type_name}`, which no generator makes")]
    NobodyMakes {
        /// Who consumes.
        generator: String,
        /// What it consumes.
        type_name: String,
    },
    /// There is nothing to generate from.
    #[error("a pipeline needs at least one source and one generator")]
    Empty,
}

/// A pipeline under construction.
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
                generators: Vec::new(),
                validators: Vec::new(),
                external: Vec::new(),
                types: Arc::default(),
                guards: Guards::default(),
                timing: Timing::default(),
            },
        }
    }

    /// Adds a source of truth.
    pub fn source(mut self, source: impl SourceOfTruth) -> Self {
        self.inner.sources.push(Arc::new(source));
        self
    }

    /// Adds a generator.
    pub fn generator(mut self, generator: impl Generator) -> Self {
        self.inner.generators.push(Stage {
            info: generator.info(),
            generator: Box::new(generator),
        });
        self
    }

    /// Adds a validator.
    pub fn validator(mut self, validator: impl Validator) -> Self {
        self.inner.validators.push(Arc::new(validator));
        self
    }

    /// Adds validators, such as [`crate::validators::standard`].
    pub fn validators(mut self, validators: impl IntoIterator<Item = Arc<dyn Validator>>) -> Self {
        self.inner.validators.extend(validators);
        self
    }

    /// Adds a validator that asks somebody outside. No answer within `deadline` means no.
    pub fn external_validator(
        mut self,
        validator: impl ExternalValidator,
        deadline: Duration,
    ) -> Self {
        self.inner.external.push(External {
            validator: Arc::new(validator),
            deadline,
        });
        self
    }

    /// Declares that assets may have payloads of type `T`.
    pub fn asset_type<T: Message>(mut self, declared: AssetType<T>) -> Self {
        self.types().add(declared);
        self
    }

    /// Declares an addon type: where it is present it must read as an `A`.
    pub fn addon_type<A: Message>(mut self) -> Self {
        self.types().add_addon::<A>();
        self
    }

    fn types(&mut self) -> &mut AssetTypes {
        Arc::make_mut(&mut self.inner.types)
    }

    /// Sets how many assets one change may lose (by default 3 or a tenth).
    pub fn shrink_guard(mut self, guard: ShrinkGuard) -> Self {
        self.inner.guards.shrink = guard;
        self
    }

    /// Sets how many assets one change may add (by default 100 or as many as there are).
    pub fn growth_guard(mut self, guard: GrowthGuard) -> Self {
        self.inner.guards.growth = guard;
        self
    }

    /// Sets when changes start a run.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.inner.timing = timing;
        self
    }

    /// Finishes the pipeline. Warns about asset types without a validator.
    ///
    /// # Errors
    /// When the parts do not fit together: see [`Error`].
    pub fn build(mut self) -> Result<Pipeline, Error> {
        self.check_names()?;
        self.check_inputs()?;
        self.inner.generators = graph::order(self.inner.generators)?;
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
            let (document, asset) = match &info.unit {
                Unit::Document(source) => (Some(source), None),
                Unit::Asset(type_name) => (None, Some(type_name)),
                _ => (None, None),
            };
            if let Some(source) = info
                .reads
                .iter()
                .chain(document)
                .find(|name| !there.contains(name))
            {
                return Err(Error::UnknownSource {
                    generator: info.name.to_string(),
                    source_name: source.0.to_string(),
                });
            }
            if let Some(missing) = info
                .consumes
                .iter()
                .chain(asset)
                .find(|name| !made.contains(name))
            {
                return Err(Error::NobodyMakes {
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
