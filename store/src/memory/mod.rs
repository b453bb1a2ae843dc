//! A store in memory, for tests, simulation and short-lived planes. It is deterministic, and faults can be injected.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use async_trait::async_trait;
use futures::{StreamExt, future::BoxFuture, stream::BoxStream};

use crate::{
    Batch, CommitError, Error, Key, KeyRange, Page, Store, Topic, Version, Versioned, Watchers,
};

pub use faults::{Counts, Fault, Op, Rates};

mod faults;
mod log;
#[cfg(test)]
mod tests;

/// A [`Store`] in memory. Clones are one handle to the store, as one process has it; [`other`](Self::other) gives another
/// one.
///
/// Like a disk, it distinguishes *written* from *synced*: a commit is written, then synced, then acknowledged. With
/// [`set_pause`](Self::set_pause) a simulator puts virtual time, or a crash, between these steps. The store draws no
/// random numbers and reads no clock; faults come from the caller only.
///
/// ```
/// use control_plane_store::{Batch, CommitError, MemoryStore, Store, memory::Fault};
/// # futures::executor::block_on(async {
/// let store = MemoryStore::new();
/// store.inject(Fault::UnknownApplied);
/// let batch = Batch::new().put("a", "1");
/// assert!(matches!(store.commit(batch.clone()).await, Err(CommitError::Unknown { .. })));
/// let first = store.commit(batch.clone()).await?;
/// assert_eq!(store.commit(batch).await?, first);
///
/// let after = store.crash();
/// assert!(store.get(&["a".into()]).await.is_err(), "the old handle is dead");
/// assert_eq!(after.get(&["a".into()]).await?[0].as_ref().unwrap().version, first);
/// # Ok::<(), control_plane_store::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    disk: Arc<Mutex<Disk>>,
    opening: u64,
    handle: Arc<Mutex<View>>,
}

/// The part of the store that reads of one handle see.
#[derive(Debug, Default)]
struct View {
    /// Greatest version that was acknowledged to the handle.
    acknowledged: Version,
    /// The version at which its reads were left behind, by [`Fault::LeftBehind`].
    behind: Option<Version>,
}

/// Point at which a commit or a read can be paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Point {
    /// A read was requested and has not begun.
    BeforeRead,
    /// A commit was requested; nothing is written.
    BeforeWrite,
    /// A commit is written but not yet synced: no reader sees it, and a crash loses it.
    BeforeSync,
    /// A commit is durable but not yet acknowledged.
    BeforeAck,
}

