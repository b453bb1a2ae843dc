//! The rules of the waits (R36), and what the waits share.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use control_plane_runtime::Kernel as _;
use plugin_sdk::{
    ChangeId, Follow, Mono, Now, Pin, Relation, Standing, SyncState, plugin,
    port::{SettleRequest, Settlement, WaitNo},
    testing,
};
use prodspec_model::{
    Asset, AssetId, AssetRef, Incarnation, IncarnationNo, addons::RolloutPolicyRef,
};

use super::{
    groups::{AGAIN, SELDOM},
    kernel::{Effects, Event, Kernel},
    rests::Left,
};

fn id(name: &str) -> AssetId {
    AssetId::new(name).unwrap()
}

/// The change of wait number `no`.
fn change(no: u64) -> ChangeId {
    ChangeId::from(u128::from(no))
}

/// An asset with this content, governed by the policy `slow` if its name says so.
fn asset(name: &str, content: &str) -> Asset {
    let thing = testing::Thing {
        content: content.into(),
    };
    let asset = Asset::builder(id(name)).payload(&thing).unwrap();
    let policy = RolloutPolicyRef {
        policy: AssetRef::to(id("slow")),
    };
    let asset = match name.starts_with("slow/") {
        true => asset.addon(&policy).unwrap(),
        false => asset,
    };
    asset.build().unwrap()
}

/// All assets of the tests, with the content `new` from incarnation `no` on.
fn incarnation(no: u32, content: &str) -> Incarnation {
    let names = ["a", "b", "c", "slow/a", "slow/b"];
    testing::incarnation(no, names.map(|name| asset(name, content)))
}

fn enforced(name: &str, content: &str, in_sync_at: Option<u32>) -> (AssetId, Standing) {
    let since = testing::NOW;
    let state = SyncState::InSync { since };
    let content = asset(name, content).digest();
    let mut standing = Standing::at(Pin::Default, Some(content), state);
    standing.in_sync_at = in_sync_at.map(IncarnationNo);
    (id(name), standing)
}

/// A kernel, and all that it has said.
struct Rig {
    kernel: Kernel,
    now: Mono,
    ended: BTreeMap<u64, Result<Settlement, plugin::Error>>,
    followed: BTreeSet<AssetId>,
    /// The number of times that each asset was followed.
    follows: BTreeMap<AssetId, usize>,
    /// The question about each policy group.
    questions: BTreeMap<AssetId, IncarnationNo>,
    asked: usize,
}

impl Rig {
    fn new() -> Self {
        let mut rig = Self {
            kernel: Kernel::default(),
            now: Mono(1 << 40),
            ended: BTreeMap::new(),
            followed: BTreeSet::new(),
            follows: BTreeMap::new(),
            questions: BTreeMap::new(),
            asked: 0,
        };
        rig.step(Event::Took(incarnation(1, "old")));
        rig
    }

