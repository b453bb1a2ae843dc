//! `rollout`: how the rollout is, live in a terminal and line by line elsewhere, and what people say to it.

use std::time::Duration;

use control_plane::{
    model::AssetId,
    sdk::{Judgement, Progress, Target, Until, Wait},
    strategist::{Command, Entry, Rollout, State, View},
};

use tokio::time::Instant;

use super::{
    Failure, Several,
    tell::{self, Signed},
};
use crate::{
    control::{Rolling, Word, client::Control},
    place::Place,
    voice::{Screen, is_watched, say, say_all, say_json},
};

/// The longest wait, in seconds: a day.
const LONGEST_WAIT: u64 = 24 * 3600;
/// Between two looks at a running control plane.
const REST: Duration = Duration::from_millis(300);
/// What was heard longer ago may be true no longer: the live view says so.
const SILENT: Duration = Duration::from_secs(3);
/// A control plane that does not answer for so long is not being restarted.
const GONE: Duration = Duration::from_secs(60);
/// So much of the history is shown live.
const RECENT: usize = 12;
/// Why an asset is left out, and what helps.
pub(super) const LEFT_OUT: &str =
    "its content failed before, or that of one it waits for; change that, or say `rollout retry`";
/// So many rollouts before the present one are shown.
const EARLIER: usize = 5;

/// What may be asked and said.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// How it is: live in a terminal, until Ctrl-C; elsewhere a line for each change, until it is over.
    Status {
        /// All of it once, as JSON.
        #[arg(long)]
        json: bool,
        /// Once, also in a terminal.
        #[arg(long)]
        once: bool,
    },
    /// Wait until the rollout of what the manifest says now is over. Fails unless it was completed.
    Wait {
        /// For how many seconds at most.
        #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(..=LONGEST_WAIT))]
        within: u64,
    },
    /// Nothing more is updated. What is on its way goes on, and health is watched.
    Pause(Signed),
    /// Go on after a pause.
    Resume(Signed),
    /// What has settled so far is good enough: go on without bake and verdict.
    Promote(Signed),
    /// Stop, and leave everything where it is.
    Abort(Signed),
    /// Try what stopped or was rolled back once more.
    Retry(Signed),
    /// Everything that moved goes back.
    Rollback(Signed),
}

/// Does what was asked for; without a verb, shows how it is.
///
/// # Errors
/// When no control plane runs, or it says no.
pub async fn rollout(place: &Place, verb: Option<Verb>) -> Result<(), Failure> {
    let (command, signed) = match verb {
        None => return status(place, false, false).await,
        Some(Verb::Status { json, once }) => return status(place, json, once).await,
        Some(Verb::Wait { within }) => return wait_for_end(place, within).await,
        Some(Verb::Pause(signed)) => (Command::Pause, signed),
        Some(Verb::Resume(signed)) => (Command::Resume, signed),
        Some(Verb::Promote(signed)) => (Command::Promote, signed),
        Some(Verb::Abort(signed)) => (Command::Abort, signed),
        Some(Verb::Retry(signed)) => (Command::Retry, signed),
        Some(Verb::Rollback(signed)) => (Command::RollBack, signed),
    };
    let said = signed.into();
    tell::tell(place, Word::Rollout { command, said }).await
}

async fn wait_for_end(place: &Place, within: u64) -> Result<(), Failure> {
    let within = Duration::from_secs(within);
    let rested = Control::find(place).await?.rolled_out(within).await?;
    let ended = rested.rollout.as_ref().map(outcome);
    let mut lines: Vec<String> = ended.into_iter().collect();
    lines.extend(rested.left_out.iter().map(left_out));
    match rested.released {
        true => {
            let completed = |rollout: &Rollout| rollout.state == State::Completed;
            if !rested.rollout.is_some_and(|rollout| completed(&rollout)) {
                lines.push("everything is as the manifest says".into());
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

async fn status(place: &Place, json: bool, once: bool) -> Result<(), Failure> {
    let control = Control::find(place).await?;
    let rolling = control.rollouts().await?;
    if json {
        say_json(&rolling)?;
    } else if once {
        say_all(lines(&rolling));
    } else if is_watched() {
        live(place, control, rolling).await?;
    } else {
        log(place, control, rolling).await?;
    }
    Ok(())
}

/// Redraws whenever something changes. A control plane that is restarted is found again.
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
                format!("no answer for {secs} s ({unheard}); this is how it was"),
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

/// Says each line that is new, until no rollout is under way. A control plane that is restarted is found again.
async fn log(
    place: &Place,
    mut control: Control,
    mut rolling: Vec<Rolling>,
) -> Result<(), Failure> {
    let mut said = Vec::new();
    let mut heard = Instant::now();
    loop {
        let now = lines(&rolling);
        for line in now.iter().filter(|line| !said.contains(*line)) {
            say(line);
        }
        said = now;
        if !rolling.iter().any(|rolling| rolling.view.live) {
            return Ok(());
        }
        tokio::time::sleep(REST).await;
        match control.rollouts().await {
            Ok(news) => (rolling, heard) = (news, Instant::now()),
            Err(error) if heard.elapsed() > GONE => return Err(error.into()),
            Err(_) => control = Control::find(place).await.unwrap_or(control),
        }
    }
}

/// All that there is to say, without anything that changes merely because time passes.
fn lines(rolling: &[Rolling]) -> Vec<String> {
    let mut lines = Vec::new();
    for Rolling { view, past } in rolling {
        for old in &past[past.len().saturating_sub(EARLIER)..] {
            lines.push(format!("earlier  {}", outcome(old)));
        }
        lines.push(summary(view));
        lines.extend(view.rollout.iter().filter(|_| view.live).filter_map(drawn));
        lines.extend(view.targets.iter().map(|it| target(view, it)));
        lines.extend(view.waits.iter().map(wait));
        lines.extend(view.left_out.iter().map(left_out));
        if let Some(rollout) = &view.rollout {
            lines.extend(verdict(rollout));
            let history = &rollout.history;
            let recent = &history[history.len().saturating_sub(RECENT)..];
            lines.extend(recent.iter().map(entry));
        }
    }
    if lines.is_empty() {
        lines.push("nothing is governed by a rollout policy yet".into());
    }
    lines
}

/// How a rollout is, and why.
fn outcome(rollout: &Rollout) -> String {
    format!("{} {}", rollout.id, rollout.state)
}

fn left_out(asset: &AssetId) -> String {
    format!("  left out   {asset}: {LEFT_OUT}")
}

/// A policy group in one line.
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
            (counts.in_flight, "on their way"),
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

/// How far a target is, in a word or two.
pub(super) fn word(progress: Progress) -> &'static str {
    match progress {
        Progress::Waiting => "waiting",
        Progress::InFlight { .. } => "on its way",
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

/// What edges drew along with what was selected.
fn drawn(rollout: &Rollout) -> Option<String> {
    let drawn = rollout.drawn.as_ref()?;
    Some(format!("  drawn      {drawn}"))
}

fn wait(wait: &Wait) -> String {
    // Times are in the words already.
    let until = match wait.until {
        Until::Person => " (until somebody says so)",
        _ => "",
    };
    format!("  waits      {}{until}", wait.why)
}

/// The last verdict, and what it rests on.
fn verdict(rollout: &Rollout) -> Vec<String> {
    let Some(health) = &rollout.health else {
        return vec![];
    };
    let word = match health.judgement {
        Judgement::Healthy if health.findings.is_empty() => {
            "nothing has settled that could be judged, and nothing under way does badly"
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

/// Something that happened, as a line.
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
