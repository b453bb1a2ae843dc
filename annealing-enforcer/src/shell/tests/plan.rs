//! Compares plans with enforcement: a new owner begins at once exactly the pushes that a plan calls *now*.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use control_plane_store::{
    record,
    records::{Approval, Scope},
};
use plugin_sdk::{
    Actuation, Actuator, Change, CheckInfo, CheckPlugin, CheckRequest, Claim, Delay, Effects,
    FieldChange, GroupHead, PushRequest, Recheck, Verdict, service::CheckLayer,
};
use prodspec_model::{
    AssetRef,
    addons::{DependsOn, Edge, Need, RolloutPolicyRef},
};
use proptest::prelude::*;

use super::*;
use crate::{
    kernel::{Outcome, Prospect},
    shell::Plan,
};

/// The edit of one asset between the first incarnation and the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Same,
    Edited,
    Destroyed,
    Approved,
    Frozen,
    Lost,
    Removed,
}

/// One randomly drawn asset of a test case.
#[derive(Debug, Clone)]
struct Drawn {
    edit: Edit,
    drifts: bool,
    paused: bool,
    governed: bool,
    lane: Option<u8>,
    /// The asset that it depends on in order, if any: an index, taken modulo its own.
    needs: Option<usize>,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let edit = prop_oneof![
        3 => Just(Edit::Same),
        4 => Just(Edit::Edited),
        1 => Just(Edit::Destroyed),
        1 => Just(Edit::Approved),
        1 => Just(Edit::Frozen),
        1 => Just(Edit::Lost),
        1 => Just(Edit::Removed),
    ];
    let rarely = || prop::bool::weighted(0.15);
    let lane = prop::option::weighted(0.3, 0..2_u8);
    let needs = prop::option::weighted(0.4, 0..8_usize);
    (
        edit,
        prop::bool::weighted(0.3),
        rarely(),
        rarely(),
        lane,
        needs,
    )
        .prop_map(|(edit, drifts, paused, governed, lane, needs)| Drawn {
            edit,
            drifts,
            paused,
            governed,
            lane,
            needs,
        })
}

const POLICY: &str = "policy";

fn name(at: usize) -> String {
    format!("a{at}")
}

fn id(at: usize) -> AssetId {
    AssetId::new(&name(at)).unwrap()
}

/// The asset with index `at`. Its content tells the plugin and the check how to treat it.
fn made(at: usize, of: &Drawn, content: &str) -> Asset {
    let lane = of.lane.map(|lane| format!(" lane{lane}"));
    let content = format!("{content}{}", lane.unwrap_or_default());
    let mut asset = testing::asset(&name(at))
        .edit()
        .payload(&testing::Thing { content })
        .unwrap();
    if let Some(other) = of.needs.filter(|_| at > 0) {
        let provider = AssetRef::to(id(other % at));
        let need = Need::Order;
        let edges = vec![Edge { provider, need }];
        asset = asset.addon(&DependsOn { edges }).unwrap();
    }
    if of.governed {
        let policy = AssetRef::to(AssetId::new(POLICY).unwrap());
        asset = asset.addon(&RolloutPolicyRef { policy }).unwrap();
    }
    asset.build().unwrap()
}

/// Production in memory, whose pushes stay under way while the gate is closed.
#[derive(Clone, Default)]
struct Gated(Arc<Gate>);

#[derive(Default)]
struct Gate {
    there: Mutex<BTreeMap<AssetId, String>>,
    begun: Mutex<BTreeSet<AssetId>>,
    closed: AtomicBool,
}

#[async_trait::async_trait]
impl AssetPlugin for Gated {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let wanted = asset.payload_json();
        if wanted.contains("lost") {
            return Err(plugin::Error::transient("no route to it"));
        }
        let there = self
            .0
            .there
            .lock()
            .unwrap()
            .get(request.asset_id())
            .cloned();
        if there.as_deref() == Some(wanted) {
            return Ok(Diff::in_sync());
        }
        let effects = Effects::default().destructive(wanted.contains("destroyed"));
        let fields = vec![FieldChange::new("payload", there, wanted)];
        Ok(Diff::differs(Change::new(
            &asset, "write it", fields, effects,
        )))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        self.0
            .begun
            .lock()
            .unwrap()
            .insert(request.asset_id().clone());
        if self.0.closed.load(Ordering::SeqCst) {
            return futures::future::pending().await;
        }
        let mut there = self.0.there.lock().unwrap();
        there.insert(request.asset_id().clone(), asset.payload_json().to_owned());
        Ok(Pushed::Done)
    }
}

/// A check: providers first, no frozen assets, one push at a time in each lane.
struct Careful;

