//! One process among those that share a store. It sends heartbeats, acquires partitions and releases them.
//!
//! The shell decides when to call these functions; nothing here sleeps.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use plugin_sdk::{FencingToken, Mono};
use prodspec_model::PartitionId;

use super::{Judged, Lease, Observer, Owner, ProcessId, key, topic};
use crate::{
    Batch, CommitError, Error, Expect, Key, Store, Version,
    record::{self, Stored},
};

/// Number of times per term that a process looks whether the owner of a partition lives.
const LOOKS: u32 = 5;

/// Function that reads the monotonic clock of this process.
pub type Clock = Arc<dyn Fn() -> Mono + Send + Sync>;

/// This process as a member of the processes that share a store: its heartbeat, its lease and the partitions that it
/// owns.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use control_plane_store::{MemoryStore, owner::{Acquire, Process}};
/// use plugin_sdk::Mono;
/// # futures::executor::block_on(async {
/// let (store, term) = (Arc::new(MemoryStore::new()), Duration::from_secs(15));
/// let partition = "shakespeare".parse()?;
/// let mut one = Process::new(store.clone(), "one".into(), term, Arc::new(|| Mono(0)));
/// let mut two = Process::new(store, "two".into(), term, Arc::new(|| Mono(0)));
/// one.beat().await?;
/// two.beat().await?;
///
/// assert!(matches!(one.acquire(&partition).await?, Acquire::Acquired { .. }));
/// assert!(matches!(two.acquire(&partition).await?, Acquire::Held { by: Some(by), .. } if by == "one".into()));
/// one.release(&partition).await?;
/// assert!(matches!(two.acquire(&partition).await?, Acquire::Acquired { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Process {
    store: Arc<dyn Store>,
    id: ProcessId,
    term: Duration,
    clock: Clock,
    /// Version of the heartbeat record; `None` before the first heartbeat.
    heartbeat: Option<Version>,
    lease: Option<Lease>,
    /// A heartbeat whose outcome is unknown, and the time at which it was begun.
    unanswered: Option<(Batch, Mono)>,
    held: BTreeMap<PartitionId, FencingToken>,
    /// Partitions that this process has tried to own and has not released for certain, those of unknown outcome
    /// included.
    claimed: BTreeSet<PartitionId>,
    /// The process that owned a partition at the last look.
    rivals: BTreeMap<PartitionId, ProcessId>,
    observer: Observer,
    /// Newest token that production has seen, by partition. New tokens are greater.
    seen: BTreeMap<PartitionId, FencingToken>,
}

/// Result of sending one heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Beat {
    /// The heartbeat is stored, and the lease renewed.
    Renewed(Lease),
    /// Another process considered this one dead, and may own its partitions. The next heartbeat starts again.
    DeclaredDead {
        /// Partitions that this process owned until now.
        lost: Vec<PartitionId>,
    },
}

/// Result of trying to own a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acquire {
    /// This process owns the partition.
    Acquired {
        /// Fencing token. Every commit for the partition expects [`owner::key`](super::key) at this version.
        token: FencingToken,
    },
    /// Another process owns the partition, or acquired it first.
    Held {
        /// The owner, if it is known.
        by: Option<ProcessId>,
        /// Time to try again, by this process's clock: at most a fifth of a term from now. A takeover comes a term after
        /// the look that found the owner's last heartbeat, so it comes at most 1.2 terms after that heartbeat. Try
        /// earlier if [`owner::topic`](super::topic) is announced.
        look_again_at: Mono,
    },
    /// This process has no valid lease: call [`Process::beat`] first.
    NoLease,
}

impl Process {
    /// Creates a process that owns nothing yet. `id` must be new at every start. `term` must be the same in all
    /// processes.
    pub fn new(store: Arc<dyn Store>, id: ProcessId, term: Duration, clock: Clock) -> Self {
        Self {
            store,
            id,
            term,
            clock,
            heartbeat: None,
            lease: None,
            unanswered: None,
            held: BTreeMap::new(),
            claimed: BTreeSet::new(),
            rivals: BTreeMap::new(),
            observer: Observer::new(term),
            seen: BTreeMap::new(),
        }
    }

    /// Id of this run of the process.
    pub fn id(&self) -> &ProcessId {
        &self.id
    }

    /// The lease of this process; `None` before the first heartbeat and after the process was declared dead.
    pub fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// Partitions that this process owns as far as it knows, with their fencing tokens.
    pub fn held(&self) -> &BTreeMap<PartitionId, FencingToken> {
        &self.held
    }

