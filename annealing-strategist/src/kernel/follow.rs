//! Moves the head of the group to an incarnation that changes nothing in it, or to the newest one, whichever that is, and
//! removes pins that equal the head.

use plugin_sdk::{GroupHead, Pin, Standing, SyncState};
use prodspec_model::{AssetId, Incarnation, rollout::Update};

use super::{Effects, Kernel, Step};

impl Kernel {
    /// The newest incarnation changes nothing in the group, or the group follows it: makes it the group's head.
    pub(super) fn follow(&mut self, out: &mut Effects) {
        let to = self.group.latest().clone();
        let head = match self.edits() {
            true => GroupHead::Latest,
            false => GroupHead::At(to.clone()),
        };
        let moves = match (self.group.stored_head(), &head) {
            (Some(GroupHead::At(old)), GroupHead::At(new)) => old.no() < new.no(),
            (Some(GroupHead::Latest), GroupHead::Latest) => false,
            _ => true,
        };
        let mut step = Step {
            head: moves.then(|| head.clone()),
            ..Step::default()
        };
        self.group.move_head(head);
        self.drop_pins(&to, &mut step);
        self.pending.taken_up();
        self.pending.leave_out(&[]);
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
        if far || self.edits() {
            self.follow(out);
        }
    }

    /// R17: whether the group, which rests, follows the newest incarnation from now on, because its policy says so. While
    /// content is quarantined, or the policy cannot be read, it goes on as it is.
    fn edits(&self) -> bool {
        match self.group.update() {
            Some(Update::Edits) => self.group.follows_latest() || self.quarantine.is_empty(),
            Some(Update::Pins) => self.group.follows_latest() && self.has_changes,
            None => self.group.follows_latest(),
        }
    }

    /// Returns the reason why the group is not updated as its policy says. `None`: it is.
    pub(super) fn keeps_update(&self) -> Option<String> {
        let update = self.group.update()?;
        if update.is_pins() != self.group.follows_latest() {
            return None;
        }
        if self.has_changes {
            return Some("waits for the end of the changes of its assets".to_owned());
        }
        Some(match (&self.live, self.quarantine.is_empty()) {
            (Some(live), _) => format!("waits for the end of {}", live.id()),
            (None, false) => "waits until no content is quarantined; retry or fix it".to_owned(),
            (None, true) => "waits until all assets have the newest content".to_owned(),
        })
    }

    /// Removes the pins of assets whose content equals that at the new head `to`, or that are absent there: they follow
    /// the head from here on, and so do all others if the group follows the newest incarnation. An asset that is still out
    /// of sync keeps its pin and so its cause. Assets that the group does not govern are not touched.
    pub(super) fn drop_pins(&mut self, to: &Incarnation, step: &mut Step) {
        let all = self.group.follows_latest();
        let follows = |id: &AssetId, pin: &Standing| match to.asset(id) {
            Some(there) if Some(there.digest()) == pin.content => {
                let out_of_sync = matches!(pin.state, SyncState::OutOfSync { .. });
                !out_of_sync || self.types.is_modelled_only(there.type_str())
            }
            Some(_) => all,
            // A target that came later is at a newer incarnation than the head.
            None => pin.pin.incarnation().is_none_or(|no| no <= to.no()),
        };
        let ours = |id: &AssetId| self.governs(self.group.latest(), id);
        let gone = self.pins.iter();
        let gone = gone.filter(|(id, pin)| follows(id, pin) && ours(id));
        let gone: Vec<AssetId> = gone.map(|(id, _)| id.clone()).collect();
        for asset in gone {
            self.pins.forget(&asset);
            step.moves.push((asset, Pin::Default));
        }
    }
}
