//! The invariants of every call of push, checked once more and independently of admission. The checks run in release
//! builds too: if one of these invariants fails, other state may be wrong as well, so the partition stops.

use plugin_sdk::Now;
use prodspec_model::{Message, addons::Turndown};

use super::{Kernel, state::attempt::Attempt, state::numbers::AttemptNo};
use crate::bug::Bug;

impl Kernel {
    /// Whether a test leaves this guard out on purpose.
    #[cfg_attr(not(feature = "planted-bugs"), allow(clippy::unused_self))]
    pub(super) fn planted(&self, bug: Bug) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.config.planted == Some(bug);
        #[cfg(not(feature = "planted-bugs"))]
        {
            let _ = bug;
            false
        }
    }

    /// Returns the invariant that a call of push would break now, and the asset.
    pub(super) fn would_break(
        &self,
        now: Now,
        at: AttemptNo,
        continuation: bool,
    ) -> Option<String> {
        let it = self.attempts.at(at)?;
        let why = self
            .breaks_ownership(now, at, it)
            .or_else(|| (!continuation).then(|| self.breaks_evidence(now, it))?)?;
        let asset = self.table.id(it.slot);
        let asset = asset.map_or_else(|| format!("slot {}", it.slot.bare()), |id| id.to_string());
        (!self.is_broken_on_purpose()).then(|| format!("{why}, in a push of `{asset}`"))
    }

    /// S5: only the owner pushes an asset, and one push at a time.
    fn breaks_ownership(&self, now: Now, at: AttemptNo, it: &Attempt) -> Option<&'static str> {
        let entry = self.table.slot(it.slot);
        match () {
            () if !self.has_lease(now) => Some("S5: the lease is not held"),
            () if entry.attempt != at => Some("S5: two attempts of one asset"),
            () if !entry.in_flight() => Some("S5: not counted as in flight"),
            () => None,
        }
    }

    /// S1, S3: a push rests on its own, current evidence, and on an asset that is present in its incarnation.
    fn breaks_evidence(&self, now: Now, it: &Attempt) -> Option<&'static str> {
        let entry = self.table.slot(it.slot);
        let asset = self.table.id(it.slot);
        let asset = asset.and_then(|id| it.incarnation.asset(&id));
        let asked = asset
            .as_ref()
            .is_some_and(|asset| asset.has_addon(Turndown::TYPE));
        match () {
            () if now.mono >= it.good_until => Some("S1: the verdicts are too old"),
            () if it.change.is_none() => Some("S1: no diff"),
            () if entry.seq != it.seq.wrapping_add(1) => {
                Some("S1: a diff from before another push")
            }
            () if asset.is_none() => Some("S3: the asset is absent from its incarnation"),
            () if it.turndown != asked => {
                Some("S3: turndown and the asset's turndown addon disagree")
            }
            () => None,
        }
    }

    /// Whether a test leaves a guard out. These invariants are not checked then, so that the effect shows.
    #[cfg_attr(not(feature = "planted-bugs"), allow(clippy::unused_self))]
    pub(crate) fn is_broken_on_purpose(&self) -> bool {
        #[cfg(feature = "planted-bugs")]
        return self.config.planted.is_some();
        #[cfg(not(feature = "planted-bugs"))]
        false
    }
}
