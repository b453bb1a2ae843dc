//! `status` and `explain`: questions to the running control plane.

use control_plane::{
    AsIntended, Explained, GroupStatus, enforcer,
    enforcer::{
        ApprovalSet, Named,
        kernel::{Explanation, Prospective, Waiting},
    },
    generation::{Refusal, SealOverride},
    model::AssetId,
    rollout::InRollout,
    sdk::Delay,
    store::records::Outcome,
};

use super::{
    interventions::{allowed, paused, used},
    rollout::{LEFT_OUT, summary, word},
};
use crate::{
    control::{Standing, client::Control},
    place::Place,
    production::{JOB, api::Caller, client::Cell},
    program::Failure,
    voice::{say, say_all, say_json},
};

/// Maximum number of assets that are named of a set of changes.
const NAMED: usize = 5;

/// Prints the state of the partition, as text or as JSON.
///
/// # Errors
/// When no control plane is running.
pub(super) async fn status(place: &Place, json: bool) -> Result<(), Failure> {
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
            None => say("in force   no incarnation yet"),
        }
        if !generation.problems.is_empty() {
            say("the manifest has problems and is not followed:");
            say_all(generation.problems.iter());
        }
        say_all(generation.refusals.iter().map(refused));
    }
    if let Some(stopped) = &status.stopped {
        say(format_args!(
            "STOPPED    enforcement {stopped}; inspect production, then run `clear`"
        ));
    }
    say_all(status.guard_overrides.iter().map(overridden));
    for failure in &status.task_failures {
        say(format_args!("failed     {failure}"));
    }
    match &status.intended {
        AsIntended::Yes => say("intended   yes: production matches the manifest"),
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
        say_all(allowed(&enforcement.approvals, &enforcement.overrides));
        for view in &standing.rollouts {
            say(format_args!("rollout    {}", summary(view)));
        }
        say_all(status.groups.iter().flat_map(group));
        let goals = status.goals.iter();
        say_all(goals.map(|(goal, how_far)| format!("goal       {goal}: {how_far}")));
        let undone = status.undone.iter();
        say_all(undone.map(|(change, why)| format!("waits      {change} does not begin: {why}")));
        say_all(by_name(enforcement));
    }
}

fn refused(refusal: &Refusal) -> String {
    format!(
        "refused    by {}; if it is meant: override {0} --change {}",
        refusal.guard, refusal.digest
    )
}

fn overridden(word: &SealOverride) -> String {
    format!(
        "override   {} for {}, one seal until {:.0}, by {} since {:.0}",
        word.guard, word.digest, word.until, word.by, word.at
    )
}

/// Returns lines about a policy group: what its rollout waits for, whether an operator has to act, its held assets and
/// its left-out assets.
fn group(group: &GroupStatus) -> Vec<String> {
    let policy = &group.policy;
    let waits = group.waits.iter();
    let waits = waits.map(|why| format!("waits      rollout of {policy}: {why}"));
    let mut lines: Vec<String> = waits.collect();
    if let Some(why) = &group.awaits_person {
        lines.push(format!(
            "operator   rollout of {policy} waits for a command: {why} (`rollout` shows all of it)"
        ));
    }
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

/// Returns a line for each asset or plugin that may need an operator's attention.
fn by_name(enforcement: &enforcer::Status) -> Vec<String> {
    let mut lines: Vec<String> = enforcement.held.iter().map(held).collect();
    for push in &enforcement.unknown {
        let look = push.next_look.map(|at| format!(" by {at:.0}"));
        lines.push(format!(
            "unknown    {}: the outcome of a push is unknown; production is read again{}",
            push.asset,
            look.unwrap_or_default()
        ));
    }
    for name in &enforcement.open_breakers {
        lines.push(format!(
            "breaker    {name}: its plugin keeps failing, calls to it are held back; inspect the plugin"
        ));
    }
    if enforcement.contested.many > 0 {
        let names = some(&enforcement.contested);
        lines.push(format!(
            "contested  {names}: changed again after each repair; look for another control plane, program or person that changes it"
        ));
    }
    for orphan in &enforcement.orphans {
        lines.push(format!(
            "orphaned   {orphan}: left running; acknowledge it, or put it back into the manifest"
        ));
    }
    for asset in &enforcement.left_running {
        lines.push(format!(
            "left       {asset}: left running as it is until its rollout reaches it"
        ));
    }
    for asset in &enforcement.turned_down {
        lines.push(format!(
            "gone       {asset}: removed from production; its entry can be deleted from the manifest"
        ));
    }
    lines
}

/// Returns the listed names, and the number of names that are not listed.
fn some(named: &Named) -> String {
    let names: Vec<&str> = named.first.iter().map(|id| id.as_str()).collect();
    let more = (named.many as usize).saturating_sub(names.len());
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Prints the changes that wait for approvals, one line for each set of equal changes.
///
/// # Errors
/// When no control plane is running.
pub(super) async fn approvals(place: &Place) -> Result<(), Failure> {
    let all = Control::find(place).await?.approvals().await?;
    if all.is_empty() {
        say("no change waits for an approval");
    }
    for ApprovalSet {
        digest,
        check,
        change,
        members,
    } in all
    {
        let (set, size) = (digest.short(), members.len());
        let named = Named {
            first: members.into_keys().take(NAMED).collect(),
            many: size as u32,
        };
        say(format_args!(
            "{}, by {check}: {}",
            some(&named),
            change.summary
        ));
        say(format_args!(
            "  approve --set {set} --size {size} --why ..."
        ));
    }
    Ok(())
}

/// Prints why an asset is, or is not, being pushed; without `asset`, a line for each asset.
///
/// # Errors
/// When no control plane is running, or the control plane does not know the asset.
pub(super) async fn explain(place: &Place, asset: Option<&AssetId>) -> Result<(), Failure> {
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
        } => say(modelled(asset, type_name)),
        Explained::Enforced { enforced, .. } => {
            if let Some(first) = enforced.chain.first() {
                say_all(standing(first));
            }
        }
        _ => {}
    }
}

