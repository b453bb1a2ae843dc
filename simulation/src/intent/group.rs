//! Policy groups: their assets and their rollout policies.

use prodspec_model::{
    Asset, AssetId,
    rollout::{Amount, Canary, FirstTurnup, OnUnhealthy, RolloutPolicy, Wave},
};

use super::{Bad, Plan};
use crate::random::Random;

/// Names of the failure domains.
pub const CLUSTERS: [&str; 3] = ["as", "eu", "us"];

/// Number of the first policy asset, above the numbers of all other assets.
const FIRST: usize = 90;

/// One policy group of the intent.
#[derive(Debug, Clone)]
pub struct Group {
    /// Rollout policy of the group.
    pub policy: RolloutPolicy,
    /// Whether none of the group's assets has edges.
    pub loose: bool,
}

/// The id of a group's policy asset.
#[allow(clippy::expect_used, reason = "digits form a valid id")]
pub fn policy_id(group: usize) -> AssetId {
    AssetId::new(&format!("policy/{}", FIRST + group)).expect("digits form a valid asset id")
}

/// The group whose policy asset has this number; `None` for other assets.
pub fn policy_number(number: usize) -> Option<usize> {
    number.checked_sub(FIRST).filter(|group| *group < 2)
}

impl Group {
    /// Builds the policy asset of this group, whose number is `group`.
    #[allow(clippy::expect_used, reason = "all parts are built here and valid")]
    pub fn asset(&self, group: usize) -> Asset {
        let builder = Asset::builder(policy_id(group)).payload(&self.policy);
        builder
            .expect("the policy is valid")
            .build()
            .expect("the asset is complete")
    }

    /// Maximum total bake time of one rollout, in seconds.
    pub fn bakes(&self) -> u64 {
        let policy = &self.policy;
        let canary = policy.canary.as_ref().map_or(0, |canary| canary.bake_secs);
        let waves: u64 = policy.waves.iter().map(|wave| wave.bake_secs).sum();
        canary + waves + policy.bake_secs * (CLUSTERS.len() as u64 + 1)
    }
}

/// Puts some of the assets into groups; on some seeds there are no groups.
pub(super) fn choose(random: &mut Random, plan: &mut Plan, knit: u32) {
    let groups = [0, 0, 1, 1, 2][random.below(5)];
    for group in 0..groups {
        let loose = !random.per_mille(knit);
        let policy = draw_policy(random);
        plan.groups.push(Group { policy, loose });
        for at in 2..plan.schema() {
            let takes = plan.wishes[at].group.is_none() && random.per_mille(300);
            match (takes, loose) {
                (true, true) => plan.cut_loose(at, group),
                (true, false) if at >= 8 => plan.put_tree(at, group),
                _ => {}
            }
        }
    }
}

impl Plan {
    /// Gives an asset bad content of a random kind.
    pub fn spoil(&mut self, at: usize, random: &mut Random) {
        let wish = &mut self.wishes[at];
        wish.bad = [Bad::Errors, Bad::Unhealthy, Bad::NeverSettles][random.below(3)];
        wish.rev += 1;
    }

    /// Puts an asset into a group and removes all its edges.
    fn cut_loose(&mut self, at: usize, group: usize) {
        for other in 0..self.wishes.len() {
            let wish = &mut self.wishes[other];
            if other == at || wish.parent == Some(at) {
                (wish.parent, wish.edge) = (None, false);
            }
        }
        let wish = &mut self.wishes[at];
        (wish.schema, wish.loose) = (None, true);
        wish.join(group);
    }

    /// Puts an asset and its whole tree of capacity edges into a group, so that rollouts of different groups do not
    /// wait for each other.
    fn put_tree(&mut self, at: usize, group: usize) {
        let root = self.root(at);
        for other in 8..self.schema() {
            let free = self.wishes[other].group.is_none() && !self.wishes[other].loose;
            if free && self.root(other) == root {
                self.wishes[other].schema = None;
                self.wishes[other].join(group);
            }
        }
    }

    /// Whether two assets are the same or belong to the same tree of capacity edges.
    pub fn is_tied(&self, one: usize, other: usize) -> bool {
        self.root(one) == self.root(other)
    }

    /// The root of the tree of capacity edges to which this asset belongs.
    pub fn root(&self, at: usize) -> usize {
        self.wishes[at]
            .parent
            .map_or(at, |parent| self.root(parent))
    }
}

impl super::Wish {
    fn join(&mut self, group: usize) {
        (self.pool, self.steady, self.group) = (true, true, Some(group));
    }
}

/// Draws a rollout policy.
pub fn draw_policy(random: &mut Random) -> RolloutPolicy {
    let secs = |random: &mut Random| 5 + random.below(20) as u64;
    let mut policy = RolloutPolicy::default();
    if random.per_mille(500) {
        let first = random.below(CLUSTERS.len());
        let order = (0..CLUSTERS.len()).map(|at| CLUSTERS[(first + at) % CLUSTERS.len()]);
        policy.domains = order.take(1 + random.below(3)).map(Into::into).collect();
    }
    if random.per_mille(650) {
        let count = 1 + random.below(2) as u32;
        let bake_secs = secs(random);
        policy.canary = Some(Canary { count, bake_secs });
    }
    if random.per_mille(300) {
        let bake_secs = secs(random);
        let upto = [Amount::Count(3), Amount::Percent(50)][random.below(2)];
        policy.waves = vec![Wave { upto, bake_secs }];
    }
    if random.per_mille(600) {
        policy.bake_secs = secs(random);
    }
    policy.max_in_flight = random.per_mille(300).then(|| 1 + random.below(3) as u32);
    policy.max_unavailable = random.per_mille(300).then(|| 1 + random.below(2) as u32);
    if random.per_mille(250) {
        policy.on_unhealthy = OnUnhealthy::Stop;
    }
    if random.per_mille(300) {
        policy.first_turnup = FirstTurnup::Gradual;
    }
    policy
}

impl super::Wish {
    /// Replaces bad content by new good content; does nothing to good content.
    pub fn mend(&mut self) {
        if self.bad != Bad::Not {
            (self.bad, self.rev) = (Bad::Not, self.rev + 1);
        }
    }
}
