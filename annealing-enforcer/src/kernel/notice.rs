//! What operators are told as it happens: once, not again with each retry.

use plugin_sdk::plugin;
use prodspec_model::{AssetId, TypeName};

use super::{Kernel, event::Effects};

/// Something that an operator wants to read in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A push failed, for the first time in this way since the asset was in sync or pushed.
    PushFailed {
        /// Of which asset.
        asset: AssetId,
        /// The class of the failure.
        class: &'static str,
        /// What the plugin said.
        why: String,
    },
    /// So many assets' calls fail that the plugin is called for probes only.
    BreakerOpened {
        /// The type of the assets.
        type_name: TypeName,
        /// `diff` or `push`.
        call: &'static str,
    },
    /// A probe succeeded: the plugin is called as before.
    BreakerClosed {
        /// The type of the assets.
        type_name: TypeName,
        /// `diff` or `push`.
        call: &'static str,
    },
}

/// Each class of failure, with a bit of its own.
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
    /// A push of `slot` failed.
    pub(super) fn tell_failure(&mut self, slot: u32, error: &plugin::Error, out: &mut Effects) {
        let (bit, class) = class_of(error);
        let Some(asset) = self.table.id(slot) else {
            return;
        };
        let at = self.table.slot(slot).iteration;
        let Some(it) = self.iterations.at_mut(at).filter(|it| it.told & bit == 0) else {
            return;
        };
        it.told |= bit;
        let why = plane_store::records::excerpt(error.to_string());
        out.notices.push(Notice::PushFailed { asset, class, why });
    }

    /// A breaker was, or was not, open before what has just happened.
    pub(super) fn tell_breaker(
        &self,
        kind: u16,
        call: &'static str,
        was_open: bool,
        out: &mut Effects,
    ) {
        let kind = &self.kinds[kind as usize];
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
