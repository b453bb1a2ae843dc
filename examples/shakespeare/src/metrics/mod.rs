//! What production counts about itself, kept for a few minutes: a [`MetricSource`] that asks the cells which processes
//! there are, and each of those every second. It runs beside the control plane and knows nothing of it.
//!
//! | asset | series of |
//! |---|---|
//! | `job/CLUSTER` | the tasks in the cell `CLUSTER` |
//! | `balancer/CLUSTER` | its balancer |
//! | `global` | the balancer of the cell `global` |
//!
//! Every series has the labels `asset`, `cluster`, `resource` (in its cell) and `process`; those of tasks have `task`
//! and `version` too.
//!
//! A process that does not answer is not one that counts nothing: while it should serve and does not say what it
//! counts, an answer has a series of it without samples.

mod text;
mod visit;
mod window;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use control_plane::{
    prelude::{BoxError, async_trait},
    sdk::{MetricQuery, MetricSource, Series},
};
use tokio::task::AbortHandle;

use window::Window;

/// Scrapes production until it is dropped.
#[derive(Debug)]
pub struct Scraper {
    seen: Seen,
    task: AbortHandle,
}

/// What has been seen, shared by those who look and those who ask.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Window>>);

impl Seen {
    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scraper {
    /// Scrapes the cells whose directories are in `cells`, those that come later included.
    pub fn start(cells: PathBuf) -> Self {
        let seen = Seen::default();
        let task = tokio::spawn(visit::all(cells, seen.clone())).abort_handle();
        Self { seen, task }
    }
}

#[async_trait]
impl MetricSource for Scraper {
    async fn read(&self, query: MetricQuery) -> Result<Vec<Series>, BoxError> {
        Ok(self.seen.window().read(&query))
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
