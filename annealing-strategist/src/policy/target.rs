//! From an asset to a target of a rollout. Apart, because the kernel and the stall check must agree on it.

use std::{collections::BTreeSet, sync::Arc};

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
        silent: false,
        order: 0,
        progress: Progress::Waiting,
    }
}

/// Lets targets with the same domains share their names: layers look at those of every target, and one name in one place
/// stays warm in memory. Changes nothing else.
pub fn share_domains(targets: &mut [Target]) {
    let mut lists: BTreeSet<Arc<[Arc<str>]>> = BTreeSet::new();
    let mut names: BTreeSet<Arc<str>> = BTreeSet::new();
    for target in targets {
        if let Some(known) = lists.get(&target.domains) {
            target.domains = known.clone();
            continue;
        }
        let mut shared = |name: &Arc<str>| match names.get(name) {
            Some(known) => known.clone(),
            None => {
                names.insert(name.clone());
                name.clone()
            }
        };
        target.domains = target.domains.iter().map(&mut shared).collect();
        lists.insert(target.domains.clone());
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

#[cfg(test)]
mod tests {
    use plugin_sdk::testing::target;

    use super::*;

    #[test]
    fn shared_names_say_what_they_said() {
        let own = || {
            vec![
                target("job/a", &["eu", "all"]),
                target("job/b", &[]),
                target("job/c", &["eu", "all"]),
                target("job/d", &["eu"]),
            ]
        };
        let mut targets = own();
        share_domains(&mut targets);
        assert_eq!(targets, own());
        assert!(Arc::ptr_eq(&targets[0].domains, &targets[2].domains));
        assert!(Arc::ptr_eq(&targets[0].domains[0], &targets[3].domains[0]));
    }
}
