//! `train`: shows versions on their way through stages, and passes on commands of operators.

use control_plane::{
    StageView, TrainView,
    model::AssetId,
    strategist::train::{Command, Idle},
};
use serde_json::Value;

use super::tell::{self, Signed};
use crate::{
    control::{Word, client::Control},
    place::Place,
    program::Failure,
    voice::say_list,
};

/// The subcommands of `train`: to show the trains, and the operator's commands.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Verb {
    /// Show the version of each stage, and which one is next.
    Status {
        /// Print everything as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Offer a version: it enters the first stage.
    Offer {
        /// The version.
        version: String,
        #[command(flatten)]
        told: Told,
    },
    /// Offer a version that enters at a stage, which gives up the version under way.
    Hotfix {
        /// The version.
        version: String,
        /// Name of the stage.
        stage: String,
        #[command(flatten)]
        told: Told,
    },
    /// Let a version count as ripe in a stage, without its bake.
    Skip {
        /// The version.
        version: String,
        /// Name of the stage.
        stage: String,
        #[command(flatten)]
        told: Told,
    },
    /// Let no version enter a stage. A rollout under way goes on.
    Hold {
        /// Name of the stage.
        stage: String,
        #[command(flatten)]
        told: Told,
    },
    /// End the hold of a stage.
    Release {
        /// Name of the stage.
        stage: String,
        #[command(flatten)]
        told: Told,
    },
    /// Take a version back where it is not ripe, and let it enter no further stage.
    Abandon {
        /// The version.
        version: String,
        #[command(flatten)]
        told: Told,
    },
}

/// For which train a command is, and who gives it.
#[derive(Debug, Clone, clap::Args)]
pub struct Told {
    /// Id of the train.
    #[arg(long, default_value = "train")]
    of: AssetId,
    #[command(flatten)]
    signed: Signed,
}

/// Performs a subcommand of `train`; without one, shows the trains.
///
/// # Errors
/// When no control plane is running, or it refuses the command.
pub(super) async fn train(place: &Place, verb: Option<Verb>) -> Result<(), Failure> {
    let (command, told) = match verb {
        None => return status(place, false).await,
        Some(Verb::Status { json }) => return status(place, json).await,
        Some(Verb::Offer { version, told }) => (Command::Offer(version.into()), told),
        Some(Verb::Hotfix {
            version,
            stage,
            told,
        }) => {
            let version = version.into();
            (Command::Hotfix { stage, version }, told)
        }
        Some(Verb::Skip {
            version,
            stage,
            told,
        }) => {
            let version = version.into();
            (Command::Skip { stage, version }, told)
        }
        Some(Verb::Hold { stage, told }) => (Command::HoldStage(stage), told),
        Some(Verb::Release { stage, told }) => (Command::ReleaseStage(stage), told),
        Some(Verb::Abandon { version, told }) => (Command::Abandon(version.into()), told),
    };
    let Told { of, signed } = told;
    let said = signed.into();
    tell::tell(place, Word::Train { of, command, said }).await
}

async fn status(place: &Place, json: bool) -> Result<(), Failure> {
    let all = Control::find(place).await?.trains().await?;
    Ok(say_list(&all, json, "there are no trains", lines)?)
}

fn lines(view: &TrainView) -> Vec<String> {
    let offers = view.train.offers.as_ref().map(text);
    let offers = offers.map_or_else(String::new, |it| format!(", offers {it}"));
    let mut lines = vec![format!("{}: {}{offers}", view.asset, view.train.carries)];
    lines.extend(view.stages.iter().map(stage));
    let goals = view.goals.iter();
    lines.extend(goals.map(|(goal, line)| format!("  {goal}: {line}")));
    lines
}

fn stage(view: &StageView) -> String {
    let has = match (&view.has, view.runs) {
        (None, _) => "nothing yet".to_owned(),
        (Some(version), true) => format!("rolls out {}", text(version)),
        (Some(version), false) => format!("has {}", text(version)),
    };
    let next = match &view.next {
        Ok(version) => format!(", next {}", text(version)),
        Err(Idle::Busy | Idle::NothingNewer) => String::new(),
        Err(Idle::Held(why)) => format!(", held: {why}"),
        Err(Idle::Until(at)) => format!(", the next one from {at:.0} on"),
        Err(Idle::Refused(why, _) | Idle::NoCalendar(why)) => format!(", cannot begin: {why}"),
        Err(other) => format!(", {other:?}"),
    };
    format!("  {:<10} {has}{next}", view.name)
}

/// A text without quotation marks, and any other value as JSON.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
