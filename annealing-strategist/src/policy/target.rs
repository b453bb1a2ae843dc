//! From an asset to a target of a rollout. Apart, because the kernel and the stall check must agree on it.

use std::sync::Arc;

use plugin_sdk::{Progress, Target};
use prodspec_model::{
    Asset,
    addons::{ImpactedDomains, PhysicalCluster},
};

/// `asset` as a target that waits.
///
/// Its domains are its [`PhysicalCluster`], then its [`ImpactedDomains`]; none when it can hurt all of them, or says
/// nothing that can be read.
///
/// ```
/// use annealing_strategist::policy::target_of;
/// use plugin_sdk::testing::asset;
/// use prodspec_model::addons::PhysicalCluster;
///
/// let job = asset("job/eu").edit().addon(&PhysicalCluster { cluster: "eu-1".into() })?.build()?;
/// assert_eq!(target_of(&job).domain(), Some("eu-1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn target_of(asset: &Asset) -> Target {
    Target {
        asset: asset.id(),
        domains: domains(asset),
        progress: Progress::Waiting,
    }
}

fn domains(asset: &Asset) -> Arc<[Arc<str>]> {
    let cluster = asset.addon::<PhysicalCluster>().ok().flatten();
    let mut domains: Vec<Arc<str>> = cluster.into_iter().map(|at| at.cluster.into()).collect();
    match asset.addon::<ImpactedDomains>().ok().flatten() {
        Some(ImpactedDomains::Global) => domains.clear(),
        Some(ImpactedDomains::Domains(hurt)) => {
            for domain in hurt {
                if !domains.iter().any(|known| **known == *domain) {
                    domains.push(domain.into());
                }
            }
        }
        None => {}
    }
    domains.into()
}
