//! What may stand in the way of putting right a change by hand. Each excuse lasts for as long as it holds, and no longer:
//! the owner's time begins anew when it ends.

use std::time::Duration;

use annealing_enforcer::store::records::Scope;

use super::Pinned;
use crate::{
    checks,
    executor::Instant,
    intent::{Kind, id},
    process::TERM,
    world::State,
};

/// Every excuse.
pub const EXCUSES: [&str; 11] = [
    "no lease",
    "observes",
    "outage",
    "paused",
    "goes back",
    "marked or worked on",
    "lied about",
    "push open",
    "checks say no",
    "no room",
    "not its turn",
];

impl State {
    /// What stands in the way of `at` now, other than a call that went wrong.
    pub(super) fn excuse(&self, at: usize) -> Option<&'static str> {
        let hindered = self.hindrance(at);
        let holds: [(&'static str, bool); 8] = [
            // Who has not been heard of for so long starts nothing.
            ("no lease", !self.is_owned()),
            // It diffs, and never pushes.
            ("observes", self.observes()),
            // The provider answers nothing but errors.
            ("outage", self.now < self.out_until),
            // A person said so.
            ("paused", self.is_paused(at)),
            // It is on its way back to something else, which is no edit: that has a law of its own.
            ("goes back", self.goes_elsewhere(at)),
            // A check that applies to every cause.
            ("checks say no", checks::is_closed(self, at)),
            // What it had does not fit what its neighbours have: no order of pushes leads there (S4).
            ("no room", !self.has_room(at)),
            // R16: what comes first is being put right, or goes back, itself.
            ("not its turn", self.waits_for_its_turn(at)),
        ];
        let mut holds = holds.into_iter().filter(|(_, holds)| *holds);
        hindered.or(holds.next().map(|(name, _)| name))
    }

    /// What keeps every process from seeing, or changing, a resource.
    fn hindrance(&self, at: usize) -> Option<&'static str> {
        let (now, resource) = (self.now, &self.production.resources[at]);
        if now < resource.foreign_until || now < resource.busy_until {
            return Some("marked or worked on");
        }
        if resource.lies.is_some_and(|(_, until)| now < until) {
            return Some("lied about");
        }
        let under_way = resource.applying.is_some() || self.judge.open.contains_key(&at);
        under_way.then_some("push open")
    }

    fn is_owned(&self) -> bool {
        let owner = self.owner.and_then(|owner| self.beats.get(&owner));
        owner.is_some_and(|beat| self.now.since(*beat) < TERM * 2 / 3 - Duration::from_secs(1))
    }

    fn observes(&self) -> bool {
        let mut processes = self.processes.iter().flatten();
        processes.any(|process| Some(process.node) == self.owner && process.observes)
    }

    /// A pause ends by the owner's wall clock: when one has jumped, the judge cannot know when that is.
    fn is_paused(&self, at: usize) -> bool {
        let kind = self.production.resources[at].kind;
        let covers = |scope: &Scope| match scope {
            Scope::Partition => true,
            Scope::Type(name) => name.as_str() == kind.type_name(),
            Scope::Asset(asset) => *asset == id(at),
            _ => true,
        };
        let lasts = |until: Instant| {
            let endless = self.judge.jumped.is_some() && !self.healed;
            endless || self.now < until + Duration::from_secs(2)
        };
        let mut pauses = self.judge.cures.pauses.iter();
        pauses.any(|(scope, until)| covers(scope) && lasts(*until))
    }

    /// Whether what an asset was in sync with last would fit its neighbours as they are.
    fn has_room(&self, at: usize) -> bool {
        let drifted = self.judge.cures.drifted.get(&at);
        let Some(before) = drifted.and_then(|it| it.before) else {
            return true;
        };
        let there = self.production.resources[at].content;
        let has = |other: usize| self.production.resources[other].content;
        let fits = before.uses.is_none_or(|(provider, uses)| {
            let already = there.and_then(|it| it.uses);
            let already = already.filter(|(of, _)| *of == provider);
            let already = already.map_or(0, |(_, uses)| uses);
            let others = self.production.used(provider) - already;
            uses <= already || others + uses <= has(provider).map_or(0, |it| it.own)
        });
        let runs = before.schema.is_none_or(|schema| {
            let newest = has(schema).map_or(0, |it| it.version);
            before.version <= newest
        });
        let kept =
            before.own >= self.production.used(at) || there.is_none_or(|it| it.own <= before.own);
        fits && runs && kept
    }

    fn goes_elsewhere(&self, at: usize) -> bool {
        let drifted = self.judge.cures.drifted.get(&at);
        let before = drifted.and_then(|it| it.before).map(|it| it.mark);
        self.is_taken_back(at) && before != self.intended(at)
    }

    /// Whether its pin was moved for the sake of going back, by a person or by its rollout.
    fn is_taken_back(&self, at: usize) -> bool {
        let pinned = matches!(self.judge.pins.get(&at), Some(Pinned::At(_)));
        self.judge.eyes[at].goes_back || pinned
    }

    fn waits_for_its_turn(&self, at: usize) -> bool {
        let Some(first) = self.plan.wishes[at].order else {
            return false;
        };
        let resource = &self.production.resources[first];
        if resource.kind == Kind::Concept {
            return false;
        }
        let synced = resource.content.map(|it| it.mark) == self.intended(first);
        let by_hand = self.judge.cures.drifted.contains_key(&first);
        self.hindrance(first).is_some() || (!synced && (by_hand || self.is_taken_back(first)))
    }

    /// A call about an asset went wrong, or may take until then: the asset or the neighbour that asked about it asks again.
    pub fn hindered(&mut self, at: usize, long: Duration) {
        let until = self.now + long;
        for other in 0..self.plan.wishes.len() {
            let wish = &self.plan.wishes[other];
            let near = other == at
                || wish.order == Some(at)
                || wish.schema == Some(at)
                || self.plan.wishes[at].schema == Some(other)
                || self.plan.is_tied(other, at);
            if near {
                let hindered = &mut self.judge.cures.hindered[other];
                *hindered = until.max(*hindered);
            }
        }
    }

    /// A person asks for a pause.
    pub fn paused(&mut self, scope: Scope, until: Instant) {
        self.judge.cures.pauses.push((scope, until));
    }
}
