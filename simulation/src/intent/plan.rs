//! The plan: a wish for each asset. The capacity of a provider always covers its consumers, whatever is edited.

use super::{Bad, Group, Kind, group};
use crate::random::Random;

/// Minimum number of assets, enforced or not.
const LEAST: usize = 22;
/// Upper bound of the number of assets, exclusive.
const MOST: usize = 34;

/// The wanted state of one asset.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Kind of the asset, such as guarded.
    pub kind: Kind,
    /// Number of the provider that the asset may use; `None` if it never has one.
    pub parent: Option<usize>,
    /// Number of the schema: the asset whose version must be at least this version. `None` without one.
    pub schema: Option<usize>,
    /// Number of an asset that has to be in sync before this one changes. It is in another tree, with a lower root.
    pub order: Option<usize>,
    /// Whether intent has the edge to [`Wish::order`].
    pub ordered: bool,
    /// Whether the asset never has neighbours. The diffs of such assets may be wrong.
    pub loner: bool,
    /// Whether the asset is part of intent.
    pub exists: bool,
    /// Whether the asset has its second id.
    pub renamed: bool,
    /// Whether intent asks to remove the asset's resource from production.
    pub turndown: bool,
    /// Whether intent has the edge to [`Wish::parent`].
    pub edge: bool,
    /// Capacity that the asset uses of its parent.
    pub uses: u64,
    /// Capacity of the asset beyond the demand of its consumers.
    pub slack: u64,
    /// Version that is meant to run.
    pub version: u64,
    /// Revision: changing it changes the content without any effect.
    pub rev: u64,
    /// Whether the validators accept the asset.
    pub valid: bool,
    /// How production behaves with the asset's content.
    pub bad: Bad,
    /// Whether the asset may belong to a policy group. Then only the strategist moves its pin, and its diffs are never
    /// wrong.
    pub pool: bool,
    /// Whether the asset never has edges, so that it may join and leave groups on its own.
    pub loose: bool,
    /// Number of the asset's policy group; `None` without one.
    pub group: Option<usize>,
    /// Whether the asset has been in its group from the beginning.
    pub steady: bool,
    /// Index of the asset's failure domain in [`CLUSTERS`](super::CLUSTERS).
    pub cluster: usize,
}

/// The whole intent, before it is sealed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The wishes, by asset number.
    pub wishes: Vec<Wish>,
    /// The policy groups, by group number.
    pub groups: Vec<Group>,
    /// Ranks of the assets without a group, of the first and of the second group. Between them, edges of order lead to
    /// lower ranks only, unless groups are [`Plan::mutual`].
    pub ranks: [usize; 3],
    /// Whether groups may wait for each other.
    pub mutual: bool,
}

impl Plan {
    /// Draws a forest of consumers and providers, some assets without neighbours, and two concepts that are only
    /// modelled. The last asset is the schema, whose version limits the others. The assets of a policy group have edges
    /// in `knit` of a thousand groups.
    pub fn choose(random: &mut Random, knit: u32) -> Self {
        let count = LEAST + random.below(MOST - LEAST);
        let schema = count - 1;
        let wishes = (0..count).map(|at| Self::wish(random, at, schema));
        let mut plan = Self {
            wishes: wishes.collect(),
            groups: Vec::new(),
            ranks: [0; 3],
            mutual: false,
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
            renamed: false,
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

    /// Draws edges of order between trees and policy groups. An edge always leads to a tree with a lower root, so that
    /// there are no cycles; the schema has none. If groups are `fluid`, assets that may join the same group get no
    /// such edge, because a rollout also selects the assets for which its targets wait. If they are [`Plan::mutual`],
    /// the assets of a group wait for those of the other one.
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
            let group = self.wishes[at].group.filter(|_| self.mutual);
            let across = |other: usize| {
                let its = self.wishes[other].group;
                group.is_none() || (its.is_some() && its != group)
            };
            let lower = |other: &usize| {
                self.root(*other) < self.root(at) && !meet(*other) && across(*other)
            };
            let fits: Vec<usize> = (2..self.schema()).filter(lower).collect();
            let wish = &mut self.wishes[at];
            wish.order = random.pick(&fits).filter(|_| random.per_mille(600));
            wish.ordered = random.per_mille(850);
        }
    }

    /// The asset that has to be in sync before `at` changes, if any. Between groups, edges lead to lower ranks only: if
    /// two groups wait for each other, one can need an asset that the other selects only later, and only an edit or a
    /// rollback ends that. Within a group the rollout decides the order.
    pub fn order(&self, at: usize) -> Option<usize> {
        let wish = &self.wishes[at];
        let before = wish.order?;
        let rank = |group: Option<usize>| self.ranks[group.map_or(0, |group| group + 1)];
        let (group, its) = (wish.group, self.wishes[before].group);
        let lower = rank(its) < rank(group) || (self.mutual && its != group);
        let apart = lower || (its.is_none() && group.is_none());
        (wish.ordered && apart && !wish.turndown && self.is_up(before)).then_some(before)
    }

    /// The provider of `at` and the capacity used; `None` if it uses none. Orphans count, because production still has
    /// them.
    pub fn uses(&self, at: usize) -> Option<(usize, u64)> {
        let wish = &self.wishes[at];
        let parent = wish.parent?;
        (wish.edge && !wish.turndown && self.is_up(parent)).then_some((parent, wish.uses))
    }

    /// Whether an asset is part of intent without a turndown.
    pub fn is_up(&self, at: usize) -> bool {
        self.wishes[at].exists && !self.wishes[at].turndown
    }

    /// The capacity that asset `at` needs: the demand of its consumers and its slack.
    pub fn capacity(&self, at: usize) -> u64 {
        let used: u64 = (0..self.wishes.len())
            .filter_map(|consumer| self.uses(consumer))
            .filter(|(provider, _)| *provider == at)
            .map(|(_, uses)| uses)
            .sum();
        used + self.wishes[at].slack
    }

    /// Whether any asset, in intent or not, may use `at` as its provider.
    pub fn is_used(&self, at: usize) -> bool {
        (0..self.wishes.len()).any(|other| self.wishes[other].parent == Some(at))
    }

    /// Number of the schema: the asset whose version limits the versions of others.
    pub fn schema(&self) -> usize {
        self.wishes.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether assets of each group wait for assets of the other one.
    fn wait_for_each_other(seed: u64, mutual: bool) -> bool {
        let mut random = Random::new(seed);
        let mut plan = Plan::choose(&mut random, 0);
        plan.mutual = mutual;
        plan.put_in_order(&mut random, false);
        let waits = |one: usize, other: usize| {
            let before = |at| plan.order(at).map(|before| (at, before));
            let mut edges = (0..plan.wishes.len()).filter_map(before);
            edges.any(|(at, before)| {
                plan.wishes[at].group == Some(one) && plan.wishes[before].group == Some(other)
            })
        };
        waits(0, 1) && waits(1, 0)
    }

    #[test]
    fn only_mutual_groups_wait_for_each_other() {
        let count = |mutual| {
            (0..100)
                .filter(|seed| wait_for_each_other(*seed, mutual))
                .count()
        };
        assert_eq!(count(false), 0);
        assert!(count(true) > 10, "{}", count(true));
    }
}
