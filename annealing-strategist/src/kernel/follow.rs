//! Moves the head of the group to an incarnation that changes nothing in it, and removes pins that equal the head.

use plugin_sdk::{Pin, Standing, SyncState};
use prodspec_model::{AssetId, Incarnation};

use super::{Effects, Kernel, Step};

impl Kernel {
    /// The newest incarnation changes nothing in the group: makes it the group's head.
    pub(super) fn follow(&mut self, out: &mut Effects) {
        let to = self.group.latest().clone();
        let moves = self.group.head().is_none_or(|head| head.no() < to.no());
        let mut step = Step {
            head: moves.then(|| to.clone()),
            ..Step::default()
        };
        self.drop_pins(&to, &mut step);
        self.pending.taken_up();
        self.pending.leave_out(&[]);
        self.group.move_head(to);
        out.steps.push(step);
        self.let_others_go(out);
    }

    /// Moves the head to the newest incarnation only from time to time while nothing changes. Until then the head
    /// keeps its incarnation from being removed.
    pub(super) fn follow_from_afar(&mut self, out: &mut Effects) {
        let Some(head) = self.group.head() else {
            return;
        };
        let far = self.group.latest().no().0.saturating_sub(head.no().0) >= self.config.head_lag;
        if far {
            self.follow(out);
        }
    }

    /// Removes the pins of assets whose content equals that at the new head `to`, or that are absent there: they follow
    /// the head from here on. An asset that is still out of sync keeps its pin and so its cause. Assets that the group
    /// does not govern are not touched.
    pub(super) fn drop_pins(&mut self, to: &Incarnation, step: &mut Step) {
        let same = |id: &AssetId, pin: &Standing| match to.asset(id) {
            Some(there) => {
                let on_its_way = matches!(pin.state, SyncState::OutOfSync { .. })
                    && !self.types.is_modelled_only(there.type_str());
                Some(there.digest()) == pin.content && !on_its_way
            }
            None => true,
        };
        let ours = |id: &AssetId| self.governs(self.group.latest(), id);
        let gone = self.pins.iter();
        let gone = gone.filter(|(id, pin)| same(id, pin) && ours(id));
        let gone: Vec<AssetId> = gone.map(|(id, _)| id.clone()).collect();
        for asset in gone {
            self.pins.forget(&asset);
            step.moves.push((asset, Pin::Default));
        }
    }
}
