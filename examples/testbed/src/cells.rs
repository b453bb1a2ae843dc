//! Cells as asset plugins use them: finds and starts them, and translates calls, progress and refusals between the
//! enforcer and the cells.

use std::{path::PathBuf, time::Duration};

use crate::{
    place::Place,
    production::{
        api::{Caller, Progress},
        client::{Cell, Error},
    },
};
use control_plane::{
    prelude::{IncarnationId, Pushed, plugin},
    sdk::{FencingToken, Run, with_causes},
};

/// Delay before the enforcer checks work in progress again.
pub const AGAIN: Duration = Duration::from_millis(100);

/// The cells of a state directory, and the program that is started as a cell.
#[derive(Debug, Clone)]
pub struct Cells {
    program: PathBuf,
    place: Place,
}

impl Cells {
    /// Creates a handle to the cells of `place`. Missing cells are started as processes of `program`.
    pub fn new(program: PathBuf, place: Place) -> Self {
        Self { program, place }
    }

    /// Connects to the cell `name`; returns none if no such process is running.
    pub async fn find(&self, name: &str) -> Result<Option<Cell>, plugin::Error> {
        match Cell::connect(&self.place.cell(name), name).await {
            Ok(cell) => Ok(Some(cell)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(plugin::Error::transient(with_causes(&error))),
        }
    }

    /// Connects to the cell `name`, and starts it if it is not running.
    pub async fn ensure(&self, name: &str) -> Result<Cell, plugin::Error> {
        let cell = Cell::ensure(&self.program, &self.place.cell(name), name).await;
        cell.map_err(|error| plugin::Error::transient(with_causes(&error)))
    }
}

/// Returns the caller for the cell's fence and journal. A plan has no ownership: its token 0 is sent as no token.
pub fn caller(token: FencingToken, run: Run, incarnation: &IncarnationId) -> Caller {
    if token == FencingToken(0) {
        return Caller::default();
    }
    Caller {
        token: Some(token.0),
        n: Some(run.n.into()),
        incarnation: Some(incarnation.to_string()),
        after: None,
    }
}

/// Translates the progress that a cell reports about a change.
pub fn pushed(progress: Progress) -> Pushed {
    match progress {
        Progress::Done => Pushed::Done,
        Progress::InProgress => Pushed::InProgress {
            check_again_in: AGAIN,
        },
    }
}

/// Translates the error of a call that reads production.
pub fn unseen(error: Error) -> plugin::Error {
    match &error {
        Error::Invalid(_) => plugin::Error::permanent(with_causes(&error)),
        Error::Fenced { message, seen } => plugin::Error::fenced_by(message, FencingToken(*seen)),
        _ => plugin::Error::transient(with_causes(&error)),
    }
}

/// Translates the error of a call that changes production. Unless the cell refused the call, its outcome is unknown.
pub fn unchanged(error: Error) -> plugin::Error {
    match &error {
        Error::Unreachable { .. } | Error::Failed(_) => plugin::Error::unknown(with_causes(&error)),
        _ => unseen(error),
    }
}
