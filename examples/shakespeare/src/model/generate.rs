//! The generator: makes the assets from the manifest, with all their references and dependencies.

use std::time::Duration;

use control_plane::{
    model::{
        AssetBuilder, Filter, Provenance, TypeName,
        policy::{
            AlertPolicy, ApprovalPolicy, BlastRadiusPolicy, CalendarPolicy, CapacityPolicy,
            FreezePolicy, RatePolicy, Usage,
        },
        rollout::RolloutPolicy,
        train::Train,
    },
    prelude::{
        Asset, AssetId, AssetRef, Document, Drafts, Generator, GeneratorInfo, Input, Message,
        Problem, Problems,
    },
    sdk::Located,
    workflow::{
        CronOperation, History, Operation, PipelineStep, Schedule, StatusIs, Watch, WatchOperation,
    },
};
use serde_json::{Map, Value, json};

use prodspec::{DependsOn, Edge, ImpactedDomains, Owner, PhysicalCluster, RolloutPolicyRef};

use super::{
    POLICY, Rollout, SOURCE,
    manifest::{Cluster, Notices, Performances, Placed},
    payload::{
        DatabaseSchema, FailureDomain, FreshIndex, FrontendJob, GlobalBalancer, LoadBalancer, Peak,
        Share, balancer_unit, job_unit,
    },
};

use control_plane::model::addons as prodspec;
use testbed::production::GLOBAL_CELL;

/// Maximum number of notices that are being printed at the same time.
const MOST_NOTICES: u32 = 10;

/// Generator that makes the assets of the Shakespeare service from its manifest.
#[derive(Debug, Clone, Copy)]
pub struct ShakespeareModel;

impl Generator for ShakespeareModel {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("shakespeare")
            .reads(SOURCE)
            .makes::<FrontendJob>()
            .makes::<LoadBalancer>()
            .makes::<GlobalBalancer>()
            .makes::<DatabaseSchema>()
            .makes::<FreshIndex>()
            .makes::<CronOperation>()
            .makes::<WatchOperation>()
            .makes::<FailureDomain>()
            .makes::<RolloutPolicy>()
            .makes::<Train>()
            .makes::<AlertPolicy>()
            .makes::<ApprovalPolicy>()
            .makes::<BlastRadiusPolicy>()
            .makes::<CalendarPolicy>()
            .makes::<CapacityPolicy>()
            .makes::<FreezePolicy>()
            .makes::<RatePolicy>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        let mut documents = input.documents();
        if let (Some(document), None) = (documents.next(), documents.next()) {
            let manifest: Placed = document.read()?;
            return Shakespeare { manifest, document }.draft(out);
        }
        Err(Problem::new("a manifest must contain exactly one YAML document").into())
    }
}

struct Shakespeare<'a> {
    manifest: Placed,
    document: &'a Document,
}

