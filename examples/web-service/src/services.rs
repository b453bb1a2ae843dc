//! Makes the assets of each service. It is called once per service, so an edit of one costs one call.

use std::collections::BTreeMap;

use control_plane::{prelude::*, sdk::Entry};
use serde::Deserialize;

use crate::{
    SOURCE,
    assets::{Alert, Balancer, Job},
};

/// A service as its team writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    owner: String,
    version: u64,
    tasks: BTreeMap<String, u64>,
    qps_per_task: u64,
    #[serde(default)]
    calls: Vec<String>,
    alert_above_percent: Option<u64>,
}

/// What services have that do not say otherwise.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Defaults {
    alert_above_percent: u64,
}

/// The generator of jobs, balancers and alerts.
#[derive(Debug, Clone, Copy)]
pub struct Services;

impl Generator for Services {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::per_entry("services", SOURCE, "services")
            .shares("defaults")
            .makes::<Job>()
            .makes::<Balancer>()
            .makes::<Alert>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let Some(entry) = input.entry() else {
            return Ok(());
        };
        let service: Service = entry.read()?;
        for (cluster, tasks) in &service.tasks {
            job(entry, &service, cluster, *tasks, out)?;
        }
        alert(entry, service, out)
    }
}

/// Makes the job of one cluster, and its balancer.
fn job(
    entry: &Entry<'_>,
    service: &Service,
    cluster: &str,
    tasks: u64,
    out: &mut Drafts,
) -> Result<(), Problems> {
    let name = entry.key();
    let job = Job {
        service: name.into(),
        cluster: cluster.into(),
        version: service.version,
        tasks,
        qps_per_task: service.qps_per_task,
        calls: service.calls.clone(),
    };
    let balancer = Balancer {
        job: AssetRef::to(AssetId::new(&format!("job/{name}/{cluster}"))?),
        max_qps: tasks * service.qps_per_task,
    };
    let capacity = addons::Edge::capacity(balancer.job.id.clone(), job.unit());
    let owner = addons::Owner::new(&*service.owner);
    let job = Asset::builder(balancer.job.id.clone()).payload(&job)?;
    out.asset(job.addon(&owner)?, entry.provenance())?;
    let id = AssetId::new(&format!("balancer/{name}/{cluster}"))?;
    let balancer = Asset::builder(id).payload(&balancer)?.addon(&owner)?;
    let balancer = balancer.addon(&addons::DependsOn::on([capacity]))?;
    out.asset(balancer, entry.provenance())?;
    Ok(())
}

fn alert(entry: &Entry<'_>, service: Service, out: &mut Drafts) -> Result<(), Problems> {
    let defaults: Option<Defaults> = entry.shared("defaults")?;
    let percent = service.alert_above_percent;
    let percent = percent.or(defaults.map(|defaults| defaults.alert_above_percent));
    let above_percent = percent.ok_or_else(|| {
        entry.problem("has no `alert_above_percent`; add it here or under `defaults`")
    })?;
    let alert = Alert {
        service: entry.key().into(),
        above_percent,
        owner: service.owner,
    };
    let id = AssetId::new(&format!("alert/{}", entry.key()))?;
    out.asset(Asset::builder(id).payload(&alert)?, entry.provenance())?;
    Ok(())
}
