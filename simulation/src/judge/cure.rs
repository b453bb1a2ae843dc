//! What the judge asks of changes by hand: each is put right in time, whatever is edited meanwhile (R6, R16).
//!
//! In time is within two drift periods of one owner's time, and what a check and a push take. What an asset was in sync
//! with is what production had, and intent wanted, for a whole drift period without trouble: from then on the owner knows.

use std::{collections::BTreeMap, time::Duration};

use annealing_enforcer::store::records::Scope;
use plugin_sdk::Cause;

use super::{Call, Pinned};
use crate::{
    executor::Instant,
    intent::Kind,
    production::{Content, Lie},
    world::State,
};

/// How long checks, claims and pushes take beside each other, once an asset has been looked at.
const PUSHED: Duration = Duration::from_secs(30);

/// What the judge remembers of changes by hand.
#[derive(Debug)]
pub struct Cures {
    /// What people changed by hand and nothing has changed since, by asset.
    pub(super) drifted: BTreeMap<usize, Drifted>,
    /// The content with which each asset was in sync last.
    settled: Vec<Option<Settled>>,
    /// When something last stood in the way of each asset.
    pub(super) hindered: Vec<Instant>,
    /// Pauses that people asked for, and until when.
    pub(super) pauses: Vec<(Scope, Instant)>,
    /// How often what stood in the way of a cure, by name.
    pub excused: BTreeMap<&'static str, u64>,
}

/// A change by hand.
#[derive(Debug)]
pub(super) struct Drifted {
    since: Instant,
    /// What there is since.
    after: Option<Content>,
    /// The content that it was in sync with before, if that is known.
    pub(super) before: Option<Content>,
    /// Its intent was another than that while it lasted.
    edited: bool,
}

/// A content that an asset has, and is meant to have.
#[derive(Debug, Clone, Copy)]
struct Settled {
    content: Content,
    since: Instant,
    /// For so long that its owner must have seen it.
    known: bool,
}

impl Cures {
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
    /// A person has changed a resource by hand that had `before`.
    pub fn drifted(&mut self, at: usize, before: Option<Content>) {
        let (now, after) = (self.now, self.production.resources[at].content);
        let cures = &mut self.judge.cures;
        // Twice is as it was.
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

    /// A push begins. From a push of other intent on, production may have that or what it had: no content is known.
    pub(super) fn begins_for(&mut self, at: usize, call: &Call<'_>) {
        if matches!(call.cause, Some(Cause::Intent | Cause::Emergency)) {
            self.judge.cures.settled[at] = None;
            if let Some(drifted) = self.judge.cures.drifted.get_mut(&at) {
                drifted.before = None;
            }
        }
    }

    /// A second has passed.
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
            // What left intent, or is nowhere, is left alone, and begins anew when it is back.
            self.judge.cures.settled[at] = None;
            if let Some(drifted) = self.judge.cures.drifted.get_mut(&at) {
                drifted.before = None;
            }
        }
        self.doubt_a_liar(at, wanted);
        if there.is_none() && self.is_to_go(at) {
            // People have done what was intended.
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
                "asset/{at:02} was changed by hand, and nothing puts it right for {long:?}; edited since: {edited}; \
                 {before:?} was settled, there is {there:?}; it is meant to be {wish:?} as of @{no:?}, pinned {pin:?}"
            );
            self.violated("R6", what);
        }
    }

    /// While a plugin lies, its owner may take anything for what is there, newer intent too.
    fn doubt_a_liar(&mut self, at: usize, wanted: Option<u64>) {
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

    /// What was changed by hand has changed again.
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

    /// Sees whether an asset has what it is meant to have, and has had it for long.
    fn follow(&mut self, at: usize, wanted: Option<u64>, calm_since: Instant) {
        let now = self.now;
        let resource = &self.production.resources[at];
        let is = |content: &Content| Some(content.mark) == wanted;
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

    /// The content that an asset is meant to have.
    pub(super) fn intended(&self, at: usize) -> Option<u64> {
        self.mark_at(self.intended_at(at)?, at)
    }

    /// Whether an asset is meant to be taken out of production.
    fn is_to_go(&self, at: usize) -> bool {
        let plan = self.intended_at(at).and_then(|no| self.plan_at(no));
        plan.is_some_and(|plan| plan.wishes[at].turndown)
    }

    /// The incarnation that says what an asset is meant to be: its pin, its group's head or the newest.
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
            // R17: what a policy governs is never at the newest by itself.
            _ if wish.group.is_some() => eye.pinned.map(|(no, _)| no).or(head),
            _ => eye.pinned.map(|(no, _)| no).or(Some(newest)),
        }
    }
}
