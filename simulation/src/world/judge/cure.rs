//! Conditions on manual changes: each one is repaired in time, whatever is edited meanwhile (R6, R16).
//!
//! In time means within two drift periods of one owner, and the time of checks and a push. The content with which an
//! asset was last in sync is one that production had, and intent wanted, for a whole drift period without an excuse:
//! after that time the owner must know it.

use std::{collections::BTreeMap, time::Duration};

use annealing_enforcer::store::records::Scope;
use plugin_sdk::Cause;

use super::{Call, Pinned};
use crate::{
    executor::Instant,
    intent::{Bad, Kind},
    production::{Content, Lie},
    world::State,
};

/// Maximum time of checks, claims and pushes together, after an asset was diffed.
const PUSHED: Duration = Duration::from_secs(30);

/// The judge's observations of manual changes and their repair.
#[derive(Debug)]
pub struct Cures {
    /// Manual changes that were not repaired yet, by asset.
    pub(super) drifted: BTreeMap<usize, Drifted>,
    /// The content with which each asset was last in sync, by asset.
    settled: Vec<Option<Settled>>,
    /// Time at which an excuse or a failed call last delayed each asset.
    pub(super) hindered: Vec<Instant>,
    /// Pauses that operators asked for, with their end.
    pub(super) pauses: Vec<(Scope, Instant)>,
    /// Number of seconds for which each excuse delayed a repair, by name.
    pub excused: BTreeMap<&'static str, u64>,
}

/// A manual change of a resource.
#[derive(Debug)]
pub(super) struct Drifted {
    since: Instant,
    /// Content after the change.
    after: Option<Content>,
    /// The content with which the resource was in sync before; `None` unless the owner must know it.
    pub(super) before: Option<Content>,
    /// Whether intent differed from [`Drifted::before`] while the change lasted.
    edited: bool,
}

/// A content that an asset has and that intent wants.
#[derive(Debug, Clone, Copy)]
struct Settled {
    content: Content,
    since: Instant,
    /// Whether the asset has had the content for so long that the owner must know it.
    known: bool,
}

impl Cures {
    /// Makes the observations for a number of assets, all empty.
    pub(super) fn new(assets: usize) -> Self {
        Self {
            drifted: BTreeMap::new(),
            settled: vec![None; assets],
            hindered: vec![Instant::default(); assets],
            pauses: Vec::new(),
            excused: BTreeMap::new(),
        }
    }
}

impl State {
    /// Records a manual change of a resource that had the content `before`.
    pub fn drifted(&mut self, at: usize, before: Option<Content>) {
        let (now, after) = (self.now, self.production.resources[at].content);
        let cures = &mut self.judge.cures;
        // A second change may restore the content: then there is nothing to repair.
        let undone = |it: &mut Drifted| it.before.is_some() && it.before == after;
        if cures.drifted.get_mut(&at).is_some_and(undone) {
            cures.drifted.remove(&at);
            return;
        }
        let known =
            self.judge.cures.settled[at].filter(|it| it.known && Some(it.content) == before);
        let drifted = Drifted {
            since: now,
            after,
            before: known.map(|it| it.content),
            edited: false,
        };
        let drifted = self.judge.cures.drifted.entry(at).or_insert(drifted);
        drifted.after = after;
    }

    /// Records that a push begins. From the begin of a push of new intent on, production may have the old or the new
    /// content, so no content is known.
    pub(super) fn begins_for(&mut self, at: usize, call: &Call<'_>) {
        if matches!(call.cause, Some(Cause::Intent | Cause::Emergency)) {
            self.judge.cures.settled[at] = None;
            if let Some(drifted) = self.judge.cures.drifted.get_mut(&at) {
                drifted.before = None;
            }
        }
    }

    /// Judges the repair of all manual changes. Called every second.
    pub fn judge_cures(&mut self) {
        for at in 0..self.production.resources.len() {
            if self.production.resources[at].kind != Kind::Concept {
                self.judge_cure(at);
            }
        }
    }