type Pause = Arc<dyn Fn(Point) -> BoxFuture<'static, ()> + Send + Sync>;
type Faults = Box<dyn FnMut(Op<'_>) -> Option<Fault> + Send>;

struct Disk {
    log: log::Log,
    /// Number of times that the store was opened. Handles of earlier openings are refused.
    opening: u64,
    poisoned: bool,
    unreachable: bool,
    injected: VecDeque<Fault>,
    faults: Option<Faults>,
    pause: Option<Pause>,
    counts: Counts,
    watchers: Watchers,
    /// The handles of this opening.
    handles: Vec<Weak<Mutex<View>>>,
}

impl MemoryStore {
    /// Creates an empty store without faults.
    pub fn new() -> Self {
        let disk = Disk {
            log: log::Log::default(),
            opening: 0,
            poisoned: false,
            unreachable: false,
            injected: VecDeque::new(),
            faults: None,
            pause: None,
            counts: faults::NAMES.iter().map(|name| (*name, 0)).collect(),
            watchers: Watchers::default(),
            handles: Vec::new(),
        };
        let disk = Arc::new(Mutex::new(disk));
        Self::handle(&disk)
    }

    /// Another handle to the same store, as another process has it: its reads need not see the commits that are
    /// acknowledged to this one. A handle of an earlier opening gives one that is refused too.
    #[must_use]
    pub fn other(&self) -> Self {
        Self {
            opening: self.opening,
            ..Self::handle(&self.disk)
        }
    }

    fn handle(disk: &Arc<Mutex<Disk>>) -> Self {
        let handle = Arc::new(Mutex::new(View::default()));
        let mut locked = disk.lock().unwrap_or_else(PoisonError::into_inner);
        locked.handles.retain(|other| other.strong_count() > 0);
        locked.handles.push(Arc::downgrade(&handle));
        Self {
            opening: locked.opening,
            disk: Arc::clone(disk),
            handle,
        }
    }

    /// Cuts the power and opens the store again. Unsynced commits are lost, all handles but the returned one are
    /// refused from now on, and streams of watchers end. Also ends poisoning.
    #[must_use = "every other handle is refused from now on"]
    pub fn crash(&self) -> Self {
        let mut disk = self.lock();
        let lost = disk.log.roll_back();
        disk.count("crash", 1);
        disk.count("commit_lost_in_crash", lost);
        disk.opening += 1;
        disk.poisoned = false;
        disk.watchers = Watchers::default();
        disk.handles.clear();
        drop(disk);
        Self::handle(&self.disk)
    }

    /// Makes the store refuse everything as unavailable (`true`), or ends that (`false`).
    pub fn set_unreachable(&self, unreachable: bool) {
        self.lock().unreachable = unreachable;
    }

    /// Makes the next operation fail that `fault` fits. Several injected faults are queued.
    pub fn inject(&self, fault: Fault) {
        self.lock().injected.push_back(fault);
    }

    /// Sets a function that is asked before each operation whether a fault hits it, and which. See [`Rates::seeded`].
    pub fn set_faults(&self, faults: impl FnMut(Op<'_>) -> Option<Fault> + Send + 'static) {
        self.lock().faults = Some(Box::new(faults));
    }

    /// Removes all faults, injected ones included, and makes the store reachable again.
    pub fn heal(&self) {
        let mut disk = self.lock();
        disk.faults = None;
        disk.injected.clear();
        disk.unreachable = false;
        for handle in disk.handles.iter().filter_map(Weak::upgrade) {
            view(&handle).behind = None;
        }
    }

    /// Commits `batch` and answers before it is synced, which no store may do: a crash before the next commit loses an
    /// acknowledged commit. For tests that show that such a loss is detected.
    ///
    /// # Errors
    /// As for [`Store::commit`].
    pub async fn commit_unsynced(&self, batch: Batch) -> Result<Version, CommitError> {
        batch.check()?;
        self.pause(Point::BeforeWrite).await;
        let (version, _) = self.write(&batch)?;
        self.pause(Point::BeforeSync).await;
        Ok(version)
    }

    /// Sets a function whose future is awaited at each [`Point`] of every operation.
    pub fn set_pause(
        &self,
        pause: impl Fn(Point) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        self.lock().pause = Some(Arc::new(pause));
    }

    /// Number of times that each fault has occurred so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// Reads a row as it is durable now, without faults, pauses and handles that are refused. For tests that judge
    /// from outside what a program has stored.
    pub fn durable(&self, key: &Key) -> Option<Versioned> {
        let disk = self.lock();
        disk.log.snapshot(disk.log.newest()).get(key)
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pause(&self, point: Point) {
        let pause = self.lock().pause.clone();
        if let Some(pause) = pause {
            pause(point).await;
        }
    }

    /// Reads one snapshot, unless a fault prevents it.
    async fn read<T>(&self, read: impl FnOnce(log::Snapshot<'_>) -> T + Send) -> Result<T, Error> {
        let acknowledged = view(&self.handle).acknowledged;
        self.pause(Point::BeforeRead).await;
        let mut disk = self.lock();
        disk.usable(self.opening)?;
        let (fault, newest) = (disk.draw(Op::Read), disk.log.newest());
        let version = match (fault, view(&self.handle).reads_at(fault, newest)) {
            (Some(Fault::Unavailable), _) => return Err(Error::unavailable("injected")),
            // As with a connection to a server that was replaced: the proof fails, and the connection is given up.
            (_, None) => return Err(Error::unavailable(Refused::LeftBehind)),
            (Some(Fault::Stale(behind)), Some(at)) => disk.log.before(at, behind),
            (_, Some(at)) => at,
        };
        Ok(read(disk.log.snapshot(version.max(acknowledged))))
    }

    /// Writes `batch` without syncing it. Also returns a fault that applies to a later step.
    fn write(&self, batch: &Batch) -> Result<(Version, Option<Fault>), CommitError> {
        let mut disk = self.lock();
        disk.usable(self.opening)?;
        let fault = disk.draw(Op::Commit(batch));
        match fault {
            Some(Fault::Unavailable) => return Err(CommitError::unavailable("injected")),
            Some(Fault::UnknownLost) => return Err(CommitError::unknown("injected")),
            _ => {}
        }
        Ok((disk.log.write(batch)?, fault))
    }

    /// Makes everything written up to `version` durable and visible, and sends hints to watchers.
    fn sync(
        &self,
        batch: &Batch,
        version: Version,
        fault: Option<Fault>,
    ) -> Result<(), CommitError> {
        let mut disk = self.lock();
        disk.usable(self.opening).map_err(CommitError::unknown)?;
        if let Some(Fault::Poison { kept }) = fault {
            if kept {
                disk.log.sync(version);
            }
            disk.poisoned = true;
            return Err(CommitError::poisoned("injected"));
        }
        disk.log.sync(version);
        disk.trim();
        for topic in &batch.announce {
            disk.announce(topic);
        }
        Ok(())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("opening", &self.opening)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Error> {
        self.read(|snapshot| keys.iter().map(|key| snapshot.get(key)).collect())
            .await
    }

    async fn scan(&self, range: KeyRange, limit: usize) -> Result<Page, Error> {
        self.read(|snapshot| snapshot.scan(&range, limit)).await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        batch.check()?;
        self.pause(Point::BeforeWrite).await;
        let (version, fault) = self.write(&batch)?;
        self.pause(Point::BeforeSync).await;
        self.sync(&batch, version, fault)?;
        self.pause(Point::BeforeAck).await;
        if self.lock().opening != self.opening || fault == Some(Fault::UnknownApplied) {
            return Err(CommitError::unknown("the answer was lost"));
        }
        let mut view = view(&self.handle);
        view.acknowledged = version.max(view.acknowledged);
        Ok(version)
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        let mut disk = self.lock();
        if disk.opening != self.opening {
            return futures::stream::empty().boxed();
        }
        disk.watchers.watch(topic)
    }
}

/// Reason why the store refuses every operation.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the store was opened again; use the handle of the new opening")]
    Closed,
    #[error("the store does not answer")]
    Unreachable,
    #[error("the connection leads to a server that was replaced")]
    LeftBehind,
    #[error("syncing failed earlier")]
    Poisoned,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Poisoned => Self::poisoned(refused),
            Refused::Closed | Refused::Unreachable | Refused::LeftBehind => {
                Self::unavailable(refused)
            }
        }
    }
}

impl From<Refused> for CommitError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Poisoned => Self::poisoned(refused),
            Refused::Closed | Refused::Unreachable | Refused::LeftBehind => {
                Self::unavailable(refused)
            }
        }
    }
}

