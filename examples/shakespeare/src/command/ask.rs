//! `status` and `explain`: questions to the running control plane.

use control_plane::{
    AsIntended, Explained, GroupStatus, enforcer,
    enforcer::{
        Named,
        kernel::{Explanation, Waiting},
    },
    model::AssetId,
    rollout::InRollout,
    sdk::Delay,
    store::records::{Outcome, Pause},
};

use super::{
    Failure,
    rollout::{LEFT_OUT, summary, word},
};
use crate::{
    control::{Standing, client::Control},
    place::Place,
    plugins::JOB,
    production::{api::Caller, client::Cell},
    voice::{say, say_all, say_json},
};

/// How the partition stands, for people or as JSON.
///
/// # Errors
/// When no control plane runs.
pub async fn status(place: &Place, json: bool) -> Result<(), Failure> {
    let status = Control::find(place).await?.status().await?;
    if json {
        say_json(&status)?;
    } else {
        show_status(&status);
    }
    Ok(())
}

fn show_status(standing: &Standing) {
    let status = &standing.status;
    if let Some(generation) = &status.generation {
        match &generation.incarnation {
            Some(header) => say(format_args!(
                "in force   {}, {} assets, sealed {:.0}",
                header.id, header.assets, header.sealed_at
            )),
            None => say("in force   nothing yet"),
        }
        if !generation.problems.is_empty() {
            say("the manifest is not followed:");
            say_all(generation.problems.iter());
        }
    }
    if let Some(stopped) = &status.stopped {
        say(format_args!(
            "STOPPED    enforcement {stopped}; look at production, then `clear`"
        ));
    }
    for trouble in &status.troubles {
        say(format_args!("trouble    {trouble}"));
    }
    match &status.intended {
        AsIntended::Yes => say("intended   yes: production is as the manifest says"),
        AsIntended::No(why) => {
            say("intended   NO");
            say_all(why.iter().map(|why| format!("           {why}")));
        }
        AsIntended::Unknown(why) => say(format_args!("intended   unknown: {why}")),
    }
    if let Some(enforcement) = &status.enforcement {
        say(format_args!(
            "enforced   {} assets, {} not settled",
            enforcement.assets, enforcement.unsettled
        ));
        say_all(enforcement.pauses.iter().map(paused));
        for view in &standing.rollouts {
            say(format_args!("rollout    {}", summary(view)));
        }
        say_all(status.groups.iter().flat_map(group));
        say_all(by_name(enforcement));
    }
}

fn paused(pause: &Pause) -> String {
    let until = match pause.until {
        Some(until) => format!("until {until:.0}"),
        None => "until a person resumes it".into(),
    };
    format!(
        "paused     {}, {until}, by {} since {:.0}",
        pause.scope, pause.by, pause.at
    )
}

/// What a policy group waits for, and what it leaves where it is.
fn group(group: &GroupStatus) -> Vec<String> {
    let policy = &group.policy;
    let awaits = group.awaits_person.iter();
    let awaits = awaits.map(|why| format!("held       rollout of {policy}: {why}"));
    let mut lines: Vec<String> = awaits.collect();
    lines.extend(group.held.iter().map(held));
    if group.left_out.many > 0 {
        let names = some(&group.left_out);
        lines.push(format!("left out   {names}: {LEFT_OUT}"));
    }
    lines
}

fn held((asset, why): (&AssetId, &String)) -> String {
    format!("held       {asset}: {why}")
}

/// The assets, and the types, that are not as they should be, or about which there is something to do.
fn by_name(enforcement: &enforcer::Status) -> Vec<String> {
    let mut lines: Vec<String> = enforcement.held.iter().map(held).collect();
    for push in &enforcement.unknown {
        let look = push.next_look.map(|at| format!(" by {at:.0}"));
        lines.push(format!(
            "unknown    {}: a push may still be under way; it is looked at again{}",
            push.asset,
            look.unwrap_or_default()
        ));
    }
    for name in &enforcement.open_breakers {
        lines.push(format!(
            "breaker    {name}: its plugin only fails, calls are held back; look at it"
        ));
    }
    for orphan in &enforcement.orphans {
        lines.push(format!(
            "orphaned   {orphan}: left running; acknowledge it, or put it back"
        ));
    }
    for asset in &enforcement.left_running {
        lines.push(format!(
            "left       {asset}: runs on as it is until its rollout gets there"
        ));
    }
    for asset in &enforcement.turned_down {
        lines.push(format!(
            "gone       {asset}: gone from production; its entry may leave the manifest"
        ));
    }
    lines
}

