//! Group commit for one owner: decisions made while a batch is on its way fill the next one.
//!
//! Pure: no store, no runtime. A shell commits what [`Journal::next_batch`] gives and hands the result back.

use std::collections::{BTreeSet, VecDeque};

use plugin_sdk::FencingToken;

use crate::{Batch, CommitError, Key, Version, Write, limit};

/// The writes of one owner of a partition on their way to the store: one batch in flight, one fence check and one
/// write to the medium for many decisions.
///
/// Every batch expects the owner's record at the fencing token, so that an owner who was replaced writes nothing.
///
/// ```
/// use plane_store::{Batch, MemoryStore, Store, Write, journal::{Journal, Outcome}};
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
/// # Ok::<(), plane_store::Error>(())
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

/// A place in the journal. Durable once the journal is durable up to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// What a commit's result means for the journal.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// Everything up to this ticket is durable.
    Durable(Ticket),
    /// Whether it happened is unknown, or the store is out of reach: wait a little, then ask for the next batch. It
    /// will be the same one.
    Resubmit(CommitError),
    /// Another process owns the partition: start nothing more. What was not durable never will be.
    LostOwnership,
    /// The store is broken, or refuses the batch for good: start nothing more.
    Stopped(CommitError),
}

#[derive(Debug)]
struct Flight {
    batch: Batch,
    upto: Ticket,
    submitted: bool,
}

impl Journal {
    /// The journal of whoever owns the partition with `token`, by the record `owner`.
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

    /// Takes in the writes of one step. They become durable together, unless they alone are larger than a batch may
    /// be; steps become durable in their order. After the journal has ended, they never do.
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

    /// The batch to commit now, if there is one and none is in flight.
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

    /// Takes the result of committing the batch in flight.
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

    /// Whether what `ticket` was given for is durable.
    pub fn is_durable(&self, ticket: Ticket) -> bool {
        ticket <= self.durable
    }

    /// Whether nothing is waiting or in flight.
    pub fn is_idle(&self) -> bool {
        self.flight.is_none() && self.waiting.is_empty()
    }

    /// The token that every batch expects.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Makes a batch of the steps that wait: as many whole ones as fit, or the beginning of one that never fits.
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

/// How many of the first writes fit into `room`; at least one, which the store may refuse.
fn fitting(writes: &[Write], room: usize) -> usize {
    let mut bytes = 0;
    let fit = writes.iter().take_while(|write| {
        bytes += write.bytes();
        bytes <= room
    });
    fit.count().max(1)
}

/// Drops writes that a later write to the same key makes pointless; keeps the order of the rest.
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
