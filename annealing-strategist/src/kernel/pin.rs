//! Moves the pin of one asset, and finds the content that pins hold assets to.

use plugin_sdk::{Now, Pin, Standing, SyncState};
use prodspec_model::{AssetId, Digest, Incarnation, IncarnationNo};

use super::{Kernel, Step, state::closure::Before};

impl Kernel {
    /// Moves one pin, and expects a report of it.
    pub(super) fn pin(&mut self, now: Now, asset: &AssetId, pin: Pin, step: &mut Step) {
        step.moves.push((asset.clone(), pin));
        if pin == Pin::Default {
            self.pins.forget(asset);
            return;
        }
        let since = self.clock.at(now);
        let content = self.content_at(pin, asset);
        let state = SyncState::out_of_sync(since);
        self.pins.request(asset, Standing::at(pin, content, state));
    }

    /// Returns the content that enforcement holds an asset to: by its own pin, or by the group's head.
    pub(super) fn content_in_force(&self, asset: &AssetId) -> Option<Digest> {
        match self.pins.status(asset) {
            Some(standing) => standing.content,
            None => self.group.content_at_head(asset),
        }
    }

    /// Returns the content of an asset at an incarnation that the kernel has loaded.
    fn content_at(&self, pin: Pin, asset: &AssetId) -> Option<Digest> {
        let there = self.at_hand(pin.incarnation()?)?.asset(asset);
        there.map(|asset| asset.digest())
    }

    fn at_hand(&self, no: IncarnationNo) -> Option<&Incarnation> {
        let to = self.live.as_ref().map(|live| live.to());
        let to = to.filter(|to| to.no() == no);
        self.group.at(no).or(to)
    }

    /// Returns the content that an asset is held to now.
    pub(super) fn before(&self, asset: &AssetId) -> Before {
        self.held_to(self.pins.of(asset), asset)
    }

    /// Returns the content that an asset is held to by `pin`.
    pub(super) fn held_to(&self, pin: Pin, asset: &AssetId) -> Before {
        let at = match pin {
            Pin::At(no, _) => match self.at_hand(no) {
                Some(at) => Some(at),
                None => return Before::Unknown,
            },
            Pin::NotYet => None,
            Pin::Default => self.group.head(),
        };
        let there = at.and_then(|at| at.asset(asset));
        there.map_or(Before::Nothing, Before::Asset)
    }

    /// R20: whether an asset counts as updated once it is pinned: it is only modelled, so it is not enforced.
    pub(super) fn is_modelled_only(&self, at: &Incarnation, asset: &AssetId) -> bool {
        let there = at.asset(asset).filter(|_| !self.is_change);
        there.is_some_and(|asset| self.types.is_modelled_only(asset.type_str()))
    }
}