fn modelled(asset: &AssetId, type_name: &str) -> String {
    format!("{:<14} modelled only ({type_name})", asset.as_str())
}

/// Returns a line for the asset and for each asset that it waits for in turn: its state, and what it and its rollout
/// wait for.
pub(super) fn chain(explained: &Explained) -> Vec<String> {
    let line = |link: &Explanation, rollout: Option<&InRollout>| {
        let rollout = rollout.map(governed).unwrap_or_default();
        let lines = standing(link).into_iter().chain(rollout);
        let parts: Vec<String> = lines.map(|line| line.trim_start().to_owned()).collect();
        parts.join("; ")
    };
    match explained {
        Explained::ModelledOnly {
            asset, type_name, ..
        } => vec![modelled(asset, type_name)],
        Explained::Enforced { enforced, rollouts } => {
            let links = enforced.chain.iter();
            links
                .map(|link| line(link, rollouts.get(&link.asset)))
                .collect()
        }
        _ => Vec::new(),
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
        if let Some(ahead) = &link.ahead {
            say_all(not_moved(ahead));
        }
        show_interventions(link);
        if let Some(rollout) = rollouts.get(&link.asset) {
            say_all(governed(rollout));
        }
    }
    if !enforced.cycle.is_empty() {
        let names: Vec<&str> = enforced.cycle.iter().map(|id| id.as_str()).collect();
        say(format_args!(
            "  these wait for each other: {}",
            names.join(", ")
        ));
    }
    for end in &enforced.dead_ends {
        say(format_args!(
            "  dead end: {} {}; {}",
            end.asset, end.reason, end.way_out
        ));
    }
    if let Some(why) = &enforced.unreadable {
        say(format_args!("  the decisions cannot be read: {why}"));
    }
    for decision in &enforced.decisions {
        say(format_args!(
            "  {:.0} @{} {}: {}",
            decision.at,
            decision.incarnation,
            decision.summary,
            became(&decision.outcome)
        ));
        let words = decision.allowed_by.iter();
        say_all(words.map(|word| format!("    {}", used(word))));
    }
}

/// Returns lines about a push that would wait, for which a rollout does not move the asset.
fn not_moved(ahead: &Prospective) -> Vec<String> {
    let change = &ahead.change.digest;
    let first = format!("  not moved by its rollout: change {change} would wait");
    let delays = ahead.delays.iter();
    let delays = delays.map(|delay| format!("    {}: {}", delay.check, delay.reason));
    std::iter::once(first).chain(delays).collect()
}

/// Prints the commands of operators that apply to an asset.
fn show_interventions(link: &Explanation) {
    let words = &link.interventions;
    let pauses = words.pauses.iter().map(paused);
    let lines = pauses.chain(allowed(&words.approvals, &words.overrides));
    say_all(lines.map(|line| format!("  {line}")));
}

/// Returns the outcome of a decision as text.
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

/// Prints the problem that the cell of a job reports, if any. If tasks fail to start, an update stays in progress, and
/// only the cell knows why.
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
        say(format_args!("  cell {name} reports: {problem}"));
    }
}

/// Returns the lines about an asset's place in the rollout of its policy group.
fn governed(rollout: &InRollout) -> Vec<String> {
    let place = match (rollout.progress, rollout.left_out) {
        (Some(progress), _) => format!(", here {}", word(progress)),
        (None, true) => format!(", not here: {LEFT_OUT}"),
        (None, false) => String::new(),
    };
    let mut lines = vec![format!(
        "  governed by {}: {}{place}",
        rollout.policy, rollout.rollout
    )];
    let waits = rollout.waits.iter();
    lines.extend(waits.map(|wait| format!("    waits: {}", wait.why)));
    lines
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

/// Returns a line for each thing that an asset waits for.
fn waits(waiting: &Waiting) -> Vec<String> {
    let one = |why: &str| vec![format!("  {why}")];
    match waiting {
        Waiting::Checks(delays) => {
            let said = |delay: &Delay| format!("  {}: {}", delay.check, delay.reason);
            delays.iter().map(said).collect()
        }
        Waiting::Failure(why) | Waiting::NotConverging(why) | Waiting::Operator(why) => one(why),
        Waiting::Others { why, by } => {
            let behind = by.iter().map(|other| format!("  behind {other}"));
            one(why).into_iter().chain(behind).collect()
        }
        Waiting::UnknownOutcome => {
            one("the outcome of a push is unknown; it may still take effect")
        }
        Waiting::Production => one("production is working on it"),
        Waiting::Time => one("its next change is due at a later time"),
        Waiting::Ownership => {
            one("waits until this process has confirmed that it owns the partition")
        }
        other => one(&format!("waits for {other:?}")),
    }
}
