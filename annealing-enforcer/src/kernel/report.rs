//! Reports failures and breakers to operators, each once.

use plugin_sdk::{Now, plugin};

use super::{
    Kernel,
    event::Effects,
    notice::Notice,
    state::{
        attempt::{Attempt, NOT_CONVERGING},
        numbers::SlotNo,
        numbers::TypeNo,
    },
};

/// The class of a failure, with the bit that stands for it in `Attempt::told`.
pub(super) fn class_of(error: &plugin::Error) -> (u8, &'static str) {
    match error {
        plugin::Error::Transient { .. } => (1, "transient"),
        plugin::Error::Throttled { .. } => (2, "throttled"),
        plugin::Error::Permanent { .. } => (4, "permanent"),
        plugin::Error::Unhealthy { .. } => (8, "unhealthy"),
        _ => (16, "unknown"),
    }
}

impl Kernel {
    /// Notifies operators that a push of `slot` has ended, with all its follow-ups.
    pub(super) fn tell_push_ended(
        &mut self,
        now: Now,
        slot: SlotNo,
        outcome: &'static str,
        out: &mut Effects,
    ) {
        let Some((asset, it)) = self.table.id(slot).zip(self.attempt_of(slot)) else {
            return;
        };
        let config = &self.kinds[self.table.slot(slot).kind.index()].config;
        let left = it.push_until.since(now.mono);
        out.notices.push(Notice::PushEnded {
            asset,
            incarnation: it.incarnation.no(),
            outcome,
            took: config.push_total.saturating_sub(left),
        });
    }

    fn attempt_of(&self, slot: SlotNo) -> Option<&Attempt> {
        self.attempts.at(self.table.slot(slot).attempt)
    }

    /// Notifies operators of a failed push of `slot`, once per class of failure.
    pub(super) fn tell_failure(&mut self, slot: SlotNo, error: &plugin::Error, out: &mut Effects) {
        let (bit, class) = class_of(error);
        let Some(asset) = self.table.id(slot) else {
            return;
        };
        let at = self.table.slot(slot).attempt;
        let Some(it) = self.attempts.at_mut(at).filter(|it| it.told & bit == 0) else {
            return;
        };
        it.told |= bit;
        let why = control_plane_store::records::excerpt(error.to_string());
        out.notices.push(Notice::PushFailed { asset, class, why });
    }

    /// Notes that drift of an asset was repaired, and notifies operators when something else keeps changing the asset.
    pub(super) fn repaired(&mut self, now: Now, slot: SlotNo, out: &mut Effects) {
        let period = self.config.drift_period;
        let contested = &mut self.census.contested;
        let repairs = contested.repaired(now.mono, slot, period);
        if let Some((asset, repairs)) = self.table.id(slot).zip(repairs) {
            out.notices.push(Notice::Contested { asset, repairs });
        }
    }

    /// Notifies operators that an asset does not converge, once until it is in sync or its intent changes.
    pub(super) fn tell_not_converging(&mut self, slot: SlotNo, why: &str, out: &mut Effects) {
        let Some(asset) = self.table.id(slot) else {
            return;
        };
        let at = self.table.slot(slot).attempt;
        let first = |it: &&mut Attempt| it.told & NOT_CONVERGING == 0;
        if let Some(it) = self.attempts.at_mut(at).filter(first) {
            it.told |= NOT_CONVERGING;
            let why = why.to_owned();
            out.notices.push(Notice::NotConverging { asset, why });
        }
    }

    /// Notifies operators if a breaker opened or closed; `was_open` is its state before the call ended.
    pub(super) fn tell_breaker(
        &self,
        kind: TypeNo,
        call: &'static str,
        was_open: bool,
        out: &mut Effects,
    ) {
        let kind = &self.kinds[kind.index()];
        let is_open = match call {
            "push" => kind.push_breaker.is_open(),
            _ => kind.breaker.is_open(),
        };
        let type_name = || kind.config.name.clone();
        match (was_open, is_open) {
            (false, true) => out.notices.push(Notice::BreakerOpened {
                type_name: type_name(),
                call,
            }),
            (true, false) => out.notices.push(Notice::BreakerClosed {
                type_name: type_name(),
                call,
            }),
            _ => {}
        }
    }
}
