//! Finding and starting cells, and what their refusals mean to an enforcer. Shared by all plugins.

use std::path::PathBuf;

use control_plane::{
    prelude::{IncarnationId, plugin},
    sdk::{FencingToken, Run, with_causes},
};

use crate::{
    place::Place,
    production::{
        api::Caller,
        client::{Cell, Error},
    },
};

/// Where the cells are, and which program to start as one.
#[derive(Debug, Clone)]
pub struct Cells {
    program: PathBuf,
    place: Place,
}

impl Cells {
    /// The cells of a state directory; missing ones are started from `program`.
    pub fn new(program: PathBuf, place: Place) -> Self {
        Self { program, place }
    }

    /// The cell `name`; none if there is no such process.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Cell>, plugin::Error> {
        match Cell::connect(&self.place.cell(name), name).await {
            Ok(cell) => Ok(Some(cell)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(plugin::Error::transient(with_causes(&error))),
        }
    }

    /// The cell `name`, started if there is none.
    pub(super) async fn ensure(&self, name: &str) -> Result<Cell, plugin::Error> {
        let cell = Cell::ensure(&self.program, &self.place.cell(name), name).await;
        cell.map_err(|error| plugin::Error::transient(with_causes(&error)))
    }
}

/// Who calls, for the cell's fence and journal. A plan owns nothing: its token 0 is no token.
pub(super) fn caller(token: FencingToken, run: Run, incarnation: &IncarnationId) -> Caller {
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

/// A look that failed.
pub(super) fn unseen(error: Error) -> plugin::Error {
    match &error {
        Error::Invalid(_) => plugin::Error::permanent(with_causes(&error)),
        Error::Fenced { message, seen } => plugin::Error::fenced_by(message, FencingToken(*seen)),
        _ => plugin::Error::transient(with_causes(&error)),
    }
}

/// A change that failed: unless the cell said no, nobody knows what became of it.
pub(super) fn unchanged(error: Error) -> plugin::Error {
    match &error {
        Error::Unreachable { .. } | Error::Failed(_) => plugin::Error::unknown(with_causes(&error)),
        _ => unseen(error),
    }
}