    fn step(&mut self, event: Event) {
        let now = Now {
            mono: self.now,
            wall: testing::NOW,
        };
        let mut out = Effects::default();
        self.kernel.step(now, event, &mut out);
        for (wait, end) in out.ended {
            assert!(self.ended.insert(wait.0, end).is_none(), "{wait:?} twice");
        }
        for what in out.follow {
            match what {
                Follow::Assets(assets) => {
                    for asset in assets {
                        *self.follows.entry(asset.clone()).or_default() += 1;
                        self.followed.insert(asset);
                    }
                }
                Follow::Not(assets) => {
                    for asset in assets {
                        assert!(self.followed.remove(&asset), "{asset}");
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        for (policy, at) in out.questions {
            self.questions.remove(&policy);
            if let Some(at) = at {
                self.asked += 1;
                self.questions.insert(policy, at);
            }
        }
    }

    /// A wait of a holder of its own.
    fn settle(&mut self, no: u64, assets: &[&str]) {
        let request = SettleRequest {
            change: change(no),
            assets: assets.iter().map(|name| id(name)).collect(),
        };
        self.step(Event::Settle(WaitNo(no), request, no));
    }

    fn forget(&mut self, no: u64) {
        self.step(Event::Forget(WaitNo(no)));
    }

    /// A run that starts now seals this incarnation.
    fn run(&mut self, no: u32) {
        assert!(self.kernel.run_to_await().is_some());
        self.step(Event::Ran(Some(IncarnationNo(no))));
    }

    /// A wait that follows its assets, whose content is `new` in incarnation 2.
    fn following(&mut self, no: u64, assets: &[&str]) {
        self.settle(no, assets);
        self.run(2);
        self.step(Event::Took(incarnation(2, "new")));
    }

    fn stands<const N: usize>(&mut self, all: [(AssetId, Standing); N]) {
        self.step(Event::Stands(all.into()));
    }

    fn rests(&mut self, left: &[&str]) {
        self.questions.remove(&id("slow")).unwrap();
        let left = (!left.is_empty()).then(|| Left {
            assets: left.iter().map(|name| id(name)).collect(),
            why: "it stopped".into(),
        });
        self.step(Event::Rests(id("slow"), left));
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.step(Event::Tick);
    }

    /// Waits that are over, with their ends.
    fn ended(&self) -> Vec<(u64, Settlement)> {
        let ended = self.ended.iter();
        ended.map(|(no, end)| (*no, end.clone().unwrap())).collect()
    }

    /// Nothing is kept of waits that are over.
    fn is_empty(&self) -> bool {
        self.followed.is_empty() && self.questions.is_empty() && self.kernel.is_empty()
    }
}

fn left_behind(name: &str) -> Settlement {
    Settlement::RolledBack(format!("{name} was left behind: it stopped"))
}

#[test]
fn r36_wait_is_done_when_each_of_its_assets_was_in_sync_since() {
    let mut rig = Rig::new();
    rig.following(1, &["a", "b", "a"]);
    assert_eq!(rig.followed, [id("a"), id("b")].into());
    rig.stands([
        enforced("a", "old", Some(1)),
        enforced("b", "new", None),
        enforced("c", "new", Some(2)),
    ]);
    rig.stands([enforced("a", "new", Some(2))]);
    // Later drift undoes nothing.
    rig.stands([enforced("a", "new", None)]);
    assert_eq!(rig.ended(), []);
    assert_eq!(rig.followed, [id("b")].into());
    // It came with a newer incarnation, with other content.
    rig.stands([enforced("b", "newer", Some(3))]);
    assert_eq!(rig.ended(), [(1, Settlement::Done)]);
    assert!(rig.is_empty());
}

#[test]
fn r36_unchanged_content_counts_as_it_was_found_before() {
    let mut rig = Rig::new();
    rig.settle(1, &["a"]);
    rig.run(1);
    rig.stands([enforced("a", "old", Some(1))]);
    assert_eq!(rig.ended(), [(1, Settlement::Done)]);
}

#[test]
fn r36_removed_and_modelled_assets_are_not_waited_for_in_production() {
    let since = testing::NOW;
    let standing = |relation| Standing::new(relation, SyncState::InSync { since });
    let gone = standing(Relation::Absent);
    let left = standing(Relation::LeftAlone);
    let modelled = standing(Relation::ModelledOnly);
    for (name, standing, done) in [
        ("gone", gone.clone(), true),
        ("gone", left.clone(), true),
        ("gone", enforced("a", "old", None).1, true),
        ("a", gone, false),
        ("a", left, false),
        ("a", modelled, true),
    ] {
        let mut rig = Rig::new();
        rig.following(1, &[name]);
        rig.stands([(id(name), standing.clone())]);
        assert_eq!(!rig.ended.is_empty(), done, "{name} {standing:?}");
    }
    let mut rig = Rig::new();
    rig.following(1, &[]);
    assert_eq!(rig.ended(), [(1, Settlement::Done)]);
}

#[test]
fn r36_waits_that_come_together_share_a_run_and_later_ones_need_a_later_run() {
    let mut rig = Rig::new();
    assert!(rig.kernel.run_to_await().is_none(), "nothing waits");
    rig.settle(1, &["a"]);
    rig.settle(2, &["b"]);
    assert!(rig.kernel.run_to_await().is_some());
    rig.settle(3, &["c"]);
    assert!(rig.kernel.run_to_await().is_none(), "one run at a time");
    rig.step(Event::Ran(Some(IncarnationNo(1))));
    assert_eq!(rig.followed, [id("a"), id("b")].into());
    rig.stands([enforced("c", "old", Some(1))]);
    rig.run(2);
    assert_eq!(rig.followed, [id("a"), id("b")].into(), "it is not taken");
    rig.step(Event::Took(incarnation(2, "new")));
    rig.stands([enforced("c", "old", Some(1))]);
    assert_eq!(rig.ended(), [], "that was before the run");
    rig.stands([enforced("c", "new", Some(2))]);
    assert_eq!(rig.ended(), [(3, Settlement::Done)]);
}

#[test]
fn r36_standing_looks_only_at_the_waits_of_its_asset() {
    let mut rig = Rig::new();
    for no in 1..=1_000 {
        rig.settle(no, &[if no == 500 { "b" } else { "a" }]);
    }
    rig.run(2);
    rig.step(Event::Took(incarnation(2, "new")));
    // All that follow an asset from one moment on are told by one standing.
    assert_eq!(rig.follows, [(id("a"), 1), (id("b"), 1)].into());
    rig.stands([enforced("b", "new", Some(2))]);
    assert_eq!(rig.ended(), [(500, Settlement::Done)]);
    assert_eq!(rig.followed, [id("a")].into());
    // One that comes later has the present standing told again.
    rig.following(1_001, &["a"]);
    assert_eq!(rig.follows[&id("a")], 2);
    rig.stands([enforced("a", "new", Some(2))]);
    assert_eq!(rig.ended().len(), 1_001);
    assert!(rig.is_empty());
}

#[test]
fn r36_field_set_by_others_ends_the_waits_for_its_change_at_any_stage() {
    let told = |no: u64| Event::Overwritten([(change(no), "a is 4".to_owned())].into());
    let overwritten = Settlement::Overwritten("a is 4".into());
    let mut rig = Rig::new();
    rig.following(1, &["a"]);
    rig.settle(2, &["a"]);
    assert!(rig.kernel.run_to_await().is_some());
    rig.settle(3, &["a"]);
    for (ended, no) in [2, 3, 1].into_iter().enumerate() {
        assert_eq!(rig.ended.len(), ended, "the fields of others end nothing");
        rig.step(told(no));
        assert_eq!(rig.ended[&no].clone().unwrap(), overwritten);
    }
    // It was so before the wait began.
    rig.step(told(4));
    rig.settle(4, &["a"]);
    assert_eq!(rig.ended[&4].clone().unwrap(), overwritten);
    rig.step(Event::Ran(Some(IncarnationNo(2))));
    assert!(rig.is_empty());
}

#[test]
fn r36_asset_that_its_rollout_leaves_behind_ends_the_waits_for_it() {
    let mut rig = Rig::new();
    rig.settle(1, &["a", "slow/a"]);
    rig.settle(2, &["slow/b"]);
    rig.settle(3, &["slow/a", "slow/b"]);
    rig.run(2);
    rig.step(Event::Took(incarnation(2, "new")));
    assert_eq!(rig.questions, [(id("slow"), IncarnationNo(2))].into());
    rig.rests(&["a", "slow/a"]);
    assert_eq!(rig.ended(), []);
    // What was in flight when the rollout stopped may get there until the answer counts.
    rig.stands([enforced("slow/a", "newer", Some(3))]);
    assert_eq!(rig.ended(), []);
    rig.pass(AGAIN);
    assert_eq!(rig.ended(), [], "the policy does not govern `a`");
    rig.rests(&["slow/b"]);
    rig.pass(2 * AGAIN);
    let behind = left_behind("slow/b");
    assert_eq!(rig.ended(), [(2, behind.clone()), (3, behind)]);
    assert_eq!(rig.followed, [id("a")].into());
    assert!(rig.questions.is_empty(), "no wait needs an answer");
}

#[test]
fn r36_policy_group_is_asked_one_question_at_a_time_less_and_less_often() {
    let mut rig = Rig::new();
    for no in 1..=100 {
        rig.settle(no, &["slow/a", "slow/b"]);
    }
    rig.run(2);
    rig.step(Event::Took(incarnation(2, "new")));
    assert_eq!(rig.asked, 1);
    let mut wait = AGAIN;
    for n in 2..10 {
        rig.rests(&[]);
        rig.pass(wait.checked_sub(Duration::from_millis(1)).unwrap());
        assert_eq!(rig.asked, n - 1);
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.asked, n);
        wait = (2 * wait).min(SELDOM);
    }
    assert_eq!(wait, SELDOM);
    // A new wait does not wait as long.
    rig.rests(&[]);
    rig.following(101, &["slow/a"]);
    rig.pass(AGAIN);
    assert_eq!(rig.asked, 10);
    rig.rests(&[]);
    rig.pass(AGAIN);
    assert_eq!(rig.asked, 11);
}

#[test]
fn r36_answer_about_a_group_is_not_about_waits_that_begin_later() {
    let mut rig = Rig::new();
    rig.following(1, &["slow/a"]);
    rig.following(2, &["slow/a"]);
    rig.rests(&["slow/a"]);
    rig.following(3, &["slow/a"]);
    rig.pass(AGAIN);
    assert_eq!(rig.ended(), [(1, left_behind("slow/a"))]);
    rig.rests(&["slow/a"]);
    rig.pass(AGAIN);
    assert_eq!(rig.ended().len(), 3);
    assert!(rig.is_empty());
}

#[test]
fn r36_forgotten_waits_leave_nothing_at_any_stage() {
    let mut rig = Rig::new();
    rig.settle(1, &["a"]);
    rig.forget(1);
    assert!(rig.kernel.run_to_await().is_none(), "no run is for nothing");
    rig.settle(2, &["a"]);
    assert!(rig.kernel.run_to_await().is_some());
    rig.forget(2);
    rig.step(Event::Ran(Some(IncarnationNo(1))));
    rig.settle(3, &["a"]);
    rig.run(2);
    rig.forget(3);
    rig.step(Event::Took(incarnation(2, "new")));
    rig.following(4, &["a", "slow/a"]);
    rig.following(5, &["slow/a"]);
    rig.rests(&[]);
    rig.forget(4);
    assert_eq!(rig.followed, [id("slow/a")].into());
    rig.forget(5);
    rig.forget(5);
    assert!(rig.is_empty());
    assert_eq!(rig.kernel.next_wake(), None);
    assert!(rig.ended.is_empty());
}

#[test]
fn r36_waits_for_a_run_of_a_generation_that_ends_are_asked_for_again() {
    let mut rig = Rig::new();
    rig.settle(1, &["a"]);
    assert!(rig.kernel.run_to_await().is_some());
    rig.settle(2, &["a"]);
    rig.step(Event::Ran(None));
    let end = rig.ended[&1].clone();
    assert!(
        matches!(end, Err(plugin::Error::Transient { .. })),
        "{end:?}"
    );
    assert!(!rig.ended.contains_key(&2), "its run comes");
    rig.run(1);
    assert_eq!(rig.followed, [id("a")].into());
}

/// A run that has begun since the edit was durable is enough, also if it began before the wait.
#[test]
fn r36_run_that_began_after_the_edits_of_all_waits_is_waited_for() {
    let mut rig = Rig::new();
    for no in [7, 9, 8] {
        rig.settle(no, &["a"]);
    }
    assert_eq!(rig.kernel.run_to_await(), Some(9));
    rig.settle(11, &["a"]);
    rig.step(Event::Ran(Some(IncarnationNo(2))));
    assert_eq!(rig.kernel.run_to_await(), Some(11));
}
