//! The integrator of web services: the generators that turn a few lines per service into all assets that it needs.

pub mod assets;
mod dependencies;
mod services;

use std::path::Path;

use control_plane::generation::Pipeline;
use control_plane::prelude::*;

use assets::{Alert, Balancer, Job};

pub use dependencies::Dependencies;
pub use services::Services;

/// Name of the source, under which the generator reads it.
pub const SOURCE: &str = "services";

/// The pipeline from a file with services to assets.
///
/// # Errors
/// If the parts do not make a pipeline.
pub fn pipeline(file: &Path) -> Result<Pipeline, BoxError> {
    let pipeline = Pipeline::builder(PartitionId::new("web")?)
        .source(YamlFile::watch(file).named(SOURCE))
        .generator(Services)
        .generator(Dependencies)
        .validators(validators::standard())
        .asset_type(
            AssetType::<Job>::new()
                .described()
                .capacity(|job| [(job.unit(), job.tasks * job.qps_per_task)].into()),
        )
        .asset_type(AssetType::<Balancer>::new().described())
        .asset_type(AssetType::<Alert>::new().described())
        .build()?;
    Ok(pipeline)
}
