//! Takes in a newer incarnation, and the assets that come back to the group with it.

use control_plane_runtime::Steady;
use plugin_sdk::{Now, Progress};
use prodspec_model::{AssetId, Incarnation};

use super::{Effects, Kernel};

impl Kernel {
    /// Takes in a newer incarnation. `changed` are the assets of the group that it may change.
    pub(super) fn took(
        &mut self,
        now: Now,
        latest: Incarnation,
        changed: Vec<AssetId>,
        out: &mut Effects,
    ) {
        let swapped = self.group.take(latest);
        self.came_back(&changed);
        self.look_for_others(&changed);
        self.pending.add(changed.iter().cloned());
        self.let_go(&changed, out);
        self.take_in(now, &changed, out);
        self.pending.look();
        match &mut self.live {
            Some(live) if swapped => live.selecting.look_again(true),
            Some(_) => {}
            // No rollout measures time: start over from the wall clock, which may have been corrected.
            None => self.clock = Steady::new(now),
        }
    }

    /// Notes a newer incarnation, without taking it in. Assets that have left the group by it are let go.
    pub(super) fn sealed(&mut self, newest: Incarnation, changed: &[AssetId], out: &mut Effects) {
        let swapped = self.group.see(newest);
        self.came_back(changed);
        self.look_for_others(changed);
        self.let_go(changed, out);
        if let Some(live) = self.live.as_mut().filter(|_| swapped) {
            live.selecting.look_again(true);
        }
    }

    /// A target that had left the group is back in it, and waits for its turn again.
    fn came_back(&mut self, assets: &[AssetId]) {
        for asset in assets {
            let ours = self.names(self.group.latest(), asset);
            let Some(live) = self.live.as_mut().filter(|_| ours) else {
                continue;
            };
            live.comes_back(asset);
            if let Some(place) = live.targets().place(asset)
                && live.targets().is_updated(place)
                && live.targets().row(place).is_none()
                && !live.is_going_back()
            {
                live.set_progress(place, Progress::Waiting);
                live.selecting.look_again(false);
            }
        }
    }
}