    /// Renews the heartbeat. Call it by the time that [`Lease::renew_at`] gives.
    ///
    /// # Errors
    /// If the store cannot be written. A heartbeat of unknown outcome is submitted again by the next call.
    pub async fn beat(&mut self) -> Result<Beat, Error> {
        loop {
            let again = self.unanswered.is_some();
            let (batch, begun) = self.unanswered.take().unwrap_or_else(|| self.next_beat());
            match self.store.commit(batch.clone()).await {
                Ok(version) => {
                    let lease = self.renewed(version, begun);
                    if !again {
                        return Ok(Beat::Renewed(lease));
                    }
                }
                // No other process writes this row: the version found is an older heartbeat of this process that had no
                // answer.
                Err(CommitError::Conflict { found, .. }) => return Ok(self.declared_dead(found)),
                Err(error) => {
                    if error.may_resubmit() {
                        self.unanswered = Some((batch, begun));
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Tries to become the owner of `partition`. If this process owns it already, returns the token that it has.
    ///
    /// # Errors
    /// If the store cannot be read or written. Trying again is safe.
    pub async fn acquire(&mut self, partition: &PartitionId) -> Result<Acquire, Error> {
        let fresh = |lease: &Lease| lease.may_start((self.clock)());
        if self.unanswered.is_some() || !self.lease.as_ref().is_some_and(fresh) {
            return Ok(Acquire::NoLease);
        }
        if let Some(token) = self.held.get(partition) {
            return Ok(Acquire::Acquired { token: *token });
        }
        let (owner, beat) = self.look(partition).await?;
        let rival = owner
            .as_ref()
            .filter(|owner| owner.value.process != self.id);
        if let Some(rival) = rival {
            // The clock is read after the heartbeat: a term counts from a moment at which the heartbeat was certainly
            // seen.
            let now = (self.clock)();
            if let Judged::Alive { until } = self.observer.judge(&rival.value.process, beat, now) {
                return Ok(held(Some(rival), until.min(now + self.term / LOOKS)));
            }
        }
        self.claimed.insert(partition.clone());
        let batch = self.claim(partition, owner.as_ref(), beat);
        match self.store.commit(batch).await {
            Ok(version) => {
                let token = FencingToken(version.0);
                self.held.insert(partition.clone(), token);
                self.rivals.remove(partition);
                Ok(Acquire::Acquired { token })
            }
            Err(CommitError::Conflict { .. }) => {
                let soon = (self.clock)() + self.term / 9;
                Ok(held(owner.as_ref(), soon))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sets a lower bound for the tokens of `partition`: production has seen the token `seen`. A store that was lost
    /// and started empty gives out smaller tokens, which production refuses. Ownerships that begin after this call have
    /// greater tokens.
    pub fn raise(&mut self, partition: &PartitionId, seen: FencingToken) {
        let highest = self.seen.entry(partition.clone()).or_insert(seen);
        *highest = seen.max(*highest);
    }

    /// Gives `partition` up. Does nothing if this process does not own it. Also for a partition whose journal reported
    /// lost ownership.
    ///
    /// # Errors
    /// If the store cannot be written. The partition then becomes free by [`Process::give_back`], or when this process
    /// leaves or dies.
    pub async fn release(&mut self, partition: &PartitionId) -> Result<(), Error> {
        match self.held.remove(partition) {
            Some(token) => self.free(partition, Version(token.0)).await,
            None => Ok(()),
        }
    }

    /// Releases partitions that this process may own without knowing it, because a claim or a release had no answer.
    /// Partitions in `wanted` are kept. Call it from time to time.
    ///
    /// # Errors
    /// If the store cannot be read or written. Trying again is safe.
    pub async fn give_back(&mut self, wanted: &BTreeSet<PartitionId>) -> Result<(), Error> {
        let unknown = |id: &&PartitionId| !self.held.contains_key(*id) && !wanted.contains(*id);
        let left: Vec<PartitionId> = self.claimed.iter().filter(unknown).cloned().collect();
        for partition in left {
            let owner = record::load::<Owner>(&*self.store, &partition, "").await?;
            match owner.filter(|owner| owner.value.process == self.id) {
                Some(owner) => self.free(&partition, owner.version).await?,
                None => drop(self.claimed.remove(&partition)),
            }
        }
        Ok(())
    }

    async fn free(&mut self, partition: &PartitionId, owner: Version) -> Result<(), Error> {
        let batch = Batch::new().announce(topic(partition));
        let batch = batch.expect_at(key(partition), owner);
        match self.store.commit(batch.delete(key(partition))).await {
            Ok(_) => drop(self.claimed.remove(partition)),
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Gives up all partitions and removes the heartbeat, so that other processes need not wait for a term. The next
    /// heartbeat starts again.
    ///
    /// # Errors
    /// If the store cannot be written. Other processes then take over after a term.
    pub async fn leave(&mut self) -> Result<(), Error> {
        (self.heartbeat, self.lease, self.unanswered) = (None, None, None);
        self.held.clear();
        let batch = Batch::new().delete(self.id.heartbeat());
        let free = std::mem::take(&mut self.claimed);
        let batch = free
            .iter()
            .fold(batch, |batch, partition| batch.announce(topic(partition)));
        self.store.commit(batch).await?;
        Ok(())
    }

    fn next_beat(&self) -> (Batch, Mono) {
        let begun = (self.clock)();
        let heartbeat = self.id.heartbeat();
        let batch = Batch::new().expect(heartbeat.clone(), Expect::as_found(self.heartbeat));
        (batch.put(heartbeat, "{}"), begun)
    }

    fn renewed(&mut self, version: Version, begun: Mono) -> Lease {
        let lease = Lease {
            renewed_at: begun,
            term: self.term,
        };
        self.heartbeat = Some(version);
        self.lease = Some(lease);
        lease
    }

    fn declared_dead(&mut self, found: Option<Version>) -> Beat {
        self.heartbeat = found;
        self.lease = None;
        let held = std::mem::take(&mut self.held);
        Beat::DeclaredDead {
            lost: held.into_keys().collect(),
        }
    }

    /// The commit that makes this process the owner. It expects that nothing has changed since it was read: this
    /// process was not declared dead, the owner is the same, and the owner's heartbeat has not moved.
    fn claim(
        &self,
        partition: &PartitionId,
        owner: Option<&Stored<Owner>>,
        beat: Option<Version>,
    ) -> Batch {
        let found = owner.map(|owner| owner.version);
        let batch = Batch::new()
            .expect(self.id.heartbeat(), Expect::as_found(self.heartbeat))
            .expect(key(partition), Expect::as_found(found))
            .above(
                self.seen
                    .get(partition)
                    .map_or(Version(0), |seen| Version(seen.0)),
            );
        let mine = serde_json::json!({ "process": self.id.as_str() }).to_string();
        match owner {
            Some(owner) if owner.value.process != self.id => {
                let heartbeat = owner.value.process.heartbeat();
                let batch = batch.expect(heartbeat.clone(), Expect::as_found(beat));
                batch.delete(heartbeat).put(key(partition), mine)
            }
            // Written again even if the record names this process, from an earlier attempt without an answer or from
            // before it was declared dead: each ownership has a token of its own.
            _ => batch.put(key(partition), mine),
        }
    }

    /// Reads the owner of a partition and, if that is another process, the version of its heartbeat: in one read as long
    /// as the owner stays the same.
    async fn look(
        &mut self,
        partition: &PartitionId,
    ) -> Result<(Option<Stored<Owner>>, Option<Version>), Error> {
        let key = key(partition);
        let expected = self.rivals.get(partition).cloned();
        let heartbeat = expected.as_ref().map(ProcessId::heartbeat);
        let keys: Vec<Key> = std::iter::once(key.clone()).chain(heartbeat).collect();
        let mut rows = self.store.get(&keys).await?.into_iter();
        let owner = rows.next().flatten();
        let owner = owner.map(|row| record::decode::<Owner>(&key, &row));
        let owner = owner.transpose()?;
        let other = owner.as_ref().map(|owner| owner.value.process.clone());
        let other = other.filter(|process| *process != self.id);
        let beat = match &other {
            None => None,
            Some(process) if Some(process) == expected.as_ref() => rows.next().flatten(),
            Some(process) => self
                .store
                .get(&[process.heartbeat()])
                .await?
                .pop()
                .flatten(),
        };
        match other {
            Some(process) => drop(self.rivals.insert(partition.clone(), process)),
            None => drop(self.rivals.remove(partition)),
        }
        Ok((owner, beat.map(|row| row.version)))
    }
}

fn held(owner: Option<&Stored<Owner>>, look_again_at: Mono) -> Acquire {
    Acquire::Held {
        by: owner.map(|owner| owner.value.process.clone()),
        look_again_at,
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("id", &self.id)
            .field("lease", &self.lease)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}
