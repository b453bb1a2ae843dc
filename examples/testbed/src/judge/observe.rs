//! Observes production from outside: through the interfaces of the cells, the process table and the database file. This
//! module does not use the control plane.

use std::collections::BTreeMap;

use super::{
    broken::{Held, broken, ensure},
    wanted::{Wanted, WantedCluster},
};
use crate::{
    place::Place,
    processes,
    production::{
        GLOBAL_CELL, JOB,
        api::{BalancerSpec, BalancerView, Caller, JobSpec, JobView, State},
        client::Cell,
        database, load,
    },
};

/// Connects to the cell of a cluster.
pub async fn cell(place: &Place, name: &str) -> Held<Cell> {
    let place = Place::new(place.dir().canonicalize()?);
    Ok(Cell::connect(&place.cell(name), name).await?)
}

/// Returns the job of a cell.
pub async fn job(cell: &Cell) -> Held<JobView> {
    match cell.job(JOB, &Caller::default()).await? {
        Some(view) => Ok(view),
        None => broken(format_args!("{} has no job", cell.name())),
    }
}

/// Returns the balancer of a cell.
pub async fn balancer(cell: &Cell) -> Held<BalancerView> {
    match cell.balancer(&Caller::default()).await? {
        Some(view) => Ok(view),
        None => broken(format_args!("{} has no balancer", cell.name())),
    }
}

/// Expects that all of production is as wanted.
///
/// # Errors
/// When it is not, or cannot be observed.
pub async fn production_is(place: &Place, wanted: &Wanted) -> Held {
    let mut shares = BTreeMap::new();
    for (name, cluster) in &wanted.clusters {
        if !cluster.leaves {
            cluster_is(place, name, cluster).await?;
            shares.insert(name.clone(), cluster.balancer_capacity);
        }
    }
    global_is(place, wanted.global_capacity, shares).await?;
    let schema = schema(place)?;
    ensure(schema == wanted.schema, || {
        format!("the database has schema {schema}")
    })
}

async fn cluster_is(place: &Place, name: &str, wanted: &WantedCluster) -> Held {
    let cell = cell(place, name).await?;
    let balancer = balancer(&cell).await?;
    job_is(&cell, &wanted.job).await?;
    ensure(balancer.state == State::Stable, || {
        format!("{name}: the balancer is changing")
    })?;
    ensure(
        balancer.spec.max_capacity == wanted.balancer_capacity
            && balancer.max_capacity_in_force == wanted.balancer_capacity,
        || format!("{name}: the balancer is {:?}", balancer.spec),
    )?;
    let children = processes::children(cell.pid());
    let tasks: Vec<&(u32, String)> = children
        .iter()
        .filter(|(_, line)| line.contains(" frontend "))
        .collect();
    let version = format!("--version={}", wanted.job.version);
    let as_wanted = |task: &&(u32, String)| task.1.contains(&version);
    ensure(
        tasks.len() == wanted.job.replicas as usize && tasks.iter().all(as_wanted),
        || format!("{name}: the process table has {tasks:?}"),
    )?;
    ensure(
        children.iter().any(|child| Some(child.0) == balancer.pid),
        || format!("{name}: the balancer's process is not running"),
    )
}

/// Expects that a cell's job is as wanted and stable.
///
/// # Errors
/// When it is not, or cannot be observed.
pub async fn job_is(cell: &Cell, wanted: &JobSpec) -> Held {
    let job = job(cell).await?;
    ensure(job.spec == *wanted && job.state == State::Stable, || {
        format!("{}: the job is {:?} {:?}", cell.name(), job.state, job.spec)
    })
}

async fn global_is(place: &Place, max_capacity: u32, cells: BTreeMap<String, u32>) -> Held {
    let cell = cell(place, GLOBAL_CELL).await?;
    let there = balancer(&cell).await?;
    let wanted = BalancerSpec {
        max_capacity,
        jobs: vec![],
        cells,
    };
    ensure(
        there.spec == wanted
            && there.state == State::Stable
            && there.endpoints.len() == wanted.cells.len()
            && there.pid.is_some_and(processes::running),
        || {
            let places: Vec<&str> = there.endpoints.iter().map(|e| &*e.name).collect();
            format!(
                "the global balancer is {:?} {:?}, sends to {places:?}",
                there.state, there.spec
            )
        },
    )
}

/// Expects that a cluster's balancer answers a direct request.
///
/// # Errors
/// When it does not, or there is none.
pub async fn serves(place: &Place, name: &str) -> Held {
    let address = balancer(&cell(place, name).await?).await?.address;
    let answer = load::once(address).await;
    ensure(!answer.failed(), || format!("{name} answers {answer:?}"))
}

/// Returns the version of the database schema.
pub fn schema(place: &Place) -> Held<u32> {
    Ok(database::look(&place.database(), &Caller::default())?)
}

/// Returns the times at which the schema was migrated to `version`, in microseconds since 1970.
pub fn migrations_to(place: &Place, version: u32) -> Held<Vec<u64>> {
    Ok(database::migrations_to(&place.database(), version)?)
}

/// Returns the process ids of a cell's tasks and balancer, sorted.
pub async fn family(place: &Place, name: &str) -> Held<Vec<u32>> {
    let cell = cell(place, name).await?;
    let mut pids: Vec<u32> = job(&cell)
        .await?
        .tasks
        .iter()
        .map(|task| task.pid)
        .collect();
    pids.extend(balancer(&cell).await?.pid);
    pids.sort_unstable();
    Ok(pids)
}
