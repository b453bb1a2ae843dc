//! The handle on running regeneration: asks for runs, reads how it stands.

use tokio::sync::{mpsc, watch};

use crate::status::Status;

/// Asks for runs and reads how generation stands. Regeneration ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(super) ask: mpsc::Sender<()>,
    pub(super) status: watch::Receiver<Status>,
}

impl Handle {
    /// How generation stands now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Follows how generation stands.
    pub fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Asks for a run at once, without waiting for quiet.
    pub fn regenerate(&self) {
        // A full channel holds a request already.
        let _ = self.ask.try_send(());
    }

    /// Asks for a run and waits until one that started later has ended. Returns at once if regeneration has ended.
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
