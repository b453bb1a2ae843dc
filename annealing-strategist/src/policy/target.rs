//! Converts an asset to a target of a rollout. The kernel and the stall check share this conversion.

use std::{collections::BTreeSet, sync::Arc};

use plugin_sdk::{Progress, Target};
use prodspec_model::{
    Asset,
    addons::{ImpactedDomains, PhysicalCluster},
};

/// Returns `asset` as a target that waits for its selection.
///
/// Its domains are its [`PhysicalCluster`], followed by its [`ImpactedDomains`]. It has no domains if it can affect
/// all of them, or if its addons name none or cannot be read.
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
        late: false,
        order: 0,
        progress: Progress::Waiting,
    }
}

/// Lets targets with the same domains share the memory of their names, so that layers that read the domains of every
/// target run faster. Does not change the domains.
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
    // What this version cannot read, a newer version sealed: it may be any domain.
    let impacted = asset.addon::<ImpactedDomains>();
    match impacted.unwrap_or(Some(ImpactedDomains::Global)) {
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
    fn sharing_domains_does_not_change_them() {
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
