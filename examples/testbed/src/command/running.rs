//! Lists what runs in production, as the cells themselves report it. Printed when the control plane stops. Finds the
//! global balancer.

use std::{fmt::Write, net::SocketAddr};

use crate::{
    place::Place,
    processes,
    production::{GLOBAL_CELL, api::Caller, client::Cell},
};

/// Returns one line per running cell: its process, its tasks and the address of its balancer.
pub(super) async fn describe(place: &Place) -> Vec<String> {
    let mut lines = Vec::new();
    for name in place.cell_names().unwrap_or_default() {
        let Ok(cell) = Cell::connect(&place.cell(&name), &name).await else {
            continue;
        };
        lines.push(format!("  {}", cell_line(&cell).await));
    }
    if lines.is_empty() {
        lines.push("  no cell is running".into());
    }
    lines
}

async fn cell_line(cell: &Cell) -> String {
    let by_hand = Caller::default();
    let mut line = format!(
        "cell {:<8} {} (process {})",
        cell.name(),
        cell.url(),
        cell.pid()
    );
    let jobs = cell.identity(&by_hand).await.map(|identity| identity.jobs);
    for job in jobs.unwrap_or_default() {
        if let Ok(Some(view)) = cell.job(&job, &by_hand).await {
            let _ = write!(line, ", {} tasks of {job}", view.tasks.len());
        }
    }
    if let Ok(Some(balancer)) = cell.balancer(&by_hand).await {
        let _ = write!(line, ", balancer http://{}/", balancer.address);
    }
    line
}

/// Returns the name and the process of a cell with tasks; none if none is running.
pub(super) fn a_cell(place: &Place) -> Option<(String, u32)> {
    let names = place.cell_names().ok()?.into_iter();
    let mut cells = names.filter(|name| name != GLOBAL_CELL).filter_map(|name| {
        let dir = place.cell(&name).canonicalize().ok()?;
        let pid = processes::cell(&name, &dir)?;
        Some((name, pid))
    });
    cells.next()
}

/// Returns the address of the global balancer; none if it is not running.
pub(super) async fn front_door(place: &Place) -> Option<SocketAddr> {
    let dir = place.cell(GLOBAL_CELL).canonicalize().ok()?;
    let cell = Cell::connect(&dir, GLOBAL_CELL).await;
    let balancer = cell.ok()?.balancer(&Caller::default()).await.ok()??;
    Some(balancer.address)
}