#[async_trait::async_trait]
impl CheckPlugin for Careful {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("careful").only_for(plugin_sdk::Causes::ALL)
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, plugin_sdk::BoxError> {
        let asset = request.asset()?;
        let mut verdict = request.proceed();
        let hour = Recheck::After(Duration::from_secs(3600));
        if asset.payload_json().contains("frozen") {
            verdict.delays.push(Delay::new("frozen", hour));
        }
        if let Some(at) = asset.payload_json().find("lane") {
            let lane = &asset.payload_json()[at..at + 5];
            verdict.claims.push(Claim::Exclusive(lane.into()));
        }
        let view = request.view.as_ref().ok_or("no view")?;
        for link in view.providers(request.asset_id(), request.incarnation().no) {
            let seen = view.observe(&link.asset).await?;
            verdict.relies_on.push(seen.stamp);
            verdict.as_of = verdict.as_of.min(seen.as_of);
            if !matches!(seen.diff, Diff::InSync { .. }) {
                let settled = Recheck::WhenSettled(link.asset.clone());
                verdict
                    .delays
                    .push(Delay::new(format!("needs {}", link.asset), settled));
            }
        }
        Ok(verdict)
    }
}

fn careful(store: &Arc<dyn Store>, plugin: &Gated, pushes: u32) -> Enforcer<TokioRuntime> {
    let partition = PartitionId::new("test").unwrap();
    let adjusted = crate::Plugin::new(plugin.clone()).adjust(move |config| config.pushes = pushes);
    Enforcer::builder(TokioRuntime::current(), partition, store.clone())
        .asset_plugin::<testing::Thing>(adjusted)
        .checks(|base| {
            let checks = tower::ServiceBuilder::new().layer(CheckLayer::new(Careful));
            checks.service(base)
        })
        .build()
        .unwrap()
}

/// Runs an enforcer until `then` is done.
async fn during<T>(
    enforcer: Enforcer<TokioRuntime>,
    then: impl AsyncFnOnce(Handle<TokioRuntime>) -> T,
) -> T {
    let handle = enforcer.handle();
    let running = tokio::spawn(enforcer.run(std::future::pending()));
    let found = then(handle).await;
    running.abort();
    // The task was aborted.
    let _ = running.await;
    found
}

/// A partition whose first incarnation is settled, whose second is sealed and not enforced yet, and whose production
/// has drifted.
struct World {
    store: Arc<dyn Store>,
    plugin: Gated,
    second: Incarnation,
}

/// Moves all governed assets to `to`, as a rollout of the whole group does.
async fn roll_out(handle: &Handle<TokioRuntime>, all: &[Drawn], to: &Incarnation) {
    let governed = || (0..all.len()).filter(|&at| all[at].governed).map(id);
    if governed().next().is_none() {
        return;
    }
    let to_it = |asset| (asset, Pin::At(to.clone(), Cause::Intent));
    let moved = Actuation {
        moves: governed().map(to_it).collect(),
        ..Actuation::default()
    };
    handle.actuate(moved).await.unwrap();
    let all = Settle::All(to.no());
    handle.wait_settled(all, SOON).await.unwrap();
    let head = (AssetId::new(POLICY).unwrap(), to.clone());
    let freed = governed().map(|asset| (asset, Pin::Default));
    let completed = Actuation {
        heads: vec![(head.0, GroupHead::At(head.1))],
        moves: freed.collect(),
        ..Actuation::default()
    };
    handle.actuate(completed).await.unwrap();
}

async fn world(all: &[Drawn]) -> World {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let plugin = Gated::default();
    let assets = all.iter().enumerate();
    let first = testing::incarnation(1, assets.map(|(at, of)| made(at, of, "first")));
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    let head = incarnations.seal(&first, None, Batch::new()).await.unwrap();
    let before = incarnations.latest().await.unwrap().unwrap();
    let removed = |at: &usize| all[*at].edit == Edit::Removed;
    let gone: Vec<AssetId> = (0..all.len()).filter(removed).map(id).collect();
    let put = all.iter().enumerate().filter_map(|(at, of)| {
        let content = match of.edit {
            Edit::Same | Edit::Removed => return None,
            Edit::Edited => "edited",
            Edit::Destroyed | Edit::Approved => "destroyed",
            Edit::Frozen => "frozen",
            Edit::Lost => "lost",
        };
        Some(made(at, of, content))
    });
    let second = edited(&before, put.collect(), &gone);
    during(careful(&store, &plugin, 256), async |handle| {
        roll_out(&handle, all, &before).await;
        let settled = Settle::All(before.no());
        handle.wait_settled(settled, SOON).await.unwrap();
        for at in (0..all.len()).filter(|at| all[*at].paused) {
            let (scope, by) = (Scope::Asset(id(at)), By::new("me", "a test"));
            let word = Command::Pause {
                scope,
                until: None,
                by,
            };
            handle.tell(word).await.unwrap();
        }
        // Settled records are written about a second later.
        TokioRuntime::current().sleep(Duration::from_secs(5)).await;
    })
    .await;
    incarnations
        .seal(&second, Some(&head), Batch::new())
        .await
        .unwrap();
    let second = incarnations.latest().await.unwrap().unwrap();
    for at in (0..all.len()).filter(|at| all[*at].drifts) {
        plugin
            .0
            .there
            .lock()
            .unwrap()
            .insert(id(at), "\"drifted\"".into());
    }
    World {
        store,
        plugin,
        second,
    }
}

