//! Group commit for one owner: decisions that arrive while a batch is being committed fill the next batch.
//!
//! The journal is pure: it knows no store and no runtime. The shell commits the batches that [`Journal::next_batch`]
//! returns and hands each result to [`Journal::committed`].

use std::collections::{BTreeSet, VecDeque};

use plugin_sdk::FencingToken;

use crate::{Batch, CommitError, Key, Version, Write, limit};

/// The writes of one owner of a partition on their way to the store. At most one batch is in flight, so that one check
/// of the fencing token and one write to the medium serve many decisions.
///
/// Every batch expects the owner's record at the fencing token. A replaced owner therefore writes nothing.
///
/// ```
/// use control_plane_store::{Batch, MemoryStore, Store, Write, journal::{Journal, Outcome}};
/// use plugin_sdk::FencingToken;
/// # futures::executor::block_on(async {
/// let store = MemoryStore::new();
/// let token = store.commit(Batch::new().put("owner/shakespeare", "me")).await?;
///
/// let mut journal = Journal::new("owner/shakespeare".into(), FencingToken(token.0));
/// let first = journal.record(vec![Write::Put("a".into(), "1".into())]);
/// let second = journal.record(vec![Write::Put("b".into(), "2".into())]);
/// let batch = journal.next_batch().unwrap();
/// assert!(journal.next_batch().is_none(), "one at a time");
/// assert!(matches!(journal.committed(store.commit(batch).await), Outcome::Durable(upto) if upto == second));
/// assert!(journal.is_durable(first) && journal.is_idle());
/// # Ok::<(), control_plane_store::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Journal {
    owner: Key,
    token: FencingToken,
    recorded: Ticket,
    durable: Ticket,
    waiting: VecDeque<(Ticket, Vec<Write>)>,
    flight: Option<Flight>,
    ended: bool,
}

/// A position in the journal, given to one recorded step. The step is durable once the journal is durable up to the
/// ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// Meaning of a commit's result for the journal.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// All steps up to this ticket are durable.
    Durable(Ticket),
    /// The outcome of the commit is unknown, or the store cannot be reached. Wait a little, then ask for the next
    /// batch: it is the same batch again.
    Resubmit(CommitError),
    /// Another process owns the partition. Start nothing more; steps that are not durable by now never will be.
    LostOwnership,
    /// The store is broken, or refuses the batch permanently. Start nothing more.
    Stopped(CommitError),
}

#[derive(Debug)]
struct Flight {
    batch: Batch,
    upto: Ticket,
    submitted: bool,
}

impl Journal {
    /// Creates the journal of the owner that holds `token`. `owner` is the key of the partition's owner record.
    pub fn new(owner: Key, token: FencingToken) -> Self {
        Self {
            owner,
            token,
            recorded: Ticket(0),
            durable: Ticket(0),
            waiting: VecDeque::new(),
            flight: None,
            ended: false,
        }
    }

    /// Takes in the writes of one step and returns its ticket. Steps become durable in their order. The writes of one
    /// step become durable together, unless they are larger than a batch ([`limit::BATCH`]): then they are split. After
    /// the journal has ended, steps are dropped.
    pub fn record(&mut self, writes: Vec<Write>) -> Ticket {
        if writes.is_empty() {
            return self.recorded;
        }
        self.recorded.0 += 1;
        if !self.ended {
            self.waiting.push_back((self.recorded, writes));
        }
        self.recorded
    }

    /// Returns the batch to commit now. `None` means that there is nothing to commit, a batch is in flight, or the
    /// journal has ended.
    pub fn next_batch(&mut self) -> Option<Batch> {
        if self.ended {
            return None;
        }
        if self.flight.is_none() {
            self.flight = self.fill();
        }
        let flight = self.flight.as_mut().filter(|flight| !flight.submitted)?;
        flight.submitted = true;
        Some(flight.batch.clone())
    }

    /// Takes the result of committing the batch in flight, and says what to do next.
    pub fn committed(&mut self, result: Result<Version, CommitError>) -> Outcome {
        match result {
            Ok(_) => {
                if let Some(flight) = self.flight.take() {
                    self.durable = flight.upto;
                }
                Outcome::Durable(self.durable)
            }
            Err(error) if error.may_resubmit() => {
                if let Some(flight) = &mut self.flight {
                    flight.submitted = false;
                }
                Outcome::Resubmit(error)
            }
            Err(error) => {
                self.ended = true;
                self.flight = None;
                self.waiting.clear();
                match error {
                    CommitError::Conflict { .. } => Outcome::LostOwnership,
                    error => Outcome::Stopped(error),
                }
            }
        }
    }

    /// Whether the step that got `ticket` is durable.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        ticket <= self.durable
    }

    /// Whether no step is waiting and no batch is in flight.
    pub fn is_idle(&self) -> bool {
        self.flight.is_none() && self.waiting.is_empty()
    }

    /// The fencing token that every batch expects.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Makes a batch of the waiting steps: as many whole steps as fit, or the first part of a step that is too large
    /// for any batch.
    fn fill(&mut self) -> Option<Flight> {
        let room = limit::BATCH - self.owner.as_str().len();
        let mut writes = Vec::new();
        let (mut bytes, mut upto) = (0, self.durable);
        while let Some((ticket, step)) = self.waiting.front_mut() {
            let size: usize = step.iter().map(Write::bytes).sum();
            if bytes + size <= room {
                bytes += size;
                upto = *ticket;
                writes.append(step);
                self.waiting.pop_front();
            } else {
                if writes.is_empty() {
                    writes.extend(step.drain(..fitting(step, room)));
                }
                break;
            }
        }
        if writes.is_empty() {
            return None;
        }
        let mut batch = Batch::new().expect_at(self.owner.clone(), Version(self.token.0));
        batch.writes = last_of_each_key(writes);
        Some(Flight {
            batch,
            upto,
            submitted: false,
        })
    }
}

/// How many writes from the beginning fit into `room` bytes. At least one, even if it does not fit: the store then
/// refuses it.
fn fitting(writes: &[Write], room: usize) -> usize {
    let mut bytes = 0;
    let fit = writes.iter().take_while(|write| {
        bytes += write.bytes();
        bytes <= room
    });
    fit.count().max(1)
}

/// Drops writes that a later write to the same key replaces; keeps the order of the rest.
fn last_of_each_key(mut writes: Vec<Write>) -> Vec<Write> {
    let mut later: BTreeSet<Key> = BTreeSet::new();
    let mut keep: Vec<bool> = writes
        .iter()
        .rev()
        .map(|write| match write {
            Write::Put(key, _) | Write::Delete(key) => later.insert(key.clone()),
            Write::DeleteRange(_) => true,
        })
        .collect();
    writes.retain(|_| keep.pop().unwrap_or(true));
    writes
}

#[cfg(test)]
mod tests;
