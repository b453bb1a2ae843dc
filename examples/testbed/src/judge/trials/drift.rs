//! Drift: production changes without a change of intent, and the enforcer repairs it.

use crate::{
    judge::{
        Intent, Session,
        broken::{Held, ensure},
        evidence, observe,
    },
    processes,
    production::{
        GLOBAL_CELL, JOB,
        api::{By, Caller},
    },
};

/// Scales a job by hand, through the cell's interface.
pub async fn scaled_by_hand(session: &mut Session<impl Intent>) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let name = session.some_cluster()?;
    let cell = observe::cell(&place, &name).await?;
    let mut spec = observe::job(&cell).await?.spec;
    let was = spec.replicas;
    spec.replicas = if session.dice.below(2) == 0 {
        was + 1
    } else {
        was - 1
    };
    cell.put_job(JOB, &spec, &Caller::default()).await?;
    session.arrives().await?;
    let asked = evidence::asked(&place, &mark)?;
    let replicas: Vec<(bool, Option<u64>)> = asked
        .iter()
        .map(|line| (line.by == By::Hand, line.to["replicas"].as_u64()))
        .collect();
    let expected = [
        (true, Some(spec.replicas.into())),
        (false, Some(was.into())),
    ];
    ensure(replicas == expected, || {
        format!("unexpected changes in the journals: {asked:?}")
    })?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{name} from {was} to {} by hand and back by its owner (journal)",
        spec.replicas
    ))
}

/// Kills a cell with all its processes. The control plane starts it again and restores its job and balancer.
pub async fn cell_killed(session: &mut Session<impl Intent>) -> Held<String> {
    let place = session.town.place.clone();
    let mark = evidence::mark(&place)?;
    let name = session.some_cluster()?;
    let cell = observe::cell(&place, &name).await?;
    let mut family = observe::family(&place, &name).await?;
    family.push(cell.pid());
    session.requests_pass(20).await?;
    processes::kill(cell.pid());
    session.gone(&family).await?;
    session.arrives().await?;
    let again = observe::cell(&place, &name).await?;
    ensure(again.instance() != cell.instance(), || {
        format!("{name} is the same process")
    })?;
    let expected = [
        (name.clone(), evidence::job_resource()),
        (name.clone(), "balancer".to_owned()),
    ];
    evidence::asked_once_each(&place, &mark, &expected)?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{name} and its {} processes killed, then restored; {GLOBAL_CELL} found it again (cells, client)",
        family.len() - 1
    ))
}
