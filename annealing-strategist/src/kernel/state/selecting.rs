//! The selections of a live rollout: the last one, the call under way, and when to ask again.

use std::time::Duration;

use jiff::Timestamp;
use plugin_sdk::{Mono, Selection, Until, Wait};

/// When to ask the selection stack, and what it answered last.
#[derive(Debug)]
pub(in crate::kernel) struct Selecting {
    /// The last selection, and the reasons why it waits.
    selection: Selection,
    /// The call under way.
    call: Option<u64>,
    asked_at: Option<Mono>,
    /// Whether something has changed since the last selection was asked for.
    again: bool,
    /// Whether that change makes the answer to the call under way invalid.
    void: bool,
    /// Whether the last step left out targets that move with others: they did not fit into it.
    cut: bool,
    /// When to select again even if nothing happens.
    wake: Option<Mono>,
}

impl Selecting {
    /// Creates a state in which the first selection is due.
    pub(super) fn new() -> Self {
        Self {
            selection: Selection::default(),
            call: None,
            asked_at: None,
            again: true,
            void: false,
            cut: false,
            wake: None,
        }
    }

    /// Asks for another selection. `void`: the answer to the call under way no longer counts.
    pub(in crate::kernel) fn look_again(&mut self, void: bool) {
        self.again = true;
        self.void |= void && self.call.is_some();
    }

    /// Asks for another selection, but no sooner than `apart` after the last one.
    pub(super) fn look_soon(&mut self, now: Mono, apart: Duration, void: bool) {
        let due = self.asked_at.map_or(now, |at| at + apart);
        self.void |= void && self.call.is_some();
        match due <= now {
            true => self.again = true,
            false => self.look_at(due),
        }
    }

    /// Asks for another selection at a time, or sooner if an earlier time was set.
    pub(in crate::kernel) fn look_at(&mut self, due: Mono) {
        self.wake = Some(self.wake.map_or(due, |wake| wake.min(due)));
    }

    /// Returns the time at which to select again even if nothing happens.
    pub(in crate::kernel) fn next_wake(&self) -> Option<Mono> {
        self.wake
    }

    /// Asks for another selection if its time has come.
    pub(in crate::kernel) fn time_passed(&mut self, now: Mono) {
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
            self.look_again(false);
        }
    }

    /// Returns whether another selection has to be asked for now, and takes note of it. Not while a call is under way.
    pub(in crate::kernel) fn take_due(&mut self) -> bool {
        self.call.is_none() && std::mem::take(&mut self.again)
    }

    /// Notes that the selection stack is called.
    pub(in crate::kernel) fn ask(&mut self, call: u64, now: Mono) {
        (self.call, self.asked_at) = (Some(call), Some(now));
    }

    /// Notes that a call was answered. Returns whether the answer is void. `None`: another call is under way, or none.
    pub(in crate::kernel) fn answered(&mut self, call: u64) -> Option<bool> {
        self.call.take_if(|asked| *asked == call)?;
        Some(std::mem::take(&mut self.void))
    }

    /// Keeps a selection.
    pub(in crate::kernel) fn keep(&mut self, selection: Selection) {
        self.selection = selection;
    }

    /// Selects nothing for a reason of the kernel itself, and tries again at a time.
    pub(in crate::kernel) fn hold(&mut self, why: String, until: Until, again: Mono) {
        self.selection = Selection::default().waiting(why, until);
        self.wake = Some(again);
    }

    /// Forgets the last selection because its places have changed.
    pub(super) fn forget(&mut self) {
        self.selection = Selection::default();
    }

    /// Starts over on the way back.
    pub(super) fn turn_back(&mut self) {
        self.look_again(true);
        self.wake = None;
    }

    /// Notes whether the last step left out targets that move with others.
    pub(in crate::kernel) fn note_cut(&mut self, cut: bool) {
        self.again |= cut;
        self.cut = cut;
    }

    /// Whether a step for `selection` only moves the rest of the last step.
    pub(in crate::kernel) fn is_rest(&self, selection: &Selection) -> bool {
        self.cut && selection.now.is_empty()
    }

    /// Returns the conditions that the last selection waits for.
    pub(in crate::kernel) fn waits(&self) -> &[Wait] {
        &self.selection.waits
    }

    /// Returns the places of the targets whose health decides.
    pub(in crate::kernel) fn decisive(&self) -> impl Iterator<Item = usize> {
        self.selection.validate.iter().map(|place| *place as usize)
    }

    /// Returns the end of the bake for whose evidence the rollout waits at the time `at`.
    pub(in crate::kernel) fn awaited(&self, at: Timestamp) -> Option<Timestamp> {
        let since = self.waits().iter().filter_map(|wait| match wait.until {
            Until::Healthy { since } => Some(since),
            _ => None,
        });
        since.max().filter(|since| *since <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Duration = Duration::from_secs(10);

    #[test]
    fn r18_change_during_a_call_makes_its_answer_void() {
        let mut selecting = Selecting::new();
        assert!(selecting.take_due() && !selecting.take_due());
        selecting.look_again(true);
        selecting.ask(1, Mono(0));
        assert!(!selecting.take_due(), "a call is under way");
        assert_eq!(selecting.answered(2), None, "another call");
        assert_eq!(selecting.answered(1), Some(false), "changed before it");
        assert!(selecting.take_due());
        selecting.ask(2, Mono(0));
        selecting.look_again(true);
        assert_eq!(selecting.answered(2), Some(true));
        assert_eq!(selecting.answered(2), None, "answered once");
    }

    #[test]
    fn r18_selections_for_single_targets_are_spaced_out() {
        let mut selecting = Selecting::new();
        assert!(selecting.take_due());
        selecting.ask(1, Mono(0));
        selecting.answered(1);
        selecting.look_soon(Mono(5), APART, false);
        assert!(!selecting.take_due());
        assert_eq!(selecting.next_wake(), Some(Mono(0) + APART));
        selecting.look_at(Mono(0) + APART * 2);
        selecting.time_passed(Mono(0) + APART);
        assert!(selecting.take_due() && selecting.next_wake().is_none());
    }

    #[test]
    fn r21_rollout_waits_for_evidence_since_the_last_bake_that_has_ended() {
        let mut selecting = Selecting::new();
        let at = |seconds| Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
        let healthy = |since| Until::Healthy { since: at(since) };
        selecting.keep(Selection::default().waiting("bake", healthy(5)));
        assert_eq!(selecting.awaited(at(4)), None);
        assert_eq!(selecting.awaited(at(5)), Some(at(5)));
        selecting.forget();
        assert_eq!(selecting.awaited(at(5)), None);
    }
}
