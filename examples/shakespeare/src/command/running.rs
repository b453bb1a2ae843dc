//! What runs in production, asked of the cells themselves: for people who start and stop the control plane.

use std::fmt::Write;

use crate::{
    place::Place,
    production::{api::Caller, client::Cell},
};

/// One line per cell, and where to send requests.
pub async fn describe(place: &Place) -> Vec<String> {
    let mut lines = Vec::new();
    for name in place.cell_names().unwrap_or_default() {
        let Ok(cell) = Cell::connect(&place.cell(&name), &name).await else {
            continue;
        };
        lines.push(format!("  {}", cell_line(&cell).await));
    }
    if lines.is_empty() {
        lines.push("  nothing".into());
    }
    lines
}

async fn cell_line(cell: &Cell) -> String {
    let nobody = Caller::default();
    let mut line = format!(
        "cell {:<8} {} (process {})",
        cell.name(),
        cell.url(),
        cell.pid()
    );
    let jobs = cell.identity(&nobody).await.map(|identity| identity.jobs);
    for job in jobs.unwrap_or_default() {
        if let Ok(Some(view)) = cell.job(&job, &nobody).await {
            let _ = write!(line, ", {} tasks of {job}", view.tasks.len());
        }
    }
    if let Ok(Some(balancer)) = cell.balancer(&nobody).await {
        let _ = write!(line, ", balancer http://{}/", balancer.address);
    }
    line
}
