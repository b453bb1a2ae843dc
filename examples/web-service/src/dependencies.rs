//! Adds what each job calls as dependencies: its version is pushed only while the services that it calls are in place.

use control_plane::prelude::*;

use crate::assets::{Balancer, Job};

/// The generator that amends jobs with their dependencies. It looks each called service up, so that a change of one
/// service repeats the calls for its callers only.
#[derive(Debug, Clone, Copy)]
pub struct Dependencies;

impl Generator for Dependencies {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_asset::<Job>("dependencies").finds::<Balancer>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(asset) = input.asset() else {
            return Ok(());
        };
        let job: Job = asset.payload()?;
        let mut edges = Vec::new();
        for called in &job.calls {
            let balancer = AssetId::new(&format!("balancer/{called}/{}", job.cluster))?;
            match input.find(&balancer) {
                Some(_) => edges.push(addons::Edge::order(balancer)),
                None => {
                    let message = format!(
                        "calls `{called}`, which has no tasks in {}; add them, or remove the call",
                        job.cluster
                    );
                    out.problem(Problem::with(asset, message).field("payload.calls"));
                }
            }
        }
        if !edges.is_empty() {
            out.amend(asset.edit().addon(&addons::DependsOn::on(edges))?)?;
        }
        Ok(())
    }
}
