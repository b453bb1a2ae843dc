//! Reports failures and breakers to operators, each once.

use plugin_sdk::plugin;

use super::{
    Kernel,
    event::Effects,
    notice::Notice,
    state::{numbers::SlotNo, numbers::TypeNo},
};

/// The class of a failure, with the bit that stands for it in `Attempt::told`.
fn class_of(error: &plugin::Error) -> (u8, &'static str) {
    match error {
        plugin::Error::Transient { .. } => (1, "transient"),
        plugin::Error::Throttled { .. } => (2, "throttled"),
        plugin::Error::Permanent { .. } => (4, "permanent"),
        plugin::Error::Unhealthy { .. } => (8, "unhealthy"),
        _ => (16, "unknown"),
    }
}

impl Kernel {
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
