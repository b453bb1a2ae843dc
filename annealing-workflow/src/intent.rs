//! The port to intent: edits of sources, and the wait until production has them. `control-plane` implements it.

use std::{borrow::Borrow, cmp::Ordering, collections::BTreeSet, fmt, sync::Arc};

use async_trait::async_trait;
use control_plane_store::records::Holder;
use plugin_sdk::{BoxError, plugin};

pub use crate::kernel::{CallNo, Made, PreparedEdit, SettleRequest, Settlement};

/// What executions need of generation and of the sources around them, for one ownership.
#[async_trait]
pub trait Intent: Send + Sync + 'static {
    /// Makes the changes of a step: all of them or none, and once under their id. Fields that another program holds are
    /// refused, and held by this one from then on. It must not block: it runs in a task beside the loop of the lane, not in
    /// one that may block as those of functions.
    ///
    /// # Errors
    /// A permanent error if the changes are refused, a transient one if they can be tried again, an unknown one if they may
    /// have been made.
    async fn edit(&self, edit: &PreparedEdit) -> Result<Made, plugin::Error>;

    /// Begins a wait until each asset that an edit has changed was found in sync, at an incarnation that was sealed, or found
    /// unchanged, by a run of generation that started after this call. Returns at once; the end of the wait goes to `reply`.
    ///
    /// Called in the loop of the lane, so it must not block. Hundreds of thousands of waits may be under way: an implementation
    /// keeps them in an index by asset, and has no task or timer for each.
    fn settle(&self, request: SettleRequest, reply: SettleReply);

    /// Forgets a wait whose end does not count any more: its step was cancelled or has expired, or the lane has ended. Does
    /// nothing if the wait is over or has not begun.
    fn forget(&self, wait: CallNo);

    /// Gives up all fields of a holder.
    ///
    /// # Errors
    /// If the store fails. It is tried again some seconds later.
    async fn release(&self, holder: &Holder) -> Result<(), BoxError>;

    /// All programs that hold fields, also others than executions.
    ///
    /// # Errors
    /// If the store fails. It is asked again some seconds later.
    async fn holders(&self) -> Result<BTreeSet<Holder>, BoxError>;
}

/// The end of a wait: how the edit has settled, or why that cannot be found out now.
pub type SettleEnd = Result<Settlement, plugin::Error>;

/// Takes the ends of waits. The waits of a lane share one.
#[derive(Clone)]
pub struct SettleEnds(Arc<Tell>);

/// Boxed, so that each of hundreds of thousands of replies points to it with one word instead of two.
type Tell = Box<dyn Fn(CallNo, SettleEnd) + Send + Sync>;

impl SettleEnds {
    /// Tells each end, with the number of its wait, to a function. It must not block.
    pub fn new(tell: impl Fn(CallNo, SettleEnd) + Send + Sync + 'static) -> Self {
        let tell: Tell = Box::new(tell);
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for SettleEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleEnds").finish_non_exhaustive()
    }
}

/// Where the end of a wait goes. If it is dropped without an answer, the step waits again some seconds later.
///
/// Replies are equal and ordered by the numbers of their waits, so a set of them is all that an implementation needs to
/// find the reply to a wait:
///
/// ```
/// use std::{collections::BTreeSet, sync::mpsc};
/// use annealing_workflow::intent::{CallNo, SettleEnds, SettleReply, Settlement};
///
/// let (sender, ends) = mpsc::channel();
/// let tell = SettleEnds::new(move |wait, end| drop(sender.send((wait, end))));
/// let waits = [1, 2].map(|wait| SettleReply::new(CallNo(wait), tell.clone()));
/// let mut waits = BTreeSet::from(waits);
/// if let Some(reply) = waits.take(&CallNo(1)) {
///     reply.settled(Ok(Settlement::Done));
/// }
/// assert_eq!(ends.recv()?, (CallNo(1), Ok(Settlement::Done)));
/// drop(waits);
/// assert!(ends.recv()?.1.is_err());
/// # Ok::<(), mpsc::RecvError>(())
/// ```
#[must_use]
pub struct SettleReply {
    wait: CallNo,
    /// Takes the end. `None`: it was told.
    ends: Option<SettleEnds>,
}

impl SettleReply {
    /// A reply to the wait with this number, whose end `ends` takes.
    pub fn new(wait: CallNo, ends: SettleEnds) -> Self {
        let ends = Some(ends);
        Self { wait, ends }
    }

    /// The number of the wait, by which it may be [forgotten](Intent::forget). Unique for one lane.
    pub fn wait(&self) -> CallNo {
        self.wait
    }

    /// Tells the lane how the wait has ended. After an error, the step waits again some seconds later.
    pub fn settled(mut self, end: SettleEnd) {
        self.tell(end);
    }

    fn tell(&mut self, end: SettleEnd) {
        if let Some(SettleEnds(tell)) = self.ends.take() {
            tell(self.wait, end);
        }
    }
}

impl Drop for SettleReply {
    fn drop(&mut self) {
        let why = "the wait for production has ended without an answer";
        self.tell(Err(plugin::Error::transient(why)));
    }
}

impl PartialEq for SettleReply {
    fn eq(&self, other: &Self) -> bool {
        self.wait == other.wait
    }
}

impl Eq for SettleReply {}

impl PartialOrd for SettleReply {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SettleReply {
    fn cmp(&self, other: &Self) -> Ordering {
        self.wait.cmp(&other.wait)
    }
}

impl Borrow<CallNo> for SettleReply {
    fn borrow(&self) -> &CallNo {
        &self.wait
    }
}

impl fmt::Debug for SettleReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SettleReply").field(&self.wait).finish()
    }
}