/// The view of a handle. Locked after the disk where both are.
fn view(handle: &Mutex<View>) -> MutexGuard<'_, View> {
    handle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View {
    /// The version that a read sees at most, hit by `fault` while `newest` is durable. `None`: it is refused, and the
    /// next one sees everything again.
    fn reads_at(&mut self, fault: Option<Fault>, newest: Version) -> Option<Version> {
        let hit = fault == Some(Fault::LeftBehind);
        let Some(behind) = self.behind else {
            self.behind = hit.then_some(newest);
            return Some(newest);
        };
        let found_out = hit || behind < self.acknowledged;
        self.behind = self.behind.filter(|_| !found_out);
        self.behind
    }
}

impl Disk {
    /// Forgets states that no read can see any more.
    fn trim(&mut self) {
        let handles = self.handles.iter().filter_map(Weak::upgrade);
        let behind = handles.filter_map(|handle| view(&handle).behind).min();
        self.log.trim(behind);
    }

    fn usable(&mut self, opening: u64) -> Result<(), Refused> {
        if opening != self.opening {
            return Err(Refused::Closed);
        }
        if self.poisoned {
            return Err(Refused::Poisoned);
        }
        if self.unreachable {
            self.count("unreachable", 1);
            return Err(Refused::Unreachable);
        }
        Ok(())
    }

    /// The fault that hits `op`, if any: the first injected one that fits, otherwise one drawn by the fault function.
    fn draw(&mut self, op: Op<'_>) -> Option<Fault> {
        let injected = self.injected.iter().position(|fault| fault.fits(op));
        let fault = match injected {
            Some(at) => self.injected.remove(at),
            None => self.faults.as_mut().and_then(|faults| faults(op)),
        };
        let fault = fault.filter(|fault| fault.fits(op))?;
        self.count(fault.name(), 1);
        Some(fault)
    }

    fn count(&mut self, name: &'static str, times: u64) {
        *self.counts.entry(name).or_default() += times;
    }

    fn announce(&mut self, topic: &Topic) {
        // Taken out, because drawing faults needs the rest of the disk.
        let mut watchers = std::mem::take(&mut self.watchers);
        watchers.announce(topic, || match self.draw(Op::Hint(topic)) {
            Some(Fault::DropHint) => 0,
            Some(Fault::RepeatHint) => 2,
            _ => 1,
        });
        self.watchers = watchers;
    }
}
