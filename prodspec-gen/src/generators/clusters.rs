//! Failure domains from physical clusters.

use plugin_sdk::{Drafts, Generator, GeneratorInfo, Input, Problems};
use prodspec_model::{
    Message,
    addons::{ImpactedDomains, PhysicalCluster},
};

/// Adds [`ImpactedDomains`] to each asset that has a [`PhysicalCluster`] and no such addon: a change of the asset can
/// harm its cluster. Assets of neither addon are left as they are, so add a rule for them with an
/// [`AddonTable`](super::AddonTable) or a validator.
///
/// ```
/// # use prodspec_gen::{Pipeline, YamlFile, generators::ClusterDomains};
/// # use plugin_sdk::{Drafts, Generator, GeneratorInfo, Input, Problems};
/// # struct Model;
/// # impl Generator for Model {
/// #     fn info(&self) -> GeneratorInfo { GeneratorInfo::per_document("model", "m.yaml") }
/// #     fn generate(&self, _: &Input<'_>, _: &mut Drafts) -> Result<(), Problems> { Ok(()) }
/// # }
/// let pipeline = Pipeline::builder(prodspec_model::PartitionId::new("example")?)
///     .source(YamlFile::new("m.yaml"))
///     .generator(Model)
///     .generator(ClusterDomains)
///     .build()?;
/// # let _ = pipeline;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ClusterDomains;

impl Generator for ClusterDomains {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_any_asset("cluster-domains")
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(asset) = input.asset() else {
            return Ok(());
        };
        if asset.has_addon(ImpactedDomains::TYPE) {
            return Ok(());
        }
        if let Some(at) = asset.addon::<PhysicalCluster>()? {
            let domains = ImpactedDomains::Domains(vec![at.cluster]);
            out.amend(asset.edit().addon(&domains)?)?;
        }
        Ok(())
    }
}
