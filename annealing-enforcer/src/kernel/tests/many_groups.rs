//! R17: a takeover with many policy groups finds the assets of each group from the changes between heads.

use plugin_sdk::{FencingToken, GroupHead};
use prodspec_model::{Asset, AssetId, AssetRef, Incarnation, addons::RolloutPolicyRef};

use super::rig::*;
use crate::{
    config::Config,
    kernel::{Recovered, recover::EXAMINED},
};

fn governed(name: &str, policy: &str, size: u32) -> Asset {
    let policy = AssetRef::to(id(policy));
    let asset = thing(name, size).edit().addon(&RolloutPolicyRef { policy });
    asset.unwrap().build().unwrap()
}

fn taken_over(latest: &Incarnation, heads: Vec<(AssetId, Incarnation)>) -> Rig {
    let recovered = Recovered {
        heads: heads
            .into_iter()
            .map(|(policy, head)| (policy, GroupHead::At(head)))
            .collect(),
        ..Recovered::nothing(latest.clone())
    };
    let now = Rig::new(Vec::new()).now;
    Rig::recover(
        Config::default(),
        vec![kind()],
        FencingToken(2),
        recovered,
        now,
    )
}

fn pin_of(rig: &Rig, name: &str) -> String {
    rig.kernel.explain(rig.now, &id(name)).unwrap().pin
}

#[test]
fn r17_asset_that_left_its_group_without_an_owner_follows_the_newest_head_of_its_policies() {
    let first = seal(
        None,
        vec![governed("a", "p", 1), governed("b", "q", 1)],
        &[],
    );
    let second = seal(Some(&first), vec![governed("a", "q", 2)], &[]);
    let third = seal(Some(&second), vec![governed("a", "p", 3)], &[]);
    let latest = seal(Some(&third), vec![thing("a", 4)], &["b"]);
    let heads = vec![(id("p"), first), (id("q"), second.clone())];
    let rig = taken_over(&latest, heads);
    assert_eq!(
        pin_of(&rig, "a"),
        "at the head of `q`, its last completed rollout"
    );
    assert_eq!(
        pin_of(&rig, "b"),
        "at the head of `q`, its last completed rollout"
    );
    let explained = rig.kernel.explain(rig.now, &id("a")).unwrap();
    assert_eq!(explained.incarnation, Some(second.no()));
}

#[test]
fn r17_policy_not_named_at_its_own_head_governs_nothing() {
    let first = seal(None, vec![governed("a", "p", 1)], &[]);
    let second = seal(Some(&first), vec![governed("a", "q", 2)], &[]);
    let latest = seal(Some(&second), vec![thing("a", 3)], &[]);
    // The head of `p` moved to an incarnation where `a` names `q`.
    let rig = taken_over(&latest, vec![(id("p"), second), (id("q"), first)]);
    assert_eq!(pin_of(&rig, "a"), "latest");
}

/// Each of 800 groups has its head at an incarnation of its own, in which the ten assets of its group changed.
#[test]
fn r17_takeover_examines_each_change_once_however_many_groups_there_are() {
    const GROUPS: usize = 800;
    let policy = |group: usize| format!("policy{group:03}");
    let all = |group: usize, size| {
        let names = (0..10).map(move |n| format!("group{group:03}/a{n}"));
        names.map(move |name| governed(&name, &policy(group), size))
    };
    let assets = (0..GROUPS).flat_map(|group| all(group, 1)).collect();
    let mut newest = seal(None, assets, &[]);
    let mut heads = Vec::new();
    for group in 0..GROUPS {
        newest = seal(Some(&newest), all(group, 2).collect(), &[]);
        heads.push((id(&policy(group)), newest.clone()));
    }
    let before = EXAMINED.get();
    let rig = taken_over(&newest, heads);
    let examined = EXAMINED.get() - before;
    assert!(examined <= 2 * GROUPS * 10, "{examined} changes examined");
    assert_eq!(
        pin_of(&rig, "group007/a3"),
        "at the head of `policy007`, its last completed rollout"
    );
}
