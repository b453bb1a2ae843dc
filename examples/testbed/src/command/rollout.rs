//! `rollout`: shows the rollouts, live in a terminal and once elsewhere, waits for their end, and passes on commands of
//! operators.

use std::time::Duration;

use control_plane::{
    model::AssetId,
    sdk::{Judgement, Progress, Target, Until, Wait},
    strategist::{Command, Entry, Rollout, State, View, preview::Step},
};
use tokio::time::Instant;

use super::{
    change::Begin,
    tell::{self, Signed},
};
use crate::{
    control::{
        Rolling, Word,
        client::{Control, Error},
    },
    place::Place,
    program::{Failure, Several},
    voice::{Screen, is_watched, say, say_all, say_json},
};

/// Maximum of `rollout wait --within`, in seconds: one day.
const LONGEST_WAIT: u64 = 24 * 3600;
/// Pause between two questions to the control plane.
const REST: Duration = Duration::from_millis(300);
/// Without an answer for this long, the live view warns that its content may be out of date.
const SILENT: Duration = Duration::from_secs(3);
/// Without a control plane for this long, waiting for a rollout fails. A restart takes less time.
const GONE: Duration = Duration::from_secs(60);
/// Maximum number of history entries shown per rollout.
const RECENT: usize = 12;
/// Why an asset is left out, and what an operator can do.
pub(super) const LEFT_OUT: &str = "its content, or that of an asset it waits for, failed in an earlier rollout; change \
     the content, or run `rollout retry`";
/// Maximum number of earlier rollouts shown per policy group.
const EARLIER: usize = 5;

/// The subcommands of `rollout`: to show it, to wait for it, and the operator's commands.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// Show the rollout: live in a terminal until Ctrl-C, elsewhere once. `wait` waits for its end.
    Status {
        /// Print everything once, as JSON.
        #[arg(long)]
        json: bool,
        /// Print the text once and exit, even in a terminal.
        #[arg(long)]
        once: bool,
    },
    /// Wait until the rollout of the current manifest, or a change, is over. Fails unless it completed.
    Wait {
        /// Maximum time to wait, in seconds.
        #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(..=LONGEST_WAIT))]
        within: u64,
        #[command(flatten)]
        which: Which,
    },
    /// Show when the assets will be updated from now on, if all goes well.
    Preview {
        /// Time that each asset takes until it is updated, in seconds.
        #[arg(long, default_value_t = 5)]
        takes: u32,
        #[command(flatten)]
        which: Which,
    },
    /// Begin a change.
    Begin(Begin),
    /// Start no more updates. Updates in flight go on, and health is still watched.
    Pause(Told),
    /// Go on after a pause.
    Resume(Told),
    /// Accept the updates that have settled so far: go on without their bake and health verdict.
    Promote(Told),
    /// Stop the rollout and leave every asset where it is.
    Abort(Told),
    /// Try again the content of a rollout that was stopped or rolled back.
    Retry(Told),
    /// Roll back every asset that the rollout has moved.
    Rollback(Told),
    /// Hand the rollout over to the newest edits of the manifest: every asset takes its turn anew.
    Handover(Told),
}

/// The rollout that a command is for.
#[derive(Debug, Clone, clap::Args)]
pub struct Which {
    /// The key of a change, such as `rollout/dark-mode`. Default: the rollout of the manifest's edits.
    #[arg(long)]
    of: Option<AssetId>,
}

/// For which rollout a command is, and who gives it.
#[derive(Debug, Clone, clap::Args)]
pub struct Told {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    signed: Signed,
}

/// Performs a subcommand of `rollout`; without one, shows the rollout.
///
/// # Errors
/// When no control plane is running, or it refuses the command.
pub(super) async fn rollout(place: &Place, verb: Option<Verb>) -> Result<(), Failure> {
    let (command, told) = match verb {
        None => return status(place, false, false).await,
        Some(Verb::Status { json, once }) => return status(place, json, once).await,
        Some(Verb::Wait { within, which }) => return wait(place, within, which).await,
        Some(Verb::Preview { takes, which }) => return preview(place, takes, which).await,
        Some(Verb::Begin(begin)) => return tell::tell(place, begin.into()).await,
        Some(Verb::Pause(told)) => (Command::Pause, told),
        Some(Verb::Resume(told)) => (Command::Resume, told),
        Some(Verb::Promote(told)) => (Command::Promote, told),
        Some(Verb::Abort(told)) => (Command::Abort, told),
        Some(Verb::Retry(told)) => (Command::Retry, told),
        Some(Verb::Rollback(told)) => (Command::RollBack, told),
        Some(Verb::Handover(told)) => (Command::HandOver, told),
    };
    let (of, said) = (told.which.of, told.signed.into());
    tell::tell(place, Word::Rollout { of, command, said }).await
}

