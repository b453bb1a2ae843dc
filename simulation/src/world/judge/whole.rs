//! Conditions on a new head of a group: all new content has arrived, baked and was observed healthy.

use crate::world::State;

impl State {
    /// R21: when a group completes `to`, all its new content has arrived, baked, and was observed healthy since.
    /// Returns the violation, if there is one.
    pub fn judge_whole(&mut self, group: usize, to: u32) -> Option<String> {
        let head = self.judge.groups[group].head?;
        let plan = self.plan_at(to).cloned()?;
        let bake = self.least(group, to)?.bake;
        let new = |it: &usize| {
            let here = plan.wishes[*it].group == Some(group) && self.plan.wishes[*it].steady;
            let there = self.mark_at(to, *it);
            here && there.is_some() && there != self.mark_at(head, *it)
        };
        let new: Vec<usize> = (0..plan.wishes.len()).filter(new).collect();
        for at in new {
            self.judge.look("whole");
            let eye = &self.judge.eyes[at];
            let arrived = eye.arrived.map(|(mark, _)| mark);
            // Content that the asset had already before the rollout needs no bake.
            let over = match self.moved(at, to) {
                true => self.is_over(at, to, bake, self.now),
                false => arrived == self.mark_at(to, at),
            };
            if !over && !self.is_left_out(at) {
                let what = format!("@{to} is completed before asset/{at:02} has baked");
                return Some(what);
            }
        }
        None
    }

    /// Whether the rollout leaves an asset out: its pin is `NotYet`, or content in its tree of edges is quarantined.
    pub(super) fn is_left_out(&self, at: usize) -> bool {
        let eyes = self.judge.eyes.iter().enumerate();
        let mut held = eyes
            .filter(|(_, eye)| !eye.held.is_empty())
            .map(|(at, _)| at);
        self.judge.eyes[at].nowhere || held.any(|other| self.plan.is_tied(at, other))
    }
}