    fn judge_cure(&mut self, at: usize) {
        let now = self.now;
        let there = self.production.resources[at].content;
        if self
            .judge
            .cures
            .drifted
            .get(&at)
            .is_some_and(|it| it.after != there)
        {
            self.is_cured(at);
        }
        let wanted = self.intended(at);
        if wanted.is_none() {
            // An asset that left intent, or whose pin is `NotYet`, is left alone; its time begins anew when it returns.
            self.judge.cures.settled[at] = None;
            if let Some(drifted) = self.judge.cures.drifted.get_mut(&at) {
                drifted.before = None;
            }
        }
        self.doubt_wrong_diffs(at, wanted);
        if there.is_none() && self.is_to_go(at) {
            // The manual change has removed a resource that intent asks to remove.
            self.judge.cures.drifted.remove(&at);
        }
        let excuse = self.excuse(at);
        if excuse.is_some() {
            let hindered = &mut self.judge.cures.hindered[at];
            *hindered = now.max(*hindered);
        }
        let since = self.judge.cures.hindered[at].max(self.judge.owned);
        self.follow(at, wanted, since);
        let cures = &mut self.judge.cures;
        let Some(drifted) = cures.drifted.get_mut(&at) else {
            return;
        };
        let Some(before) = drifted.before else { return };
        drifted.edited |= wanted != Some(before.mark);
        if let Some(excuse) = excuse {
            *cures.excused.entry(excuse).or_default() += 1;
        }
        let (since, edited) = (since.max(drifted.since), drifted.edited);
        let long = now.since(since);
        if long > self.scenario.drift_period * 2 + PUSHED {
            let (there, wish) = (self.production.resources[at].clone(), self.plan.wishes[at]);
            let (pin, no) = (self.judge.pins.get(&at), self.intended_at(at));
            let what = format!(
                "asset/{at:02} was changed by hand and is not repaired for {long:?}; edited since: {edited}; settled: \
                 {before:?}; in production: {there:?}; wanted: {wish:?} at @{no:?}; pin: {pin:?}"
            );
            self.violated("R6", what);
        }
    }

    /// Forgets which content the owner settled, while the plugin returns wrong diffs: they may have shown the owner any
    /// content as in sync, also newer intent.
    fn doubt_wrong_diffs(&mut self, at: usize, wanted: Option<u64>) {
        let now = self.now;
        let lie = self.production.resources[at].lies;
        let lies = lie.is_some_and(|(lie, until)| lie != Lie::Dirty && now < until);
        if !lies {
            return;
        }
        self.judge.cures.settled[at] = None;
        let goes = self.is_to_go(at);
        if let Some(drifted) = self.judge.cures.drifted.get_mut(&at) {
            let known = drifted.before;
            drifted.before = known.filter(|it| !goes && wanted == Some(it.mark));
        }
    }

    /// Records that the content has changed since a manual change: the change is repaired.
    fn is_cured(&mut self, at: usize) {
        let drifted = self.judge.cures.drifted.remove(&at);
        let Some(drifted) = drifted.filter(|it| it.before.is_some()) else {
            return;
        };
        self.judge.look("cured");
        if drifted.edited {
            self.judge.look("cured under an edit");
        }
    }

    /// Records whether an asset has the wanted content, and whether the owner must know it by now.
    fn follow(&mut self, at: usize, wanted: Option<u64>, calm_since: Instant) {
        let now = self.now;
        let resource = &self.production.resources[at];
        // The plugin finds content that never settles different for ever, so its owner never knows it as settled.
        let is =
            |content: &Content| Some(content.mark) == wanted && content.bad != Bad::NeverSettles;
        let there = resource.content.filter(is);
        let steady = there.filter(|_| resource.applying.is_none() && resource.sent.is_empty());
        let Some(content) = steady else { return };
        let settled = self.judge.cures.settled[at].filter(|it| it.content == content);
        let mut settled = settled.unwrap_or(Settled {
            content,
            since: now,
            known: false,
        });
        let since = settled.since.max(calm_since);
        settled.known |= now.since(since) >= self.scenario.drift_period;
        self.judge.cures.settled[at] = Some(settled);
    }

    /// Mark of the content that an asset is meant to have, if there is one.
    pub(super) fn intended(&self, at: usize) -> Option<u64> {
        self.mark_at(self.intended_at(at)?, at)
    }

    /// Whether intent asks to remove the asset's resource.
    fn is_to_go(&self, at: usize) -> bool {
        let plan = self.intended_at(at).and_then(|no| self.plan_at(no));
        plan.is_some_and(|plan| plan.wishes[at].turndown)
    }

    /// The incarnation of an asset's intent: that of its pin, its group's head, or the newest one. `None` if it is
    /// unknown or there is none.
    fn intended_at(&self, at: usize) -> Option<u32> {
        let (wish, eye) = (&self.plan.wishes[at], &self.judge.eyes[at]);
        let newest = self.sealed.accepted.keys().last().copied()?;
        self.mark_at(newest, at)?;
        let head = wish.group.and_then(|group| self.judge.groups[group].head);
        match self.judge.pins.get(&at) {
            Some(Pinned::Moving) => None,
            Some(Pinned::At(no)) => Some(*no),
            _ if eye.nowhere => None,
            _ if !wish.pool => Some(newest),
            // R17: a governed asset never follows the newest incarnation by itself.
            _ if wish.group.is_some() => eye.pinned.map(|(no, _)| no).or(head),
            _ => eye.pinned.map(|(no, _)| no).or(Some(newest)),
        }
    }
}
