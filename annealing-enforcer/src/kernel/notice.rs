//! Notices to operators: each event is logged once and not again with each retry.

use plugin_sdk::plugin;
use prodspec_model::{AssetId, TypeName};

use super::{
    Kernel,
    event::Effects,
    state::{registered::TypeNo, slot::SlotNo},
};

/// An event that an operator needs to see in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A push failed with a class of failure that it had not had since the asset was last in sync or pushed.
    PushFailed {
        /// Id of the asset that was pushed.
        asset: AssetId,
        /// Class of the failure, such as `transient`.
        class: &'static str,
        /// The error of the plugin, shortened.
        why: String,
    },
    /// A circuit breaker opened: the calls of many assets fail, so the plugin is only probed from now on.
    BreakerOpened {
        /// The type of assets whose calls fail.
        type_name: TypeName,
        /// The kind of call: `diff` or `push`.
        call: &'static str,
    },
    /// A circuit breaker closed: a probe succeeded, and the plugin is called as before.
    BreakerClosed {
        /// The type of assets whose calls are made again.
        type_name: TypeName,
        /// The kind of call: `diff` or `push`.
        call: &'static str,
    },
}

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
