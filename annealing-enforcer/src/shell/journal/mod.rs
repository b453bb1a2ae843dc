//! The journal of one ownership: the kernel's records, the strategist's writes and the history of decisions, in commits
//! that name the owner's token.

mod decisions;
mod records;
mod references;
mod writer;

pub(crate) use writer::{Entry, JournalWriter};

#[cfg(test)]
mod tests;