impl Shakespeare<'_> {
    fn draft(&self, out: &mut Drafts) -> Result<(), Problems> {
        let whole = self.document.provenance();
        self.policies(out)?;
        out.asset(self.database()?, whole.clone())?;
        out.asset(self.global()?, whole)?;
        if let Some(index) = &self.manifest.index {
            let index = self.owned(AssetId::new("index")?)?.payload(index)?;
            out.asset(index, self.document.provenance_at("index"))?;
        }
        for (name, policy) in &self.manifest.checks {
            let at = self.document.provenance_at("checks");
            out.asset(self.check(name, policy.clone())?, at)?;
        }
        for (name, performances) in &self.manifest.schedules {
            let at = self.document.provenance_at("schedules");
            out.asset(self.schedule(name, performances)?, at)?;
        }
        if let Some(notices) = self.manifest.notices {
            let at = self.document.provenance_at("notices");
            out.asset(self.notices(notices)?, at)?;
        }
        for (name, cluster) in &self.manifest.clusters {
            let at = self.document.provenance_at(&*cluster.path);
            if let Err(why) = check_name(name) {
                out.problem(self.document.problem_at(&cluster.path, why));
                continue;
            }
            self.cluster(name, cluster, &at, out)?;
        }
        Ok(())
    }

    /// Makes the policy assets, and the train.
    fn policies(&self, out: &mut Drafts) -> Result<(), Problems> {
        self.policy(
            AssetId::new(POLICY)?,
            "rollout",
            &self.manifest.rollout,
            out,
        )?;
        for (name, policy) in &self.manifest.policies {
            let at = format!("policies.{name}");
            if !policy.update.is_pins() {
                let why = "the clusters are updated as the section `rollout` says: set it there";
                let at = format!("{at}.update");
                out.problem(self.document.problem_at(&at, why));
            }
            self.policy(id("policy", name)?, &at, policy, out)?;
        }
        if let Some(train) = &self.manifest.train {
            let train = self.owned(AssetId::new("train")?)?.payload(train)?;
            out.asset(train, self.document.provenance_at("train"))?;
        }
        Ok(())
    }

    /// Makes a policy asset of a section, and reports each problem of the section with its position.
    fn policy(
        &self,
        id: AssetId,
        section: &str,
        rollout: &Rollout,
        out: &mut Drafts,
    ) -> Result<(), Problems> {
        let clusters = &self.manifest.clusters;
        for (path, message) in rollout.wrong(|name| clusters.contains_key(name)) {
            let at = format!("{section}.{path}");
            out.problem(self.document.problem_at(&at, message));
        }
        let policy = self.owned(id)?.payload(&rollout.policy())?;
        out.asset(policy, self.document.provenance_at(section))?;
        Ok(())
    }

    fn cluster(
        &self,
        name: &str,
        cluster: &Located<Cluster>,
        at: &Provenance,
        out: &mut Drafts,
    ) -> Result<(), Problems> {
        let domain = FailureDomain { name: name.into() };
        let domain = self
            .owned(id("cluster", name)?)?
            .payload(&domain)?
            .addon(&ImpactedDomains::Domains(vec![name.into()]))?;
        out.asset(domain, at.clone())?;
        out.asset(self.job(name, cluster)?, at.clone())?;
        if cluster.peak.is_some() {
            out.asset(self.kept(name)?, at.clone())?;
        }
        out.asset(self.balancer(name, cluster)?, at.clone())?;
        Ok(())
    }

    /// Makes the asset of a policy that holds changes back.
    fn check(&self, name: &str, mut policy: Map<String, Value>) -> Result<AssetBuilder, Problems> {
        let of_type = policy.remove("type").unwrap_or_default();
        let of_type = of_type.as_str().unwrap_or_default();
        let of_type = TypeName::new(&format!("prodspec.v1.{of_type}"))?;
        let asset = self.owned(AssetId::new(name)?)?;
        Ok(asset.payload_value(of_type, &policy.into())?)
    }

    /// Makes the policy by which the job of a cluster keeps the capacity of its peak.
    fn kept(&self, name: &str) -> Result<AssetBuilder, Problems> {
        let payload = CapacityPolicy {
            of: Filter::ids([id("job", name)?]),
            unit: job_unit(name),
            per: None,
            usage: Usage {
                field: Some("addon.Peak.requests".into()),
                ..Usage::default()
            },
            headroom: 1.0,
            peak: Default::default(),
            except: Vec::new(),
        };
        Ok(self.owned(id("capacity", name)?)?.payload(&payload)?)
    }

    fn job(&self, name: &str, cluster: &Cluster) -> Result<AssetBuilder, Problems> {
        let version = cluster.version.as_ref().unwrap_or(&self.manifest.version);
        let payload = FrontendJob {
            cluster: AssetRef::to(id("cluster", name)?),
            database: AssetRef::to(AssetId::new("database")?),
            version: version.clone(),
            replicas: cluster.replicas,
            capacity_per_task: cluster.capacity_per_task,
            schema: self.manifest.schema,
            flags: self.manifest.flags_of(cluster),
        };
        let needs = vec![Edge::version(payload.database.id.clone())];
        let mut job = governed(self.owned(id("job", name)?)?)?.payload(&payload)?;
        if let Some(requests) = cluster.peak {
            job = job.addon(&Peak { requests })?;
        }
        in_cluster(job, name, cluster, needs)
    }

    fn balancer(&self, name: &str, cluster: &Cluster) -> Result<AssetBuilder, Problems> {
        let payload = LoadBalancer {
            cluster: AssetRef::to(id("cluster", name)?),
            job: AssetRef::to(id("job", name)?),
            max_capacity: cluster.balancer_capacity,
        };
        let needs = vec![Edge::capacity(payload.job.id.clone(), job_unit(name))];
        let balancer = governed(self.owned(id("balancer", name)?)?)?.payload(&payload)?;
        in_cluster(balancer, name, cluster, needs)
    }

    fn global(&self) -> Result<AssetBuilder, Problems> {
        let (mut shares, mut edges) = (Vec::new(), Vec::new());
        let stays = |(name, cluster): &(&String, &Located<Cluster>)| {
            cluster.turndown.is_none() && check_name(name).is_ok()
        };
        for (name, cluster) in self.manifest.clusters.iter().filter(stays) {
            let balancer = AssetRef::to(id("balancer", name)?);
            edges.push(Edge::capacity(balancer.id.clone(), balancer_unit(name)));
            shares.push(Share {
                balancer,
                capacity: cluster.balancer_capacity,
            });
        }
        let payload = GlobalBalancer {
            max_capacity: self.manifest.global.max_capacity,
            shares,
        };
        let global = governed(self.owned(AssetId::new("global")?)?)?.payload(&payload)?;
        Ok(global
            .addon(&ImpactedDomains::Global)?
            .addon(&DependsOn::on(edges))?)
    }

    fn database(&self) -> Result<AssetBuilder, Problems> {
        let payload = DatabaseSchema {
            version: self.manifest.schema,
        };
        let database = self.owned(AssetId::new("database")?)?.payload(&payload)?;
        Ok(database.addon(&ImpactedDomains::Global)?)
    }

    fn schedule(&self, name: &str, wanted: &Performances) -> Result<AssetBuilder, Problems> {
        let works = json!({ "works": [name], "secs": wanted.secs });
        let steps = [
            PipelineStep::new("bill", "print").input(works.clone()),
            PipelineStep::new("play", "perform").input(works),
        ];
        let payload = CronOperation {
            schedule: Schedule::new(&wanted.cron),
            starting_deadline_secs: None,
            concurrency: wanted.concurrency,
            history: History::default(),
            template: Operation::pipeline(steps),
        };
        Ok(self.owned(id("cron", name)?)?.payload(&payload)?)
    }

    fn notices(&self, wanted: Notices) -> Result<AssetBuilder, Problems> {
        let late = Watch::status([StatusIs::OutOfSync])
            .held_for(Duration::from_secs(wanted.out_of_sync_secs))
            .of(Filter::types([FrontendJob::TYPE]));
        let tell = Operation::pipeline([PipelineStep::new("notice", "notice")]);
        let mut payload = WatchOperation::new(late, tell);
        // One cluster's notice does not wait for that of another one.
        payload.at_most = MOST_NOTICES;
        Ok(self.owned(id("watch", "notices")?)?.payload(&payload)?)
    }

    fn owned(&self, id: AssetId) -> Result<AssetBuilder, Problems> {
        Ok(Asset::builder(id).addon(&Owner::new(&self.manifest.owner))?)
    }
}

