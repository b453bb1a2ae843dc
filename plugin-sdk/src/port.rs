//! The port to intent: edits of sources by a program that holds the fields, and the wait until production has them.

use std::{borrow::Borrow, cmp::Ordering, collections::BTreeSet, fmt, sync::Arc};

use async_trait::async_trait;
use prodspec_model::{AssetId, IncarnationNo, snapshot::Change};

use crate::{
    BoxError, By, ChangeId, Holder,
    operation::{PauseAsset, SourceEdit},
    plugin,
};

/// Edits of the sources around one ownership, and waits for production. `control-plane` implements it.
#[async_trait]
pub trait Edits: Send + Sync + 'static {
    /// Makes an edit: all of it or nothing, and once under its id. Fields that another program holds are refused, and held by
    /// this one from then on. It must not block: it runs in a task beside the loop of an engine, not in one that may block as
    /// those of functions.
    ///
    /// # Errors
    /// A permanent error if the edit is refused, a transient one if it can be tried again, an unknown one if it may have been
    /// made.
    async fn edit(&self, edit: &HeldEdit) -> Result<Made, plugin::Error>;

    /// The fields of an edit that do not have the values which it gives them, as text.
    ///
    /// # Errors
    /// If the source cannot be read.
    async fn missing(&self, edit: &HeldEdit) -> Result<Vec<String>, plugin::Error> {
        let _ = edit;
        Err(plugin::Error::transient("sources cannot be read here"))
    }

    /// Begins a wait until each asset that an edit has changed was found in sync, at an incarnation that was sealed, or found
    /// unchanged, by a run of generation that started after this call. Returns at once; the end of the wait goes to `reply`.
    ///
    /// Called in the loop of an engine, so it must not block. Hundreds of thousands of waits may be under way: an
    /// implementation keeps them in an index by asset, and has no task or timer for each.
    fn settle(&self, request: SettleRequest, reply: SettleReply);

    /// Forgets a wait whose end does not count any more. Does nothing if the wait is over or has not begun.
    fn forget(&self, wait: WaitNo);

    /// Gives up all fields of a holder.
    ///
    /// # Errors
    /// If the store fails. It is tried again some seconds later.
    async fn release(&self, holder: &Holder) -> Result<(), BoxError>;

    /// All programs that hold fields.
    ///
    /// # Errors
    /// If the store fails. It is asked again some seconds later.
    async fn holders(&self) -> Result<BTreeSet<Holder>, BoxError>;
}

/// An edit of one source by a program that holds its fields from then on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HeldEdit {
    /// The id under which it is made once.
    pub id: ChangeId,
    /// The program that holds the fields until it [releases](Edits::release) them.
    pub holder: Holder,
    /// The person or program behind it, and the reason, for the history of the source.
    pub by: By,
    /// The fields to set, all of one source.
    pub edits: Vec<SourceEdit>,
    /// The assets whose pushes are paused together with the edit.
    pub pauses: Vec<PauseAsset>,
    /// Whether fields that do not have their expected values are left alone, instead of refusing the whole edit: so are
    /// fields restored.
    pub lenient: bool,
    /// The numbers of edits that are made together or not at all, if it is lenient: of the first ones, of the next ones, and so
    /// on. Empty: each for itself. Of several edits of one field that follow each other in such a group, the one is made whose
    /// expected value the field has; they have the same new value.
    pub units: Vec<usize>,
    /// Maximum number of assets that it may change. `None`: 100.
    pub blast_radius: Option<u32>,
    /// Whether it may turn assets down.
    pub turndown: bool,
    /// The assets that it may change. `None`: any.
    pub only: Option<BTreeSet<AssetId>>,
}

impl HeldEdit {
    /// An edit that changes nothing yet.
    pub fn new(id: ChangeId, holder: Holder, by: By) -> Self {
        Self {
            id,
            holder,
            by,
            edits: Vec::new(),
            pauses: Vec::new(),
            lenient: false,
            units: Vec::new(),
            blast_radius: None,
            turndown: false,
            only: None,
        }
    }
}

