//! `schedules` and `watches`: the assets that start operations by themselves.

use control_plane::{
    prelude::Timestamp,
    workflow::{Counts, ExecutionId, Paused, ScheduleState, WatchState},
};

use crate::{control::client::Control, place::Place, program::Failure, voice::say_list};

/// Prints all schedules.
///
/// # Errors
/// When no control plane is running.
pub(super) async fn schedules(place: &Place, json: bool) -> Result<(), Failure> {
    let all = Control::find(place).await?.schedules().await?;
    Ok(say_list(&all, json, "there are no schedules", schedule)?)
}

/// Prints all watches.
///
/// # Errors
/// When no control plane is running.
pub(super) async fn watches(place: &Place, json: bool) -> Result<(), Failure> {
    let all = Control::find(place).await?.watches().await?;
    Ok(say_list(&all, json, "there are no watches", watch)?)
}

fn schedule(state: &ScheduleState) -> Vec<String> {
    let zone = state.zone.as_deref().unwrap_or("UTC");
    let next = state.next.map(|at| format!(", next {at}"));
    let next = next.unwrap_or_default();
    let mut lines = vec![format!("{}: {} {zone}{next}", state.asset, state.cron)];
    let Counts {
        started,
        late,
        forbidden,
        paused,
    } = state.counts;
    lines.push(format!(
        "  slots      {started} started, {late} late, {forbidden} forbidden, {paused} paused"
    ));
    lines.extend(state.open.map(|at| format!("  open       {at}")));
    lines.extend(standing(
        &state.running,
        state.paused.as_ref(),
        state.orphan,
        state.trouble.as_deref(),
    ));
    lines
}

fn watch(state: &WatchState) -> Vec<String> {
    let counts = &state.counts;
    let mut lines = vec![
        state.asset.to_string(),
        format!(
            "  runs       {} started, {} changes by them",
            counts.started, counts.own
        ),
    ];
    lines.extend(state.waiting.iter().map(|asset| {
        let mut holding = state.holding.iter();
        let due = holding.find(|it| it.asset == *asset);
        let due = due.map(|it| format!(", due {:.0}", it.due));
        format!("  waits      {asset}{}", due.unwrap_or_default())
    }));
    lines.extend(standing(
        &state.running,
        state.paused.as_ref(),
        state.orphan,
        state.trouble.as_deref(),
    ));
    lines
}

/// Returns the lines about what runs, and about what keeps the next run from starting.
fn standing(
    running: &[ExecutionId],
    paused: Option<&Paused>,
    orphan: Option<Timestamp>,
    trouble: Option<&str>,
) -> Vec<String> {
    let running = running.iter().map(|id| format!("  runs       {id}"));
    let paused = paused
        .iter()
        .map(|paused| format!("  paused     by {} since {:.0}", paused.by, paused.since));
    let orphan = orphan
        .iter()
        .map(|since| format!("  orphaned   since {since:.0}: see `acknowledge`"));
    let trouble = trouble.iter().map(|why| format!("  held       {why}"));
    running.chain(paused).chain(orphan).chain(trouble).collect()
}
