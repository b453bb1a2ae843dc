//! The reader threads, each with its own connection. Reads block their thread, so they must not run on the caller's.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use control_plane_store::Error;
use futures::channel::oneshot;
use rusqlite::{Connection, Transaction};

use crate::{damage::Damage, error::read_error};

/// Number of reader threads, and so of reads that run at the same time.
pub(crate) const THREADS: usize = 4;

/// A read to run on a reader thread.
pub(crate) type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Turns `read` into a job, and returns the job with the channel of its answer. The whole read sees one snapshot.
pub(crate) fn job<T: Send + 'static>(
    read: impl FnOnce(&Transaction<'_>) -> Result<T, Damage> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, Error>>) {
    let (answer, answered) = oneshot::channel();
    let job = move |connection: &mut Connection| {
        let result = connection
            .transaction()
            .map_err(Damage::from)
            .and_then(|transaction| read(&transaction));
        let result = result.map_err(|damage| match damage {
            Damage::Sqlite(error) => read_error(error),
            damage => Error::damaged("the database", damage),
        });
        // If the caller no longer waits, the answer is dropped.
        let _ = answer.send(result);
    };
    (Box::new(job), answered)
}

/// Runs jobs until all senders of `jobs` are dropped.
pub(crate) fn run(mut connection: Connection, jobs: &Arc<Mutex<mpsc::Receiver<Job>>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(&mut connection),
            Err(mpsc::RecvError) => return,
        }
    }
}