/// An edit that was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Made {
    /// The assets that it changes.
    pub assets: Vec<AssetId>,
    /// The changes of the edit alone, compared with the sources before it. Empty: this is not known.
    pub changes: Vec<Change>,
    /// The fields that a lenient edit has left alone, as text.
    pub left_alone: Vec<String>,
    /// The newest incarnation that was sealed when the edit was made. An engine may not have taken it yet. 0: not known.
    pub sealed: IncarnationNo,
}

/// An edit that was made, and whose assets are waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettleRequest {
    /// The id of the edit.
    pub change: ChangeId,
    /// The assets that it has changed.
    pub assets: Box<[AssetId]>,
}

/// How an edit has settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// Each asset that it changed was found in sync.
    Done,
    /// A field was set by another program or a person before that.
    Overwritten(String),
    /// A rollout that carried it went back or stopped.
    RolledBack(String),
}

/// Number of a wait for production, unique for the engine that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitNo(pub u64);

/// The end of a wait: how the edit has settled, or why that cannot be found out now.
pub type SettleEnd = Result<Settlement, plugin::Error>;

/// Takes the ends of waits. The waits of an engine share one.
#[derive(Clone)]
pub struct SettleEnds(Arc<Tell>);

/// Boxed, so that each of hundreds of thousands of replies points to it with one word instead of two.
type Tell = Box<dyn Fn(WaitNo, SettleEnd) + Send + Sync>;

impl SettleEnds {
    /// Tells each end, with the number of its wait, to a function. It must not block.
    pub fn new(tell: impl Fn(WaitNo, SettleEnd) + Send + Sync + 'static) -> Self {
        let tell: Tell = Box::new(tell);
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for SettleEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettleEnds").finish_non_exhaustive()
    }
}

/// Where the end of a wait goes. If it is dropped without an answer, the engine waits again some seconds later.
///
/// Replies are equal and ordered by the numbers of their waits, so a set of them is all that an implementation needs to
/// find the reply to a wait:
///
/// ```
/// use std::{collections::BTreeSet, sync::mpsc};
/// use plugin_sdk::port::{WaitNo, SettleEnds, SettleReply, Settlement};
///
/// let (sender, ends) = mpsc::channel();
/// let tell = SettleEnds::new(move |wait, end| drop(sender.send((wait, end))));
/// let waits = [1, 2].map(|wait| SettleReply::new(WaitNo(wait), tell.clone()));
/// let mut waits = BTreeSet::from(waits);
/// if let Some(reply) = waits.take(&WaitNo(1)) {
///     reply.settled(Ok(Settlement::Done));
/// }
/// assert_eq!(ends.recv()?, (WaitNo(1), Ok(Settlement::Done)));
/// drop(waits);
/// assert!(ends.recv()?.1.is_err());
/// # Ok::<(), mpsc::RecvError>(())
/// ```
#[must_use]
pub struct SettleReply {
    wait: WaitNo,
    /// Takes the end. `None`: it was given.
    ends: Option<SettleEnds>,
}

impl SettleReply {
    /// A reply to the wait with this number, whose end `ends` takes.
    pub fn new(wait: WaitNo, ends: SettleEnds) -> Self {
        let ends = Some(ends);
        Self { wait, ends }
    }

    /// The number of the wait, by which it may be [forgotten](Edits::forget).
    pub fn wait(&self) -> WaitNo {
        self.wait
    }

    /// Tells the engine how the wait has ended. After an error, it waits again some seconds later.
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

impl Borrow<WaitNo> for SettleReply {
    fn borrow(&self) -> &WaitNo {
        &self.wait
    }
}

impl fmt::Debug for SettleReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SettleReply").field(&self.wait).finish()
    }
}
