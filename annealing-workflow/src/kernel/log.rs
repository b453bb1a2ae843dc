//! The log of an execution: which records it has, and which entries are kept.

use std::collections::VecDeque;

use plugin_sdk::operation::ExecutionId;

use super::{
    event::{Effects, Record},
    sparse::{Empty, Sparse},
};
use crate::record::{Entry, LogRecord};

/// Number of entries that are kept from the beginning.
const OLDEST: u32 = 100;
/// Number of the newest entries that are kept.
const NEWEST: u32 = 900;

/// Where the log of an execution ends, and which records it has.
#[derive(Debug, Default)]
pub(super) struct LogHead {
    /// Number of the next entry.
    next: u32,
    /// The first entry and the number of entries of each record after the oldest ones.
    newest: Sparse<VecDeque<(u32, u32)>>,
}

impl LogHead {
    /// The head of a log with these records, each with its first entry and number of entries.
    pub(super) fn of(records: &[(u32, u32)]) -> Self {
        let next = records.last().map_or(0, |(first, count)| first + count);
        let newest = records.iter().filter(|(first, _)| *first >= OLDEST);
        Self {
            next,
            newest: Sparse::of(newest.copied().collect()),
        }
    }
}

impl Empty for VecDeque<(u32, u32)> {
    fn empty() -> &'static Self {
        static EMPTY: VecDeque<(u32, u32)> = VecDeque::new();
        &EMPTY
    }
}

/// Writes entries of a log, and removes those that are over its limit.
pub(super) fn write(id: &ExecutionId, head: &mut LogHead, entries: Vec<Entry>, out: &mut Effects) {
    if entries.is_empty() {
        return;
    }
    let (first, count) = (head.next, entries.len() as u32);
    head.next += count;
    out.records
        .push(Record::Log(id.clone(), first, LogRecord(entries)));
    if first >= OLDEST {
        head.newest.push_back((first, count));
    }
    while let Some((oldest, count)) = head.newest.front().copied()
        && oldest + count + NEWEST <= head.next
    {
        head.newest.pop_front();
        out.records.push(Record::ForgetLog(id.clone(), oldest));
    }
}
