//! Checks that the assets of a type are spread over failure domains, so that they do not all fail together.

use std::{collections::BTreeSet, sync::Arc};

use plugin_sdk::{Candidate, Problem, Problems, Validator};
use prodspec_model::{
    Asset, Message,
    addons::{PhysicalCluster, Turndown},
};

/// Refuses an incarnation in which the assets of one type are in too few physical clusters. Assets under turndown are
/// not counted. Not in the standard set, because it is configured per type.
#[derive(Debug, Clone)]
pub struct DomainSpread {
    type_name: Arc<str>,
    at_least: usize,
}

impl DomainSpread {
    /// Requires that the assets of type `T` are in at least `clusters` clusters, by their addon [`PhysicalCluster`].
    pub fn of<T: Message>(clusters: usize) -> Self {
        Self {
            type_name: T::TYPE.into(),
            at_least: clusters,
        }
    }
}

impl Validator for DomainSpread {
    fn name(&self) -> &str {
        "domain-spread"
    }

    fn validate_incarnation(&self, candidate: &Candidate, problems: &mut Problems) {
        let is = |asset: &Asset| asset.type_str() == &*self.type_name;
        let touched = candidate.changes.iter().any(|change| {
            [&change.before, &change.after]
                .into_iter()
                .flatten()
                .any(is)
        });
        if !touched {
            return;
        }
        let stays = |asset: &Asset| is(asset) && !asset.has_addon(Turndown::TYPE);
        let clusters: BTreeSet<String> = candidate
            .snapshot
            .iter()
            .filter(stays)
            .filter_map(|asset| asset.addon::<PhysicalCluster>().ok().flatten())
            .map(|addon| addon.cluster)
            .collect();
        if clusters.len() < self.at_least {
            let message = format!(
                "the assets of type {} are in {} clusters ({}), {} are required; add assets in other clusters",
                self.type_name,
                clusters.len(),
                clusters.into_iter().collect::<Vec<_>>().join(", "),
                self.at_least
            );
            problems.push(Problem::new(message));
        }
    }
}
