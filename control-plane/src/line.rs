//! The line of all rollouts: stopped in an incident.

use annealing_strategist::{AskError, By, Refused, StoppedLine};
use control_plane_runtime::Runtime;
use jiff::Timestamp;
use prodspec_model::AssetId;

use crate::handle::{Error, Handle};

impl<R> Handle<R> {
    /// The line of all rollouts of the partition, to stop it.
    pub fn line(&self) -> Line<'_, R> {
        Line(self)
    }
}

/// The line of all rollouts of a partition. In an incident it is stopped.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a, R>(&'a Handle<R>);

impl<R: Runtime> Line<'_, R> {
    /// Stops the line until `until`: no rollout selects targets or completes, those begun meanwhile included, but for the policy
    /// groups and changes in `except` (by policy asset, or [`RollingOut::key`](crate::RollingOut)). Targets that were selected
    /// before go on, and so do health checks and rollbacks. It is durable when the call returns, and replaces an earlier stop.
    ///
    /// # Errors
    /// If `until` has passed, an exception names no policy group and no live change, or this process does not own the partition.
    pub async fn stop(
        &self,
        until: Timestamp,
        except: impl IntoIterator<Item = AssetId>,
        by: By,
    ) -> Result<(), Error> {
        let at = self.0.shared.runtime.now().wall;
        if until <= at {
            return Err(refused(format!(
                "{until} has passed; name a later time until which the line is stopped"
            )));
        }
        let line = StoppedLine {
            until,
            except: except.into_iter().collect(),
            by,
            at,
        };
        self.0.rolling().await?.set_line(Some(line.clone())).await?;
        tracing::warn!(partition = %self.0.shared.partition, %until, by = %line.by, "the line is stopped; no rollout but the exceptions goes forward");
        Ok(())
    }

    /// Lets the line go on before its time.
    ///
    /// # Errors
    /// If the line is not stopped, or this process does not own the partition.
    pub async fn resume(&self, by: By) -> Result<(), Error> {
        let rolling = self.0.rolling().await?;
        // Also one whose time has passed: the clocks of owners differ.
        if rolling.stopped_line().await?.is_none() {
            return Err(refused("the line is not stopped".to_owned()));
        }
        rolling.set_line(None).await?;
        tracing::info!(partition = %self.0.shared.partition, %by, "the line goes on");
        Ok(())
    }

    /// Returns how the line is stopped. `None`: it is not, its time has passed, or this process does not own the partition.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn stopped(&self) -> Result<Option<StoppedLine>, Error> {
        let rollouts = self.0.shared.rollouts.borrow().clone();
        match rollouts {
            Some(rollouts) => {
                let line = rollouts.stopped_line().await?;
                let now = self.0.shared.runtime.now().wall;
                Ok(line.filter(|line| now < line.until))
            }
            None => Ok(None),
        }
    }
}

fn refused(why: String) -> Error {
    Error::Rollout(AskError::Refused(Refused(why)))
}
