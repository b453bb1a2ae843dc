//! The newest acknowledged commits of this process, by which a server proves that it has lost none of them.
//!
//! The server writes commits to its log in one order, and a loss takes the end of the log. So it is enough to look for
//! the commits that may be the last of that order: those that no other acknowledged commit certainly follows. A commit
//! certainly follows those that were acknowledged before it was sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use control_plane_store::{BatchId, Version};

/// Maximum number of marks. Without repeated submissions there is at most one for each connection.
const MOST: usize = 64;

/// The commits of which each one may be the newest.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of acknowledgements so far.
    acknowledged: u64,
    marks: Vec<Mark>,
}

#[derive(Debug)]
struct Mark {
    id: BatchId,
    version: Version,
    /// Position of its acknowledgement among all.
    nth: u64,
}

/// The moment at which a commit is sent, as a number of acknowledgements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent(u64);

/// Parameters of a statement that proves that the server has the marks: batch ids, and their versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) ids: Vec<Vec<u8>>,
    pub(crate) versions: Vec<i64>,
}

impl Marks {
    /// Notes that a commit is sent.
    pub(crate) fn sent(&self) -> Sent {
        Sent(self.lock().acknowledged)
    }

    /// Notes that a commit was acknowledged. `sent`: when it was sent; `None` if an earlier submission may have made it.
    pub(crate) fn acknowledged(&self, id: BatchId, version: Version, sent: Option<Sent>) {
        let mut state = self.lock();
        state.acknowledged += 1;
        let nth = state.acknowledged;
        state.marks.retain(|mark| mark.id != id);
        match sent {
            Some(Sent(before)) => state.marks.retain(|mark| mark.nth > before),
            None if state.marks.len() >= MOST => return,
            None => {}
        }
        state.marks.push(Mark { id, version, nth });
    }

    /// The parameters that prove the marks of this moment.
    pub(crate) fn proof(&self) -> Proof {
        let state = self.lock();
        let ids = state
            .marks
            .iter()
            .map(|mark| mark.id.0.to_be_bytes().to_vec());
        let versions = state.marks.iter().map(|mark| mark.version.0.cast_signed());
        Proof {
            ids: ids.collect(),
            versions: versions.collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(marks: &Marks) -> Vec<i64> {
        marks.proof().versions
    }

    #[test]
    fn r50_commit_replaces_the_marks_that_were_acknowledged_before_it_was_sent() {
        let marks = Marks::default();
        let (one, two) = (marks.sent(), marks.sent());
        marks.acknowledged(BatchId(1), Version(2), Some(one));
        let three = marks.sent();
        // The second one was under way beside the first: either may be the last in the server's log.
        marks.acknowledged(BatchId(2), Version(1), Some(two));
        assert_eq!(versions(&marks), [2, 1]);
        marks.acknowledged(BatchId(3), Version(3), Some(three));
        assert_eq!(versions(&marks), [1, 3]);
        let four = marks.sent();
        marks.acknowledged(BatchId(4), Version(4), Some(four));
        assert_eq!(versions(&marks), [4]);
        assert_eq!(marks.proof().ids, [4_u128.to_be_bytes().to_vec()]);
    }

    #[test]
    fn r50_commit_that_was_made_by_an_earlier_submission_replaces_no_mark() {
        let marks = Marks::default();
        let sent = marks.sent();
        marks.acknowledged(BatchId(1), Version(7), Some(sent));
        for _ in 0..3 {
            marks.acknowledged(BatchId(2), Version(5), None);
        }
        assert_eq!(versions(&marks), [7, 5]);
        (0..1000).for_each(|n| marks.acknowledged(BatchId(n), Version(5), None));
        assert!(versions(&marks).len() <= MOST);
    }
}
