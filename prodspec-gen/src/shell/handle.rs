//! The handle of a running regeneration.

use tokio::sync::{mpsc, watch};

use crate::status::Status;

/// Handle of a running regeneration: asks for runs and reads the status. Regeneration ends when the last handle is
/// dropped.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) ask: mpsc::Sender<()>,
    pub(super) status: watch::Receiver<Status>,
}

impl Handle {
    /// The present status of generation.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// A receiver that follows the status of generation.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Asks for a run at once, without waiting for quiet. Does not wait for the run.
    pub fn regenerate(&self) {
        // A full channel already contains a request.
        let _ = self.ask.try_send(());
    }

    /// Asks for a run, waits until a run that started after this call has ended, and returns the status. Returns at
    /// once if regeneration has ended.
    pub async fn next_run(&self) -> Status {
        let mut status = self.status.clone();
        let (runs, running) = {
            let now = status.borrow();
            (now.runs, now.running)
        };
        self.regenerate();
        let wanted = runs + if running { 2 } else { 1 };
        match status.wait_for(|status| status.runs >= wanted).await {
            Ok(reached) => reached.clone(),
            Err(_) => self.status(),
        }
    }
}