impl World {
    async fn plan(&self, pushes: u32) -> Plan {
        let planner = careful(&self.store, &self.plugin, pushes).planner();
        planner.plan(self.second.clone()).await.unwrap()
    }

    /// Approves the planned destructive changes of the assets drawn as `Approved`.
    async fn approve(&self, all: &[Drawn]) {
        let plan = self.plan(256).await;
        let approved = |at: &usize| all[*at].edit == Edit::Approved;
        for asset in (0..all.len()).filter(approved).map(id) {
            let found = plan.of(&asset).and_then(|row| row.change.clone());
            let Some(change) = found.filter(|change| change.effects.destructive) else {
                continue;
            };
            let word = Approval {
                asset,
                change: change.digest,
                by: By::new("me", "it may go"),
                at: testing::NOW,
                until: jiff::Timestamp::MAX,
                used: None,
                replaced: None,
            };
            let partition = &self.second.id().partition;
            let word = record::put(partition, &word.name(), &word).unwrap();
            self.store.commit(Batch::new().write(word)).await.unwrap();
        }
    }

    /// The assets whose pushes a new owner begins, while no push ends.
    async fn begun(&self, pushes: u32) -> BTreeSet<AssetId> {
        self.plugin.0.begun.lock().unwrap().clear();
        self.plugin.0.closed.store(true, Ordering::SeqCst);
        during(careful(&self.store, &self.plugin, pushes), async |_| {
            TokioRuntime::current()
                .sleep(Duration::from_secs(400))
                .await;
        })
        .await;
        self.plugin.0.begun.lock().unwrap().clone()
    }
}

/// Compares the outcomes of a plan with the case, and with the pushes that a new owner begins.
async fn compare(all: &[Drawn], pushes: u32) {
    let world = world(all).await;
    world.approve(all).await;
    let plan = world.plan(pushes).await;
    let again = world.plan(pushes).await;
    assert_eq!(plan, again, "a plan changes nothing");
    let named = |outcome| -> BTreeSet<AssetId> {
        plan.with(outcome).map(|row| row.asset.clone()).collect()
    };
    for row in &plan.assets {
        let now = row.outcome == Outcome::Now;
        assert_eq!(row.why.is_empty(), now, "{row:?}");
    }
    let removed = |at: &usize| all[*at].edit == Edit::Removed;
    let removed: BTreeSet<AssetId> = (0..all.len()).filter(removed).map(id).collect();
    let left = named(Outcome::Leaves);
    assert!(left.is_subset(&removed), "{left:?}");
    for asset in removed.difference(&left) {
        // Its rollout has not reached it yet, and it stays as it was until then.
        let row = plan.of(asset).unwrap();
        assert!(row.policy.is_some(), "{row:?}");
    }
    for row in plan.with(Outcome::Destroys) {
        let change = row.change.as_ref();
        assert!(
            change.is_some_and(|change| change.effects.destructive),
            "{row:?}"
        );
    }
    assert_eq!(plan.assets.len() + plan.in_sync, all.len());
    let begun = world.begun(pushes).await;
    let said = |row: &Prospect| {
        format!(
            "{}: {:?} {} {:?}",
            row.asset, row.outcome, row.why, row.cause
        )
    };
    let said: Vec<String> = plan.assets.iter().map(said).collect();
    let now = named(Outcome::Now);
    match is_a_race(all, pushes) {
        true => assert_eq!(now.len(), begun.len(), "{begun:?} of\n{}", said.join("\n")),
        false => assert_eq!(now, begun, "{}", said.join("\n")),
    }
}

/// Whether the order of the drift scan decides which of several assets is pushed first.
fn is_a_race(all: &[Drawn], pushes: u32) -> bool {
    let drifters = |lane| {
        all.iter()
            .filter(move |of| of.drifts && of.lane == Some(lane))
    };
    pushes < 256 || (0..2).any(|lane| drifters(lane).count() > 1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plan_outcome_now_equals_the_pushes_that_begin_at_once(
        all in prop::collection::vec(drawn(), 1..8),
        pushes in prop_oneof![Just(1_u32), Just(2), Just(256)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(compare(&all, pushes));
    }
}
