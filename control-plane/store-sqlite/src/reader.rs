//! The threads that read, each with a connection of its own: reads block, and must not block whoever awaits them.

use std::sync::{Arc, Mutex, PoisonError, mpsc};

use futures::channel::oneshot;
use plane_store::Error;
use rusqlite::{Connection, Transaction};

use crate::{database::Damage, error::read_error};

/// How many reads run at the same time.
pub(crate) const THREADS: usize = 4;

/// Something to read.
pub(crate) type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Wraps `read` up, and says where its answer comes from. All of it sees one snapshot.
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
        // Whoever does not wait for the answer any more does not need it.
        let _ = answer.send(result);
    };
    (Box::new(job), answered)
}

/// Works until every sender of `jobs` is gone.
pub(crate) fn run(mut connection: Connection, jobs: &Arc<Mutex<mpsc::Receiver<Job>>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(job) => job(&mut connection),
            Err(mpsc::RecvError) => return,
        }
    }
}