async fn wait(place: &Place, within: u64, Which { of }: Which) -> Result<(), Failure> {
    match of {
        Some(key) => wait_for_change(place, &key, within).await,
        None => wait_for_end(place, within).await,
    }
}

async fn preview(place: &Place, takes: u32, Which { of }: Which) -> Result<(), Failure> {
    let schedule = Control::find(place)
        .await?
        .preview(of.as_ref(), takes)
        .await?;
    for Step {
        at,
        stage,
        selected,
    } in &schedule.steps
    {
        let names: Vec<&str> = selected.iter().map(AssetId::as_str).collect();
        let stage = stage.as_ref().map(|stage| format!("  ({stage})"));
        let stage = stage.unwrap_or_default();
        say(format_args!("{at:.0}  {}{stage}", names.join(", ")));
    }
    say(format_args!("{:.0}  over", schedule.done));
    Ok(())
}

async fn wait_for_change(place: &Place, key: &AssetId, within: u64) -> Result<(), Failure> {
    let ended = answered(within, async |left| {
        Control::find(place).await?.changed(key, left).await
    });
    let rollout = ended.await?;
    let ended = format!("{key}: {}", outcome(&rollout));
    match rollout.state {
        State::Completed => {
            say(ended);
            Ok(())
        }
        _ => Err(ended.into()),
    }
}

async fn wait_for_end(place: &Place, within: u64) -> Result<(), Failure> {
    let now = Control::find(place).await?.rollouts().await?;
    let live = now.iter().map(|rolling| &rolling.view);
    let live = live.filter(|view| view.live).map(summary);
    say_all(live.map(|summary| format!("waits for {summary}")));
    let rested = answered(within, async |left| {
        Control::find(place).await?.rolled_out(left).await
    });
    let rested = rested.await?;
    let ended = rested.rollout.as_ref().map(outcome);
    let mut lines: Vec<String> = ended.into_iter().collect();
    lines.extend(rested.left_out.iter().map(left_out));
    match rested.released {
        true => {
            let completed = |rollout: &Rollout| rollout.state == State::Completed;
            if !rested.rollout.is_some_and(|rollout| completed(&rollout)) {
                lines.push("all assets follow the manifest".into());
            }
            say_all(lines);
            Ok(())
        }
        false => {
            let mut lines = lines.into_iter();
            let first = lines.next().unwrap_or_default();
            let rest = lines.collect();
            Err(Several { first, rest }.into())
        }
    }
}

/// Waits for an answer, also over a restart of the control plane that answered last.
async fn answered<T>(
    within: u64,
    ask: impl AsyncFn(Duration) -> Result<T, Error>,
) -> Result<T, Error> {
    let deadline = Instant::now() + Duration::from_secs(within);
    let mut lost: Option<Instant> = None;
    loop {
        // The control plane counts in seconds: the last one is not cut off.
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Duration::from_secs(left.as_secs() + u64::from(left.subsec_nanos() > 0));
        let error = match ask(left).await {
            Ok(answer) => return Ok(answer),
            Err(error @ (Error::NotRunning(_) | Error::Garbled { .. })) => {
                lost.get_or_insert_with(Instant::now);
                error
            }
            // After a restart, the control plane refuses questions until it owns the partition.
            Err(error) => error,
        };
        let returns = lost.is_some_and(|since| since.elapsed() < GONE);
        if !returns || Instant::now() >= deadline {
            return Err(error);
        }
        tokio::time::sleep(REST).await;
    }
}

async fn status(place: &Place, json: bool, once: bool) -> Result<(), Failure> {
    let control = Control::find(place).await?;
    let rolling = control.rollouts().await?;
    if json {
        say_json(&rolling)?;
    } else if is_watched() && !once {
        live(place, control, rolling).await?;
    } else {
        say_all(lines(&rolling));
    }
    Ok(())
}

/// Redraws the view when something changes. Reconnects after a restart of the control plane.
async fn live(
    place: &Place,
    mut control: Control,
    mut rolling: Vec<Rolling>,
) -> Result<(), Failure> {
    let mut screen = Screen::default();
    let (mut heard, mut unheard) = (Instant::now(), String::new());
    loop {
        let mut now = lines(&rolling);
        let silent = heard.elapsed();
        if silent > SILENT {
            let secs = silent.as_secs();
            now.insert(
                0,
                format!("no answer for {secs} s ({unheard}); below is the last known state"),
            );
        }
        screen.show(&now)?;
        tokio::time::sleep(REST).await;
        match tokio::time::timeout(SILENT, control.rollouts()).await {
            Ok(Ok(news)) => (rolling, heard) = (news, Instant::now()),
            Ok(Err(error)) => {
                unheard = error.to_string();
                control = Control::find(place).await.unwrap_or(control);
            }
            Err(late) => unheard = late.to_string(),
        }
    }
}

