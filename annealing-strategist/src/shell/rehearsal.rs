//! Rehearses rollouts for a plan: the kernels recover as a new owner's would, and select and judge targets with the real
//! stacks. Nothing is written or logged.

use std::sync::Arc;

use async_trait::async_trait;
use control_plane_runtime::Runtime;
use futures::future::join_all;
use plugin_sdk::{Actuation, BoxError, FeedItem, RehearsedRollouts, Standing};
use prodspec_model::{AssetId, Incarnation};

use super::{
    Strategist,
    calls::answer,
    groups::Groups,
    recover::remembered,
    steps::{AtHand, Work},
};
use crate::kernel::View;

/// Maximum number of rounds of calls, one after the other, in which no pin moves. More would show that something repeats
/// as time passes.
const ROUNDS: usize = 16;

/// Rollouts as a new owner would continue them at once. See [`Strategist::rehearse`].
pub struct Rehearsal<R> {
    strategist: Arc<Strategist<R>>,
    at_hand: AtHand,
    /// The newest incarnation, until the groups are there.
    latest: Option<Incarnation>,
    groups: Option<Groups<R>>,
}

impl<R: Runtime> Strategist<R> {
    /// Starts to rehearse what rollouts would do at once if a process took over the partition now. The rehearsed
    /// enforcement drives it, see [`RehearsedRollouts`]. It needs no ownership.
    pub fn rehearse(self: &Arc<Self>) -> Rehearsal<R> {
        Rehearsal {
            strategist: self.clone(),
            at_hand: AtHand::default(),
            latest: None,
            groups: None,
        }
    }
}

impl<R: Runtime> Rehearsal<R> {
    /// Returns the state of every policy group after the steps so far, sorted by policy asset.
    pub fn views(&self) -> Vec<View> {
        self.groups.as_ref().map(Groups::views).unwrap_or_default()
    }

    async fn take(&mut self, item: FeedItem) -> Result<(), BoxError> {
        if let FeedItem::Took(latest) = &item {
            // The incarnation may be hypothetical, and not in the store.
            self.at_hand.add(latest.clone());
        }
        match (item, &mut self.groups) {
            (FeedItem::Took(latest), None) => self.latest = Some(latest),
            (FeedItem::Took(latest), Some(groups)) => drop(groups.took(latest)),
            (FeedItem::Standings(pins), None) => self.begin(pins).await?,
            (FeedItem::Standings(pins), Some(groups)) => groups.standings_changed(pins),
            _ => {}
        }
        Ok(())
    }

    async fn begin(&mut self, pins: Vec<(AssetId, Standing)>) -> Result<(), BoxError> {
        let Some(latest) = self.latest.take() else {
            return Ok(());
        };
        let strategist = &self.strategist;
        let remembered = remembered(strategist, &latest, &pins).await?;
        let groups = Groups::new(strategist.clone(), latest, remembered.heads, pins);
        let groups = self.groups.insert(groups.quiet());
        groups.line = remembered.line;
        groups.carried = remembered.carried;
        groups.add(remembered.groups);
        Ok(())
    }

    /// Takes the steps that the kernels have decided on. Steps that only write records are left out.
    async fn decided(&mut self) -> Result<Vec<Actuation<()>>, BoxError> {
        let work = self.groups.iter_mut().flat_map(|it| it.work.drain(..));
        let mut decided = Vec::new();
        for work in work {
            let Work::Step(policy, step) = work else {
                continue;
            };
            let incarnations = &self.strategist.incarnations;
            let moves = self.at_hand.load(incarnations, step.moves).await?;
            let heads: Vec<_> = step
                .head
                .into_iter()
                .map(|it| (policy.clone(), it))
                .collect();
            if !moves.is_empty() || !heads.is_empty() {
                decided.push(Actuation {
                    heads,
                    moves,
                    writes: Vec::new(),
                });
            }
        }
        Ok(decided)
    }

    /// Makes the calls that the kernels ask for. Returns whether there were any.
    async fn make_calls(&mut self) -> bool {
        let Some(groups) = &mut self.groups else {
            return false;
        };
        let strategist = &self.strategist;
        let calls = std::mem::take(&mut groups.calls).into_iter();
        let calls = calls.map(async |(policy, call)| (policy, answer(strategist, call).await));
        let answers = join_all(calls).await;
        for (policy, event) in &answers {
            groups.step(policy, event.clone());
        }
        !answers.is_empty()
    }
}

#[async_trait]
impl<R: Runtime> RehearsedRollouts for Rehearsal<R> {
    async fn steps(&mut self, items: Vec<FeedItem>) -> Result<Vec<Actuation<()>>, BoxError> {
        for item in items {
            self.take(item).await?;
        }
        let (mut steps, mut still) = (Vec::new(), 0);
        loop {
            if let Some(groups) = &mut self.groups {
                groups.tick();
            }
            let decided = self.decided().await?;
            still = if decided.is_empty() { still + 1 } else { 0 };
            steps.extend(decided);
            if still > ROUNDS || !self.make_calls().await {
                return Ok(steps);
            }
        }
    }
}

impl<R> std::fmt::Debug for Rehearsal<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rehearsal")
            .field("strategist", &self.strategist)
            .finish_non_exhaustive()
    }
}
