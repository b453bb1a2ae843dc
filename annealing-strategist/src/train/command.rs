//! Commands of people about a train.

use jiff::Timestamp;
use plugin_sdk::By;
use prodspec_model::train::Train;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{TrainRecord, Version, VersionNo};

/// A command of a person about a train.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Offers a version: it enters the first stage.
    Offer(Value),
    /// Offers a version that enters at this stage, which gives up the version under way.
    Hotfix {
        /// Name of the stage that it enters.
        stage: String,
        /// Value of the field that carries it.
        version: Value,
    },
    /// Lets a version count as ripe in a stage for the next one. The rollout under way goes on.
    Skip {
        /// Name of the stage that it may leave.
        stage: String,
        /// Value of the newest version that is meant.
        version: Value,
    },
    /// Lets no version enter a stage. A rollout under way goes on.
    HoldStage(String),
    /// Ends the hold of a stage.
    ReleaseStage(String),
    /// Lets a version enter no further stage. A rollout under way goes on.
    HoldVersion(Value),
    /// Ends the hold of a version.
    ReleaseVersion(Value),
    /// Takes a version back where it is not ripe, and lets it enter no further stage. Where it is ripe it stays.
    Abandon(Value),
}

impl TrainRecord {
    /// Executes a command.
    ///
    /// # Errors
    /// The reason why the command does not fit, for the person. Nothing has changed then.
    pub fn command(
        &mut self,
        train: &Train,
        command: Command,
        by: By,
        now: Timestamp,
    ) -> Result<(), String> {
        if train.carries_heads() {
            self.fits_heads(&command)?;
        }
        match command {
            Command::Offer(value) => {
                self.is_new(&value, None)?;
                self.offer(value, None, Some(by), now);
            }
            Command::Hotfix { stage, version } => {
                known(train, &stage)?;
                self.is_new(&version, Some(&stage))?;
                self.offer(version, Some(stage), Some(by), now);
            }
            Command::Skip { stage, version } => {
                known(train, &stage)?;
                let version = self.named(&version)?;
                if version.abandoned.is_some() || version.has_failed(&stage) {
                    let value = &version.value;
                    return Err(format!(
                        "{value} has failed or was abandoned; offer it again"
                    ));
                }
                if version.may_pass(&stage) {
                    return Err(format!(
                        "{} may leave stage `{stage}` already",
                        version.value
                    ));
                }
                version.facts(&stage).skipped = Some(by);
            }
            Command::HoldStage(stage) => {
                known(train, &stage)?;
                self.stage_mut(&stage).held = Some(by);
            }
            Command::ReleaseStage(stage) => {
                let held = self.stage_mut(&stage).held.take();
                held.ok_or_else(|| format!("stage `{stage}` is not held"))?;
            }
            Command::HoldVersion(version) => self.named(&version)?.held = Some(by),
            Command::ReleaseVersion(version) => {
                let held = self.named(&version)?.held.take();
                held.ok_or_else(|| format!("{version} is not held"))?;
            }
            Command::Abandon(version) => self.named(&version)?.abandoned = Some(by),
        }
        Ok(())
    }

    /// Checks a command that brings a version to a train of heads.
    fn fits_heads(&self, command: &Command) -> Result<(), String> {
        match command {
            Command::Offer(_) => {
                let why = "each incarnation that changes an asset of a stage is offered by itself";
                Err(why.to_owned())
            }
            Command::Hotfix { version, .. } if self.offered.as_ref() != Some(version) => {
                let newest = self.offered.as_ref().map(Value::to_string);
                let newest = newest.unwrap_or_else(|| "none yet".to_owned());
                Err(format!("only the newest version can be a hotfix: {newest}"))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn offer(
        &mut self,
        value: Value,
        enters: Option<String>,
        by: Option<By>,
        now: Timestamp,
    ) {
        self.newest = VersionNo(self.newest.0 + 1);
        self.versions.push(Version {
            no: self.newest,
            value,
            at: now,
            by,
            enters,
            held: None,
            abandoned: None,
            stages: Default::default(),
        });
    }

    /// The newest version with this value.
    fn named(&mut self, value: &Value) -> Result<&mut Version, String> {
        let newest = self.versions.iter_mut().rev().find(|it| it.value == *value);
        newest.ok_or_else(|| format!("no version {value} is under way; offer it first"))
    }

    /// Whether a version differs from the newest one, or enters at another stage.
    ///
    /// # Errors
    /// It is the newest one, which is under way or ripe.
    pub(super) fn is_new(&self, value: &Value, enters: Option<&str>) -> Result<(), String> {
        let newest = self.versions.last();
        let newest = newest.filter(|it| it.value == *value && it.enters.as_deref() == enters);
        let live = newest.filter(|it| {
            it.abandoned.is_none() && it.stages.values().all(|facts| facts.failed.is_none())
        });
        match live {
            Some(_) => Err(format!("{value} is the newest version already")),
            None => Ok(()),
        }
    }
}

fn known(train: &Train, stage: &str) -> Result<(), String> {
    let mut stages = train.stages.iter();
    if stages.any(|it| it.name == stage) {
        return Ok(());
    }
    let names: Vec<&str> = train.stages.iter().map(|it| it.name.as_str()).collect();
    Err(format!(
        "the train has no stage `{stage}`; its stages are {}",
        names.join(", ")
    ))
}
