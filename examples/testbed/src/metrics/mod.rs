//! The counters of production, kept for five minutes. A [`SampleSource`] that every second asks each cell for its
//! processes, and each process for its counters. It does not use the control plane.
//!
//! | asset | processes with its series |
//! |---|---|
//! | `job/CLUSTER` | the tasks in the cell `CLUSTER` |
//! | `balancer/CLUSTER` | the balancer of the cell `CLUSTER` |
//! | `global` | the balancer of the cell `global` |
//!
//! Every series has the labels `asset`, `cluster`, `resource` (within its cell) and `process`. Series of tasks also
//! have `task` and `version`.
//!
//! A process that does not answer differs from a process that counts zero: while a process should serve but does not
//! report its counters, a query returns a series without samples for it.

mod text;
mod visit;
mod window;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use control_plane::{
    prelude::{BoxError, async_trait},
    sdk::{SampleQuery, SampleSource, Series},
};
use tokio::task::AbortHandle;

use window::Window;

/// Scrapes the counters of production until it is dropped.
#[derive(Debug)]
pub struct Scraper {
    seen: Seen,
    task: AbortHandle,
}

/// The scraped samples, shared by the scrape loops and the queries.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Window>>);

impl Seen {
    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scraper {
    /// Starts to scrape the cells whose directories are in `cells`, including cells that are added later.
    pub fn start(cells: PathBuf) -> Self {
        let seen = Seen::default();
        let task = tokio::spawn(visit::all(cells, seen.clone())).abort_handle();
        Self { seen, task }
    }
}

#[async_trait]
impl SampleSource for Scraper {
    async fn read(&self, query: SampleQuery) -> Result<Vec<Series>, BoxError> {
        Ok(self.seen.window().read(&query))
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
