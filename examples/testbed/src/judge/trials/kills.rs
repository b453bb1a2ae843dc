//! Deaths of processes that a cell repairs by itself, without any call of the control plane.

use crate::{
    judge::{
        Intent, Session,
        broken::{Held, broken, ensure},
        evidence, observe,
    },
    production::{
        GLOBAL_CELL,
        api::{By, Change, Line},
    },
};

/// Kills frontends of one or more clusters, at most one per cluster.
pub async fn frontends(session: &mut Session<impl Intent>) -> Held<String> {
    let mark = evidence::mark(&session.town.place)?;
    let mut victims = Vec::new();
    for name in session.clusters() {
        let cell = observe::cell(&session.town.place, &name).await?;
        let tasks = observe::job(&cell).await?.tasks;
        let task = session.dice.pick(&tasks).map(|task| task.pid);
        victims.extend(task);
    }
    session.dice.shuffle(&mut victims);
    victims.truncate(1 + session.dice.below(victims.len()));
    session.requests_pass(20).await?;
    session.kill(&victims).await?;
    session.arrives().await?;
    healed(session, &mark, victims.len(), |line| {
        line.resource.starts_with("jobs/")
    })?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{} replaced by their cells, without a call (journals); client",
        victims.len()
    ))
}

/// Kills a balancer: that of a cluster, or the global one.
pub async fn balancer(session: &mut Session<impl Intent>) -> Held<String> {
    let mark = evidence::mark(&session.town.place)?;
    let mut cells = session.clusters();
    cells.push(GLOBAL_CELL.into());
    let Some(name) = session.dice.pick(&cells).cloned() else {
        return broken("there is no cell");
    };
    let cell = observe::cell(&session.town.place, &name).await?;
    let before = observe::balancer(&cell).await?;
    let Some(victim) = before.pid else {
        return broken(format_args!("{name} has no balancer process"));
    };
    session.requests_pass(20).await?;
    session.kill_balancer(&name, victim).await?;
    session.arrives().await?;
    let after = observe::balancer(&cell).await?;
    ensure(after.address == before.address, || {
        format!("{name}'s balancer has another address")
    })?;
    healed(session, &mark, 1, |line| {
        line.resource == "balancer/process"
    })?;
    session.requests_pass(50).await?;
    Ok(format!(
        "{name}'s was replaced at the same address, without a call (journal); client"
    ))
}

fn healed(
    session: &Session<impl Intent>,
    mark: &evidence::Mark,
    expected: usize,
    is: impl Fn(&Line) -> bool,
) -> Held {
    let place = &session.town.place;
    evidence::nothing_asked(place, mark)?;
    let lines = evidence::since(place, mark)?.into_values().flatten();
    let healed = lines
        .filter(|line| line.change == Change::Process && line.by == By::Heal && is(line))
        .count();
    ensure(healed == expected, || {
        format!("{healed} processes were replaced, expected {expected}")
    })
}
