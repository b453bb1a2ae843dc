//! Incarnations being deleted. Pins to them are refused: they could not be restored after a restart.

use std::collections::BTreeSet;

use control_plane_store::Write;
use plugin_sdk::{Actuation, Pin};
use prodspec_model::{Incarnation, IncarnationNo};

use super::input::Refused;

/// Maximum number of removed incarnations that are remembered, the newest ones. A caller that still holds an older one
/// in memory is not expected.
const REMEMBERED: usize = 10_000;

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
        let mut heads = step.heads.iter().filter_map(|(_, head)| head.incarnation());
        heads.try_for_each(|head| self.keeps(head.no()))?;
        step.moves.iter().try_for_each(|(_, pin)| self.allows(pin))
    }

    fn keeps(&self, no: IncarnationNo) -> Result<(), Refused> {
        match self.0.contains(&no) {
            true => Err(Refused::Retired(no)),
            false => Ok(()),
        }
    }
}