/// Adds the reference to the rollout policy, so that the policy governs the asset.
fn governed(asset: AssetBuilder) -> Result<AssetBuilder, Problems> {
    Ok(asset.addon(&RolloutPolicyRef::to(AssetId::new(POLICY)?))?)
}

/// Adds the addons of an asset that runs in a cluster.
fn in_cluster(
    asset: AssetBuilder,
    name: &str,
    cluster: &Cluster,
    edges: Vec<Edge>,
) -> Result<AssetBuilder, Problems> {
    let asset = asset
        .addon(&PhysicalCluster::new(name))?
        .addon(&ImpactedDomains::Domains(vec![name.into()]))?
        .addon(&DependsOn::on(edges))?;
    let Some(turndown) = &cluster.turndown else {
        return Ok(asset);
    };
    Ok(asset.addon(&prodspec::Turndown::new(
        &turndown.reason,
        &turndown.approved_by,
    ))?)
}

fn id(kind: &str, cluster: &str) -> Result<AssetId, Problems> {
    Ok(AssetId::new(&format!("{kind}/{cluster}"))?)
}

/// Checks the name of a cluster, which is also the name of its cell.
fn check_name(name: &str) -> Result<(), String> {
    if name == GLOBAL_CELL {
        return Err(format!(
            "`{GLOBAL_CELL}` is the name of the global balancer's cell; give the cluster another name"
        ));
    }
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-');
    let ends = edge(name.bytes().next()) && edge(name.bytes().last());
    if ends && name.len() <= 40 && name.bytes().all(good) {
        return Ok(());
    }
    Err(
        "a cluster's name has 1 to 40 of the characters a-z, 0-9 and -, and no - at its ends"
            .into(),
    )
}
