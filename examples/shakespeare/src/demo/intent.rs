//! The manifest as the judge sees it: a wanted state of production, as plain data.

use testbed::{
    judge::{Intent, Pace, Wanted, WantedCluster},
    production::api::JobSpec,
};

use crate::model::{Cluster, Manifest};

impl Intent for Manifest {
    fn text(&self) -> String {
        self.to_yaml()
    }

    fn wanted(&self) -> Wanted {
        let clusters = self.clusters.iter();
        let canary = self.rollout.canary.as_ref();
        Wanted {
            version: self.version.clone(),
            schema: self.schema,
            global_capacity: self.global.max_capacity,
            clusters: clusters
                .map(|(name, cluster)| (name.clone(), wanted(self, cluster)))
                .collect(),
            pace: Pace {
                order: self.rollout.domains.clone(),
                canary_bake: canary.map_or(0, |canary| canary.bake),
                bake: self.rollout.bake,
            },
        }
    }
}

fn wanted(manifest: &Manifest, cluster: &Cluster) -> WantedCluster {
    let version = cluster.version.as_ref().unwrap_or(&manifest.version);
    WantedCluster {
        job: JobSpec {
            replicas: cluster.replicas,
            capacity_per_task: cluster.capacity_per_task,
            version: version.clone(),
            schema: manifest.schema,
            flags: manifest.flags_of(cluster),
        },
        balancer_capacity: cluster.balancer_capacity,
        leaves: cluster.turndown.is_some(),
    }
}
