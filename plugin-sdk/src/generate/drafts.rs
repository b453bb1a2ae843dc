//! The output of one call of a generator.

use std::sync::Arc;

use prodspec_model::{Asset, AssetBuilder, Provenance, asset};

use crate::{
    error::with_causes,
    problem::{Problem, Problems},
};

/// The output of one call of a generator: assets and problems.
#[derive(Debug, Default)]
pub struct Drafts {
    generator: Arc<str>,
    assets: Vec<Asset>,
    problems: Problems,
}

impl Drafts {
    /// An empty output for the generator named `generator`.
    pub fn of(generator: &str) -> Self {
        Self {
            generator: generator.into(),
            ..Self::default()
        }
    }

    /// Builds an asset and adds it, with the place that it comes from.
    ///
    /// # Errors
    /// If the asset cannot be built; the problem names the place `from`.
    pub fn asset(&mut self, asset: AssetBuilder, from: Provenance) -> Result<(), Problem> {
        let asset = asset.provenance(Provenance {
            generator: self.generator.to_string(),
            ..from
        });
        self.build(&asset)
            .map_err(|error| Problem::new(with_causes(&error)).origin(asset.origin()))
    }

    /// Builds a changed copy of an asset ([`Asset::edit`]) and adds it. The copy keeps its provenance, and names this
    /// generator as one that amended it.
    ///
    /// # Errors
    /// If the asset cannot be built.
    pub fn amend(&mut self, asset: AssetBuilder) -> Result<(), Problem> {
        let asset = asset.amended_by(&self.generator);
        self.build(&asset).map_err(Problem::from)
    }

    fn build(&mut self, asset: &AssetBuilder) -> Result<(), asset::Error> {
        self.assets.push(asset.build()?);
        Ok(())
    }

    /// Adds a problem. The generator can go on and find more problems; a problem that is an error prevents a seal.
    pub fn problem(&mut self, problem: impl Into<Problem>) {
        self.problems.push(problem);
    }

    /// Returns the assets and problems that were added.
    pub fn finish(self) -> (Vec<Asset>, Problems) {
        (self.assets, self.problems)
    }
}
