//! The wish for each asset. Providers have what their consumers use, whatever is edited.

use super::{Bad, Group, Kind, group};
use crate::random::Random;

/// Assets in all, enforced or not.
const LEAST: usize = 22;
const MOST: usize = 34;

/// What is wanted of one asset.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// How it is enforced.
    pub kind: Kind,
    /// Who provides for it, if it uses anything.
    pub parent: Option<usize>,
    /// Whose version has to be at least its own.
    pub schema: Option<usize>,
    /// What has to be in sync before it changes: of another tree, with a lower root.
    pub order: Option<usize>,
    /// The edge to that is there.
    pub ordered: bool,
    /// It has no neighbours, and its plugin may lie.
    pub loner: bool,
    /// It is part of intent.
    pub exists: bool,
    /// It is to be taken out of production.
    pub turndown: bool,
    /// The edge to its parent is there.
    pub edge: bool,
    /// What it uses of its parent.
    pub uses: u64,
    /// What it has beyond what is used of it.
    pub slack: u64,
    /// What runs.
    pub version: u64,
    /// Content without effects.
    pub rev: u64,
    /// Whether validators accept it.
    pub valid: bool,
    /// What production makes of its content.
    pub bad: Bad,
    /// It may belong to a policy group: nobody but the strategist moves its pin, and its plugin does not lie.
    pub pool: bool,
    /// It has no edges, so that it may join and leave groups by itself.
    pub loose: bool,
    /// The policy group that it belongs to.
    pub group: Option<usize>,
    /// It has been in its group from the beginning.
    pub steady: bool,
    /// Where it runs.
    pub cluster: usize,
}

/// Everybody's wishes.
#[derive(Debug, Clone)]
pub struct Plan {
    /// By asset number.
    pub wishes: Vec<Wish>,
    /// The policy groups.
    pub groups: Vec<Group>,
    /// Assets without a group, of the first and of the second group come after those of a lower rank, if after any.
    pub ranks: [usize; 3],
}

impl Plan {
    /// A forest of consumers and providers, some loners, some concepts that are only modelled; the last asset holds the
    /// version that others follow.
    /// With edges between the assets of a policy group in `knit` of a thousand.
    pub fn choose(random: &mut Random, knit: u32) -> Self {
        let count = LEAST + random.below(MOST - LEAST);
        let schema = count - 1;
        let wishes = (0..count).map(|at| Self::wish(random, at, schema));
        let mut plan = Self {
            wishes: wishes.collect(),
            groups: Vec::new(),
            ranks: [0; 3],
        };
        plan.wishes[schema].version = 9;
        group::choose(random, &mut plan, knit);
        plan
    }

    fn wish(random: &mut Random, at: usize, schema: usize) -> Wish {
        let concept = at < 2;
        let loner = !concept && at < 8 || at == schema;
        let kind = match random.below(10) {
            _ if concept => Kind::Concept,
            0..=3 => Kind::Guarded,
            4..=6 => Kind::Advisory,
            _ => Kind::Gradual,
        };
        let free = concept || loner;
        let parent = (!free && at > 8 && !random.per_mille(150)).then(|| 8 + random.below(at - 8));
        Wish {
            kind,
            parent,
            schema: (!free && random.per_mille(400)).then_some(schema),
            order: None,
            ordered: false,
            loner,
            exists: concept || random.per_mille(900),
            turndown: false,
            edge: parent.is_some() && random.per_mille(850),
            uses: 1 + random.below(20) as u64,
            slack: random.below(4) as u64,
            version: random.below(4) as u64,
            rev: 0,
            valid: true,
            bad: Bad::Not,
            pool: false,
            loose: false,
            group: None,
            steady: false,
            cluster: random.below(group::CLUSTERS.len()),
        }
    }

    /// Draws what has to be in sync first for some assets, in other trees and policy groups: always in a tree with a lower
    /// root, so that no wait ends where it began. What holds the version comes after nothing. If groups are `fluid`, assets
    /// that may meet in one have no such edge: a rollout takes along what those that it moves wait for.
    pub fn put_in_order(&mut self, random: &mut Random, fluid: bool) {
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        self.ranks = orders[random.below(orders.len())];
        for at in 2..self.schema() {
            let meet = |other: usize| fluid && self.wishes[at].loose && self.wishes[other].loose;
            let lower = |other: &usize| self.root(*other) < self.root(at) && !meet(*other);
            let fits: Vec<usize> = (2..self.schema()).filter(lower).collect();
            let wish = &mut self.wishes[at];
            wish.order = random.pick(&fits).filter(|_| random.per_mille(600));
            wish.ordered = random.per_mille(850);
        }
    }

    /// What has to be in sync before `at` changes. Groups come one after the other: what is new in one of two that wait for
    /// each other may have its turn only after what waits for it, which only an edit could end. Within a group its
    /// rollout says what comes first.
    pub fn order(&self, at: usize) -> Option<usize> {
        let wish = &self.wishes[at];
        let before = wish.order?;
        let rank = |group: Option<usize>| self.ranks[group.map_or(0, |group| group + 1)];
        let (group, its) = (wish.group, self.wishes[before].group);
        let apart = rank(its) < rank(group) || (its.is_none() && group.is_none());
        (wish.ordered && apart && !wish.turndown && self.is_up(before)).then_some(before)
    }

    /// Whether `at` uses something of its parent, orphans included: production still has them.
    pub fn uses(&self, at: usize) -> Option<(usize, u64)> {
        let wish = &self.wishes[at];
        let parent = wish.parent?;
        (wish.edge && !wish.turndown && self.is_up(parent)).then_some((parent, wish.uses))
    }

    /// Part of intent, and not on its way out.
    pub fn is_up(&self, at: usize) -> bool {
        self.wishes[at].exists && !self.wishes[at].turndown
    }

    /// What it needs to have: what is used of it, and some more.
    pub fn capacity(&self, at: usize) -> u64 {
        let used: u64 = (0..self.wishes.len())
            .filter_map(|consumer| self.uses(consumer))
            .filter(|(provider, _)| *provider == at)
            .map(|(_, uses)| uses)
            .sum();
        used + self.wishes[at].slack
    }

    /// Whether anybody in intent, or left behind by it, uses `at`.
    pub fn is_used(&self, at: usize) -> bool {
        (0..self.wishes.len()).any(|other| self.wishes[other].parent == Some(at))
    }

    /// The asset that holds the version.
    pub fn schema(&self) -> usize {
        self.wishes.len() - 1
    }
}
