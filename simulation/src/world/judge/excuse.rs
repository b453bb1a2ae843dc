//! Excuses: conditions that may delay the repair of a manual change. While an excuse holds, the time for the repair
//! does not run; it begins anew when the excuse ends.

use std::time::Duration;

use annealing_enforcer::store::records::Scope;

use super::Pinned;
use crate::{
    deadlines::TERM,
    executor::Instant,
    gates::ALWAYS,
    intent::{Kind, number},
    world::State,
};

/// Names of all excuses, as in counters.
pub const EXCUSES: [&str; 12] = [
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
    "renamed",
];

impl State {
    /// The excuse that holds for `at` now, if any; failed calls are recorded separately.
    pub(super) fn excuse(&self, at: usize) -> Option<&'static str> {
        let hindered = self.hindrance(at);
        let holds: [(&'static str, bool); 9] = [
            // Without a recent heartbeat the owner starts no push.
            ("no lease", !self.is_owned()),
            // The owner runs in observe-only mode.
            ("observes", self.observes()),
            // Every call to the provider fails.
            ("outage", self.now < self.out_until),
            // An operator paused pushes.
            ("paused", self.is_paused(at)),
            // A rollback moves it to other content. That is no edit, and other conditions cover it.
            ("goes back", self.goes_elsewhere(at)),
            // The check for every cause delays it.
            ("checks say no", self.gates.is_closed(ALWAYS, at, self.now)),
            // Its former content does not fit its neighbours' contents: no order of pushes leads there (S4).
            ("no room", !self.has_room(at)),
            // R16: the asset that comes first is being repaired or rolled back itself.
            ("not its turn", self.waits_for_its_turn(at)),
            // R49: under its new id it has not been in sync, so there is no content to restore.
            ("renamed", self.renaming.contains(&at)),
        ];
        let mut holds = holds.into_iter().filter(|(_, holds)| *holds);
        hindered.or(holds.next().map(|(name, _)| name))
    }

    /// The excuse that keeps every process from diffing or pushing a resource, if any.
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

    /// Whether an operator's pause covers the asset. A pause ends by the owner's wall clock, so after a jump of a clock
    /// the judge does not know its end.
    fn is_paused(&self, at: usize) -> bool {
        let kind = self.production.resources[at].kind;
        let covers = |scope: &Scope| match scope {
            Scope::Partition => true,
            Scope::Type(name) => name.as_str() == kind.type_name(),
            Scope::Asset(asset) => number(asset.as_str()) == at,
            _ => true,
        };
        let lasts = |until: Instant| {
            let endless = self.judge.jumped.is_some() && !self.healed;
            endless || self.now < until + Duration::from_secs(2)
        };
        let mut pauses = self.judge.cures.pauses.iter();
        pauses.any(|(scope, until)| covers(scope) && lasts(*until))
    }

    /// Whether the content with which an asset was last in sync would fit its neighbours' current contents.
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

    /// Whether an asset's pin was moved back, by an operator or by its rollout.
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

    /// Records that a call about an asset fails, or takes `long`. The repair of the asset and of its neighbours may be
    /// delayed by it.
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

    /// Records a pause that an operator asks for.
    pub fn paused(&mut self, scope: Scope, until: Instant) {
        self.judge.cures.pauses.push((scope, until));
    }
}
