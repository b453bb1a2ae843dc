//! Incarnations that are being removed: nothing becomes anybody's intent again that is going to be gone. Whoever still
//! has it in memory would lose it at the next restart.

use std::collections::BTreeSet;

use futures::channel::oneshot;
use plane_runtime::Runtime;
use prodspec_model::{AssetId, IncarnationNo};

use super::{Actuation, Entry, Event, Pin, ownership::Ownership};

/// How many are remembered: who has an older one in memory still has slept for very long.
const REMEMBERED: usize = 10_000;

/// How whoever asked for something hears that it is durable, or why it was not done.
pub(crate) type Reply = oneshot::Sender<Result<(), Refused>>;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// This incarnation is being removed.
    Retired(IncarnationNo),
    /// A person's word is about nothing that is there: what would fit.
    Word(String),
}

/// Incarnations that are to be removed, and who asks.
#[derive(Debug)]
pub(crate) struct Retiring {
    pub(crate) old: BTreeSet<IncarnationNo>,
    pub(crate) reply: oneshot::Sender<BTreeSet<IncarnationNo>>,
}

/// Incarnations that were removed, or are going to be.
#[derive(Debug, Default)]
pub(super) struct Retired(BTreeSet<IncarnationNo>);

impl Retired {
    /// From now on nobody may go to these.
    pub(super) fn retire(&mut self, old: &BTreeSet<IncarnationNo>) {
        self.0.extend(old);
        while self.0.len() > REMEMBERED {
            self.0.pop_first();
        }
    }

    /// These stay after all.
    pub(super) fn spare(&mut self, spared: &BTreeSet<IncarnationNo>) {
        self.0.retain(|no| !spared.contains(no));
    }

    /// Whether a pin may be moved there.
    pub(super) fn allows(&self, pin: &Pin) -> Result<(), Refused> {
        match pin {
            Pin::At(at, _) => self.keeps(at.no()),
            _ => Ok(()),
        }
    }

    /// Whether a step may be done, all of it.
    pub(super) fn allows_step(&self, step: &Actuation) -> Result<(), Refused> {
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
    pub(super) fn pin(&mut self, asset: AssetId, pin: Pin, reply: Reply) {
        if let Err(refused) = self.retired.allows(&pin) {
            // The caller may have gone.
            let _ = reply.send(Err(refused));
            return;
        }
        self.step(Event::Pin { asset, pin });
        self.when_durable(reply);
    }

    pub(super) fn actuate(&mut self, step: Actuation, reply: Reply) {
        if let Err(refused) = self.retired.allows_step(&step) {
            let _ = reply.send(Err(refused));
            return;
        }
        self.ahead = step.writes.into_iter().map(Entry::Write).collect();
        let (heads, moves) = (step.heads, step.moves);
        self.step(Event::Actuate { heads, moves });
        self.when_durable(reply);
    }

    /// Nobody's intent may become one of these from now on, unless it is one already.
    pub(super) fn retire(&mut self, mut retiring: Retiring) {
        for cited in self.kernel.cited() {
            retiring.old.remove(&cited);
        }
        self.retired.retire(&retiring.old);
        // A closed scribe has said why: that ends this ownership.
        let _ = self.records.unbounded_send(vec![Entry::Retire(retiring)]);
    }
}
