//! Incarnations being deleted. Pins to them are refused: they could not be restored after a restart.

use std::collections::BTreeSet;

use control_plane_runtime::Runtime;
use control_plane_store::Write;
use futures::channel::oneshot;
use plugin_sdk::{Actuation, Pin};
use prodspec_model::{AssetId, Incarnation, IncarnationNo};

use super::{Entry, Event, ownership::Ownership};

/// Maximum number of removed incarnations that are remembered, the newest ones. A caller that still holds an older one
/// in memory is not expected.
const REMEMBERED: usize = 10_000;

/// The reply to a request: `Ok` once it is durable, or why it was refused.
pub(crate) type Reply = oneshot::Sender<Result<(), Refused>>;

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The request names this incarnation, which is being removed.
    Retired(IncarnationNo),
    /// An operator's command does not fit the present state; the text says why, and what would fit.
    Word(String),
}

/// A request of retention: which of these `old` incarnations may be removed. The reply names those that may.
#[derive(Debug)]
pub(crate) struct Retiring {
    pub(crate) old: BTreeSet<IncarnationNo>,
    pub(crate) reply: oneshot::Sender<BTreeSet<IncarnationNo>>,
}

/// Incarnations that were removed, or are going to be.
#[derive(Debug, Default)]
pub(super) struct Retired(BTreeSet<IncarnationNo>);

impl Retired {
    /// Refuses pins to these incarnations from now on.
    pub(super) fn retire(&mut self, old: &BTreeSet<IncarnationNo>) {
        self.0.extend(old);
        while self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }

    /// Allows pins to these incarnations again: they are kept.
    pub(super) fn spare(&mut self, retained: &BTreeSet<IncarnationNo>) {
        self.0.retain(|no| !retained.contains(no));
    }

    /// Refuses a pin to an incarnation that is being removed.
    pub(super) fn allows(&self, pin: &Pin<Incarnation>) -> Result<(), Refused> {
        match pin {
            Pin::At(at, _) => self.keeps(at.no()),
            _ => Ok(()),
        }
    }

    /// Refuses a step if any of its heads or pins names an incarnation that is being removed.
    pub(super) fn allows_step(&self, step: &Actuation<Write>) -> Result<(), Refused> {
        let heads = step.heads.iter();
        heads
            .clone()
            .try_for_each(|(_, head)| self.keeps(head.no()))?;
        step.moves.iter().try_for_each(|(_, pin)| self.allows(pin))
    }

    fn keeps(&self, no: IncarnationNo) -> Result<(), Refused> {
        match self.0.contains(&no) {
            true => Err(Refused::Retired(no)),
            false => Ok(()),
        }
    }
}

impl<R: Runtime> Ownership<R> {
    pub(super) fn pin(&mut self, asset: AssetId, pin: Pin<Incarnation>, reply: Reply) {
        if let Err(refused) = self.retired.allows(&pin) {
            // The caller may have gone.
            let _ = reply.send(Err(refused));
            return;
        }
        self.step(Event::Pin { asset, pin });
        self.when_durable(reply);
    }

    pub(super) fn actuate(&mut self, step: Actuation<Write>, reply: Reply) {
        if let Err(refused) = self.retired.allows_step(&step) {
            let _ = reply.send(Err(refused));
            return;
        }
        self.ahead = step.writes.into_iter().map(Entry::Write).collect();
        let (heads, moves) = (step.heads, step.moves);
        self.step(Event::Actuate { heads, moves });
        self.when_durable(reply);
    }

    /// Refuses pins to the `old` incarnations from now on, except those that are referenced, and asks the journal writer which of
    /// them kept decisions refer to.
    pub(super) fn retire(&mut self, mut retiring: Retiring) {
        for referenced in self.kernel.referenced() {
            retiring.old.remove(&referenced);
        }
        self.retired.retire(&retiring.old);
        // A journal writer that has ended has sent its reason, which ends this ownership.
        let _ = self.records.unbounded_send(vec![Entry::Retire(retiring)]);
    }

    /// Deletes the decisions of those of `assets` that are gone: an owner that crashed before it did so has left them.
    pub(super) fn forget_gone(&mut self, assets: Vec<AssetId>) {
        let gone = assets.into_iter().filter(|id| !self.kernel.knows(id));
        let gone: Vec<Entry> = gone.map(Entry::Forget).collect();
        if !gone.is_empty() {
            // A journal writer that has ended has sent its reason, which ends this ownership.
            let _ = self.records.unbounded_send(gone);
        }
    }
}
