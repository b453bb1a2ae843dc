//! The first and the last steps: turnup of the whole service from an empty directory, and its removal.

use crate::{
    judge::{
        Intent, Session,
        broken::{Held, ensure},
        evidence, sweep,
    },
    place::Place,
    processes,
};

/// Starts the control plane with a manifest in an empty directory, and expects that the whole service comes up.
pub async fn turn_up(session: &mut Session<impl Intent>) -> Held<String> {
    let mut place = session.town.place.clone();
    place.prepare(&session.manifest.text())?;
    session.town.place = place;
    session.town.save(&session.manifest.text())?;
    session.town.start_plane()?;
    session.arrives().await?;
    session.hammer().await?;
    let mut seen = session.attempts();
    seen.retain(|attempt| !attempt.failed());
    let mut by: Vec<String> = seen.into_iter().filter_map(|a| a.frontend).collect();
    by.sort();
    by.dedup();
    let tasks: u32 = session
        .wanted()
        .clusters
        .values()
        .map(|c| c.job.replicas)
        .sum();
    ensure(by.len() == tasks as usize, || {
        format!("answers came from {by:?} only")
    })?;
    Ok(format!(
        "cells, process table, schema; answers from each of {tasks} frontends"
    ))
}

/// Expects that demand never exceeded capacity, by the journals of all cells.
pub fn capacity(session: &Session<impl Intent>) -> Held<String> {
    let instants = evidence::demand_fits_capacity(&session.town.place)?;
    Ok(format!(
        "{instants} changes of capacity in the cells' journals"
    ))
}

/// Runs `down`, and expects that no process and no file except the edited manifest is left.
pub async fn down(session: &mut Session<impl Intent>) -> Held<String> {
    let place: Place = session.town.place.clone();
    let mut pids = Vec::new();
    for name in place.cell_names()? {
        if let Some(pid) = processes::cell(&name, &place.cell(&name)) {
            pids.extend(processes::children(pid).into_iter().map(|child| child.0));
            pids.push(pid);
        }
    }
    session.town.command(&["down"]).await?;
    let left: Vec<&u32> = pids
        .iter()
        .filter(|pid| processes::running(**pid))
        .collect();
    ensure(left.is_empty(), || {
        format!("the processes {left:?} are still running")
    })?;
    let kept: Vec<_> = std::fs::read_dir(place.dir())?.flatten().collect();
    ensure(
        kept.len() == 1 && kept[0].path() == place.manifest(),
        || format!("left are {kept:?}, expected only the edited manifest"),
    )?;
    sweep(place.dir()).await;
    Ok(format!(
        "none of {} processes is left, and no file except the edited manifest",
        pids.len()
    ))
}
