//! The rollout that is under way: its record, its targets and how far each is, and what was asked last.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use plane_store::records::StandingPin;
use plugin_sdk::{Direction, Mono, Progress, Selection, Target};
use prodspec_model::{AssetId, Incarnation};

use super::closure::Closure;
use crate::record::{Rollout, State, TargetRecord};

/// A rollout under way.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) rollout: Rollout,
    pub(super) from: Option<Incarnation>,
    pub(super) to: Incarnation,
    /// Sorted by id.
    pub(super) targets: Arc<Vec<Target>>,
    /// Beside each target, from the moment its pin moves.
    pub(super) rows: Vec<Option<TargetRecord>>,
    /// On the way back: those that moved, in the order in which they go back.
    pub(super) back: Option<Arc<Vec<Target>>>,
    /// Group assets whose content failed before: they stay where they are.
    pub(super) left_out: Vec<AssetId>,
    /// Of assets that a failed rollout before this one moved: their pins before that.
    pub(super) inherited: BTreeMap<AssetId, StandingPin>,
    pub(super) closure: Closure,
    /// What was selected last, and what it waits for.
    pub(super) selection: Selection,
    pub(super) selecting: Option<u64>,
    /// Something changed since the last selection was asked for, and whether it makes the answer void.
    pub(super) again: bool,
    pub(super) void: bool,
    /// When to look again though nothing happened.
    pub(super) wake: Option<Mono>,
    pub(super) judging: Option<(u64, Timestamp)>,
    pub(super) judge_at: Option<Mono>,
    /// Pins move for the cause `Emergency`.
    pub(super) emergency: bool,
}

impl Live {
    /// A rollout whose targets have not moved.
    pub(super) fn new(
        rollout: Rollout,
        from: Option<Incarnation>,
        to: Incarnation,
        targets: Vec<Target>,
        left_out: Vec<AssetId>,
        closure: Closure,
    ) -> Self {
        Self {
            rollout,
            from,
            to,
            rows: vec![None; targets.len()],
            targets: Arc::new(targets),
            back: None,
            left_out,
            inherited: BTreeMap::new(),
            closure,
            selection: Selection::default(),
            selecting: None,
            again: true,
            void: false,
            wake: None,
            judging: None,
            judge_at: None,
            emergency: false,
        }
    }

    /// Where in the targets `asset` is.
    pub(super) fn place(&self, asset: &AssetId) -> Option<usize> {
        let found = self.targets.binary_search_by(|t| t.asset.cmp(asset));
        found.ok()
    }

    /// Selects again. `void`: what is being selected now does not count.
    pub(super) fn look_again(&mut self, void: bool) {
        self.again = true;
        self.void |= void && self.selecting.is_some();
    }

    /// Which way it goes.
    pub(super) fn direction(&self) -> Direction {
        match self.back {
            Some(_) => Direction::Back,
            None => Direction::Forward,
        }
    }

    /// The targets of the way it goes.
    pub(super) fn on_the_way(&self) -> &Arc<Vec<Target>> {
        self.back.as_ref().unwrap_or(&self.targets)
    }

    /// Whether pins may move.
    pub(super) fn is_moving(&self) -> bool {
        matches!(
            self.rollout.state,
            State::Running | State::RollingBack { .. }
        )
    }

    /// Whether health is watched.
    pub(super) fn is_watched(&self) -> bool {
        matches!(self.rollout.state, State::Running | State::Paused)
    }

    /// Changes how far a target is.
    pub(super) fn set_progress(&mut self, place: usize, progress: Progress) {
        if let Some(target) = Arc::make_mut(&mut self.targets).get_mut(place) {
            target.progress = progress;
        }
    }

    /// The same for one that goes back.
    pub(super) fn set_back(&mut self, place: usize, progress: Progress) {
        let back = self.back.as_mut().map(Arc::make_mut);
        if let Some(target) = back.and_then(|back| back.get_mut(place)) {
            target.progress = progress;
        }
    }

    /// Whether every target of its way is settled.
    pub(super) fn all_settled(&self) -> bool {
        self.on_the_way().iter().all(|t| t.settled().is_some())
    }

    /// Whether any pin has moved.
    pub(super) fn has_moved(&self) -> bool {
        self.rows.iter().any(Option::is_some)
    }
}