/// Returns all lines of the view. They contain no elapsed times, so a line changes only when the rollout changes.
fn lines(rolling: &[Rolling]) -> Vec<String> {
    let mut lines = Vec::new();
    for Rolling { view, past } in rolling {
        for old in &past[past.len().saturating_sub(EARLIER)..] {
            lines.push(format!("earlier  {}", outcome(old)));
        }
        lines.push(summary(view));
        lines.extend(view.rollout.iter().filter(|_| view.live).filter_map(drawn));
        lines.extend(view.targets.iter().map(|it| target(view, it)));
        lines.extend(view.waits.iter().map(waits));
        lines.extend(view.left_out.iter().map(left_out));
        if let Some(rollout) = &view.rollout {
            lines.extend(verdict(rollout));
            let history = &rollout.history;
            let recent = &history[history.len().saturating_sub(RECENT)..];
            lines.extend(recent.iter().map(entry));
        }
    }
    if lines.is_empty() {
        lines.push("no asset is governed by a rollout policy yet".into());
    }
    lines
}

/// Returns the id and state of a rollout.
fn outcome(rollout: &Rollout) -> String {
    format!("{} {}", rollout.id, rollout.state)
}

fn left_out(asset: &AssetId) -> String {
    format!("  left out   {asset}: {LEFT_OUT}")
}

/// Returns a policy group as one line.
pub(super) fn summary(view: &View) -> String {
    let Some(rollout) = &view.rollout else {
        return format!("{}: no rollout yet", view.policy);
    };
    let mut line = outcome(rollout);
    if let Some(stage) = rollout.stage.as_ref().filter(|_| view.live) {
        line.push_str(&format!(", {stage}"));
    }
    let from = rollout.from.map_or("nothing".into(), |no| format!("@{no}"));
    line.push_str(&format!(", {from} to @{}", rollout.to));
    if view.live {
        let counts = view.counts;
        for (many, what) in [
            (counts.updated, "updated"),
            (counts.in_flight, "in flight"),
            (counts.drifted, "drifted"),
            (counts.waiting, "waiting"),
        ] {
            if many > 0 {
                line.push_str(&format!(", {many} {what}"));
            }
        }
    }
    line
}

/// Returns the progress of a target as a short text.
pub(super) fn word(progress: Progress) -> &'static str {
    match progress {
        Progress::Waiting => "waiting",
        Progress::InFlight { .. } => "in flight",
        Progress::Updated { .. } => "updated",
        Progress::Drifted { .. } => "drifted",
    }
}

fn target(view: &View, target: &Target) -> String {
    let since = match target.progress {
        Progress::Waiting => String::new(),
        Progress::InFlight { since } | Progress::Drifted { since } => format!(" since {since:.0}"),
        Progress::Updated { at } => format!(" at {at:.0}"),
    };
    let asset = target.asset.as_str();
    match view.held.get(&target.asset) {
        Some(why) => format!("  {:<10} {asset}{since}: {why}", "held"),
        None => format!("  {:<10} {asset}{since}", word(target.progress)),
    }
}

/// Returns a line about targets that were selected only because of their edges to other selected targets.
fn drawn(rollout: &Rollout) -> Option<String> {
    let drawn = rollout.drawn.as_ref()?;
    Some(format!("  added      {drawn}"))
}

fn waits(wait: &Wait) -> String {
    // `wait.why` already contains the times.
    let until = match wait.until {
        Until::Person => " (until an operator gives a command)",
        _ => "",
    };
    format!("  waits      {}{until}", wait.why)
}

/// Returns lines about the last health verdict and its findings.
fn verdict(rollout: &Rollout) -> Vec<String> {
    let Some(health) = &rollout.health else {
        return vec![];
    };
    let word = match health.judgement {
        Judgement::Healthy if health.findings.is_empty() => {
            "no settled target to judge yet, and no unhealthy target in flight"
        }
        Judgement::Healthy => "healthy",
        Judgement::Unknown => "unknown",
        Judgement::Unhealthy => "unhealthy",
    };
    let mut lines = vec![format!("  health     {word}, as of {:.0}", health.as_of)];
    for finding in &health.findings {
        lines.push(format!(
            "             {}: {}",
            finding.validator, finding.summary
        ));
    }
    lines
}

/// Returns an entry of a rollout's history as one line.
pub(super) fn entry(entry: &Entry) -> String {
    let by = entry.by.as_ref();
    let by = by.map(|by| format!(" ({}: {})", by.who, by.why));
    format!(
        "  {:.0}  {}{}",
        entry.at,
        entry.what,
        by.unwrap_or_default()
    )
}