/// The names that are listed, and how many more there are.
fn some(named: &Named) -> String {
    let names: Vec<&str> = named.first.iter().map(|id| id.as_str()).collect();
    let more = (named.many as usize).saturating_sub(names.len());
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Why an asset, or each, is or is not being pushed.
///
/// # Errors
/// When no control plane runs, or it does not know the asset.
pub async fn explain(place: &Place, asset: Option<&AssetId>) -> Result<(), Failure> {
    let control = Control::find(place).await?;
    match asset {
        Some(asset) => {
            show_whole(&control.explain(asset).await?);
            show_cell(place, asset).await;
        }
        None => {
            for explained in control.explain_all().await? {
                show_line(&explained);
            }
        }
    }
    Ok(())
}

fn show_line(explained: &Explained) {
    match explained {
        Explained::ModelledOnly {
            asset, type_name, ..
        } => say(format_args!(
            "{:<14} modelled only ({type_name})",
            asset.as_str()
        )),
        Explained::Enforced { enforced, .. } => {
            if let Some(first) = enforced.chain.first() {
                say_all(standing(first));
            }
        }
        _ => {}
    }
}

fn show_whole(explained: &Explained) {
    let Explained::Enforced { enforced, rollouts } = explained else {
        return show_line(explained);
    };
    for link in &enforced.chain {
        say_all(standing(link));
        if let Some(change) = &link.change {
            say(format_args!("  change {}", change.digest));
            for field in &change.fields {
                say(format_args!(
                    "    {}: {} -> {}",
                    field.path, field.from, field.to
                ));
            }
        }
        if let Some(rollout) = rollouts.get(&link.asset) {
            show_rollout(rollout);
        }
    }
    if !enforced.cycle.is_empty() {
        let names: Vec<&str> = enforced.cycle.iter().map(|id| id.as_str()).collect();
        say(format_args!("  wait for each other: {}", names.join(", ")));
    }
    for end in &enforced.dead_ends {
        say(format_args!(
            "  dead end: {} {}; {}",
            end.asset, end.reason, end.way_out
        ));
    }
    for decision in &enforced.decisions {
        say(format_args!(
            "  {:.0} @{} {}: {}",
            decision.at,
            decision.incarnation,
            decision.summary,
            became(&decision.outcome)
        ));
    }
}

/// What was decided, in words.
fn became(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Admitted => "admitted".into(),
        Outcome::Pushed => "pushed".into(),
        Outcome::Failed(why) => format!("failed: {why}"),
        Outcome::Held(why) => format!("held: {why}"),
        Outcome::Delayed(delays) => {
            let said = delays
                .iter()
                .map(|it| format!("{}: {}", it.check, it.reason));
            format!("delayed, {}", said.collect::<Vec<_>>().join("; "))
        }
        other => format!("{other:?}"),
    }
}

/// What a cell itself says about tasks that never start: an update of theirs goes on and on.
async fn show_cell(place: &Place, asset: &AssetId) {
    let Some(name) = asset.as_str().strip_prefix("job/") else {
        return;
    };
    let Ok(dir) = place.cell(name).canonicalize() else {
        return;
    };
    let Ok(cell) = Cell::connect(&dir, name).await else {
        return;
    };
    if let Ok(Some(job)) = cell.job(JOB, &Caller::default()).await
        && let Some(problem) = job.problem
    {
        say(format_args!("  cell {name} says: {problem}"));
    }
}

/// What the rollout of its group has to do with the asset.
fn show_rollout(rollout: &InRollout) {
    let place = match (rollout.progress, rollout.left_out) {
        (Some(progress), _) => format!(", here {}", word(progress)),
        (None, true) => format!(", not here: {LEFT_OUT}"),
        (None, false) => String::new(),
    };
    say(format_args!(
        "  governed by {}: {}{place}",
        rollout.policy, rollout.rollout
    ));
    for wait in &rollout.waits {
        say(format_args!("    waits: {}", wait.why));
    }
}

fn standing(link: &Explanation) -> Vec<String> {
    let status = format!("{:?}", link.status).to_lowercase();
    let at = link.incarnation.map(|no| format!("@{no}"));
    let mut line = format!(
        "{:<14} {status} {} ({})",
        link.asset.as_str(),
        at.unwrap_or_default(),
        link.pin
    );
    if let Some(change) = &link.change {
        line.push_str(&format!(": {}", change.summary));
    }
    let mut lines = vec![line];
    lines.extend(link.waiting.iter().flat_map(waits));
    lines
}

/// What an asset waits for, a line for each.
fn waits(waiting: &Waiting) -> Vec<String> {
    let one = |why: &str| vec![format!("  {why}")];
    match waiting {
        Waiting::Checks(delays) => {
            let said = |delay: &Delay| format!("  {}: {}", delay.check, delay.reason);
            delays.iter().map(said).collect()
        }
        Waiting::Failure(why) | Waiting::Person(why) => one(why),
        Waiting::Others { why, by } => {
            let behind = by.iter().map(|other| format!("  behind {other}"));
            one(why).into_iter().chain(behind).collect()
        }
        Waiting::UnknownOutcome => one("a push may still be under way"),
        Waiting::Production => one("work on it is under way"),
        Waiting::Time => one("falls due by time"),
        Waiting::Ownership => one("it is not certain that this process owns the partition"),
        other => one(&format!("waits for {other:?}")),
    }
}
