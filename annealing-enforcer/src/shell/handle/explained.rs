//! The explanation of an asset, followed through its waits: chains, cycles and dead ends.

use std::collections::{BTreeSet, VecDeque};

use control_plane_store::records::Decision;
use plugin_sdk::{CheckName, Delay, Recheck};
use prodspec_model::AssetId;
use serde::{Deserialize, Serialize};

use crate::kernel::{Explanation, Waiting};

/// The explanation of an asset's state, followed through its waits to root causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The explanations of the asset itself, of the assets that it waits for, and of those that they wait for in turn.
    pub chain: Vec<Explanation>,
    /// The assets of a wait cycle in the chain; empty without one. None of them can be pushed before an operator acts.
    pub cycle: Vec<AssetId>,
    /// Waits in the chain that no push of any asset can end at the present pins.
    pub dead_ends: Vec<DeadEnd>,
    /// The last decisions on the asset itself, oldest first.
    pub decisions: Vec<Decision>,
    /// Why the decisions on record cannot be read. `None`: they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// A wait that only an edit, a rollout or a command of an operator can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadEnd {
    /// Id of the asset that waits.
    pub asset: AssetId,
    /// The check whose delay makes the asset wait.
    pub check: CheckName,
    /// The reason that the check gives for its delay.
    pub reason: String,
    /// The action that would end the wait, such as an edit.
    pub way_out: String,
}

impl Explained {
    /// Finds the cycle and the dead ends in `chain`.
    pub(super) fn of(
        chain: Vec<Explanation>,
        decisions: Vec<Decision>,
        unreadable: Option<String>,
    ) -> Self {
        Self {
            cycle: cycle(&chain),
            dead_ends: chain.iter().flat_map(dead_ends).collect(),
            chain,
            decisions,
            unreadable,
        }
    }
}

/// The waits of one asset that no push ends.
fn dead_ends(found: &Explanation) -> impl Iterator<Item = DeadEnd> {
    let delays = match &found.waiting {
        Some(Waiting::Checks(delays)) => delays.as_slice(),
        _ => &[],
    };
    delays.iter().filter_map(|delay| {
        Some(DeadEnd {
            asset: found.asset.clone(),
            check: delay.check.clone(),
            reason: delay.reason.clone(),
            way_out: delay.dead_end()?.to_owned(),
        })
    })
}

/// The assets that an asset waits for.
pub(super) fn waits_for(found: &Explanation) -> Vec<AssetId> {
    let delays = match &found.waiting {
        Some(Waiting::Checks(delays)) => delays,
        Some(Waiting::Others { by, .. }) => return by.clone(),
        _ => return Vec::new(),
    };
    let named = |delay: &Delay| match &delay.recheck {
        Recheck::WhenSettled(asset) => Some(asset.clone()),
        _ => None,
    };
    delays.iter().filter_map(named).collect()
}

/// The assets that an asset cannot do without: of several holders of a claim, each may give it back, so none counts.
fn needs(found: &Explanation) -> Vec<AssetId> {
    match &found.waiting {
        Some(Waiting::Others { by, .. }) if by.len() > 1 => Vec::new(),
        _ => waits_for(found),
    }
}

/// A cycle of assets in `chain`: each waits for the next, and the last for the first. Empty if there is none.
fn cycle(chain: &[Explanation]) -> Vec<AssetId> {
    let through = |start: &Explanation| way_back(chain, &start.asset);
    chain.iter().find_map(through).unwrap_or_default()
}

/// The shortest path from `start` along waits to an asset that waits for `start`.
fn way_back(chain: &[Explanation], start: &AssetId) -> Option<Vec<AssetId>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start.clone()]]);
    while let Some(way) = ways.pop_front() {
        let last = chain.iter().find(|known| way.last() == Some(&known.asset));
        for next in last.map(needs).unwrap_or_default() {
            if next == *start {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push_back([&way[..], &[next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{AssetStatus, Interventions};

    fn id(name: &str) -> AssetId {
        AssetId::new(name).unwrap()
    }

    fn link(name: &str, waiting: Waiting) -> Explanation {
        Explanation {
            asset: id(name),
            type_name: "test.v1.Thing".parse().unwrap(),
            status: AssetStatus::Waiting,
            incarnation: None,
            pin: "latest".into(),
            cause: None,
            trigger: control_plane_store::records::Trigger::Asked,
            change: None,
            waiting: Some(waiting),
            ahead: None,
            next_look: None,
            failures: 0,
            interventions: Interventions::default(),
        }
    }

    fn behind(by: &[&str]) -> Waiting {
        Waiting::Others {
            why: "`domain` is taken".into(),
            by: by.iter().map(|name| id(name)).collect(),
        }
    }

    fn until_settled(name: &str) -> Waiting {
        Waiting::Checks(vec![
            Delay::new("not yet", Recheck::WhenSettled(id(name))).check("order"),
        ])
    }

    #[test]
    fn dead_end_is_reported_with_its_way_out() {
        let mut link = link("a", until_settled("b"));
        assert_eq!(dead_ends(&link).count(), 0);
        if let Some(Waiting::Checks(delays)) = &mut link.waiting {
            delays[0].evidence = serde_json::json!({ plugin_sdk::DEAD_END: "remove the edge" });
        }
        let ends: Vec<_> = dead_ends(&link)
            .map(|end| (end.asset, end.way_out))
            .collect();
        assert_eq!(ends, [(id("a"), "remove the edge".to_owned())]);
    }

    #[test]
    fn claim_holder_is_followed_and_may_close_a_cycle() {
        let parked = link("a", behind(&["b"]));
        assert_eq!(waits_for(&parked), [id("b")]);
        assert_eq!(
            cycle(&[parked, link("b", until_settled("a"))]),
            [id("a"), id("b")]
        );
    }

    #[test]
    fn one_of_several_claim_holders_closes_no_cycle() {
        let parked = link("a", behind(&["b", "c"]));
        assert_eq!(waits_for(&parked), [id("b"), id("c")]);
        let waits = link("b", until_settled("a"));
        assert!(cycle(&[parked, waits]).is_empty());
    }
}
