//! Plans: they diff and check in the same way as enforcement does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use control_plane::{
    ControlPlaneBuilder, Error, PauseScope,
    enforcer::{Outcome, Plan},
    prelude::*,
    sdk::FencingToken,
    store::{
        Batch, record,
        records::{Ended, Stopped},
    },
    strategist::Command,
};
use futures::future::pending;
use jiff::Timestamp;

use crate::rollouts::{build, manifest, of_size, passes, until};
use crate::world::{LONG, Model, Production, QUIET, Running, Service, Text, ann, id, plane};

/// A plugin that hangs, panics or answers, depending on the id of the asset. It counts its diffs.
#[derive(Clone, Default)]
struct Scripted(Arc<AtomicUsize>);

#[async_trait]
impl AssetPlugin for Scripted {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let asset = request.asset()?;
        match asset.id_str() {
            "hangs" => pending().await,
            "panics" => panic!("on purpose"),
            _ => {}
        }
        Ok(Diff::differs(Change::new(
            &asset,
            "make it",
            vec![],
            Effects::default(),
        )))
    }

    async fn push(&self, _: PushRequest) -> Result<Pushed, plugin::Error> {
        Err(plugin::Error::permanent("a plan pushes nothing"))
    }
}

/// A check that delays for each consumer and provider of the asset, and observes each of them. Active from the
/// incarnation with this number on.
struct NeighbourCheck(u32);

#[async_trait]
impl CheckPlugin for NeighbourCheck {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("neighbours")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        match request.asset_id().as_str() {
            "check-hangs" => pending().await,
            "check-panics" => panic!("on purpose"),
            _ => {}
        }
        let view = request.view.as_ref().unwrap();
        let no = request.incarnation().no;
        let mut verdict = request.proceed();
        let (consumers, providers) = (
            view.consumers(request.asset_id(), no),
            view.providers(request.asset_id(), no),
        );
        let all = consumers.into_iter().chain(providers);
        for link in all.filter(|_| no.0 >= self.0) {
            view.observe(&link.asset).await?;
            verdict.delays.push(
                Delay::new(link.asset.to_string(), Recheck::WhenSettled(link.asset))
                    .check("neighbours"),
            );
        }
        Ok(verdict)
    }
}

fn neighbours(builder: ControlPlaneBuilder, from: u32) -> ControlPlaneBuilder {
    builder.checks(|base| {
        let layers = ServiceBuilder::new().layer(CheckLayer::new(NeighbourCheck(from)));
        layers.service(base)
    })
}

fn scripted(plugin: Scripted, text: &str) -> ControlPlaneBuilder {
    let builder = ControlPlane::builder("world")
        .store(MemoryStore::new())
        .source(Text::new(text))
        .generator(Model)
        .asset_plugin::<Service>(plugin)
        .modelled_only::<crate::world::Group>();
    neighbours(builder, 0)
}

#[tokio::test(start_paused = true)]
async fn a_plan_survives_plugins_and_checks_that_hang_or_panic() {
    let text = "services: {hangs: {size: 1}, panics: {size: 1}, check-hangs: {size: 1}, check-panics: {size: 1}, well: {size: 1}}";
    let handle = scripted(Scripted::default(), text)
        .build()
        .unwrap()
        .handle();
    let plan = handle.plan_with(&[]);
    let plan = tokio::time::timeout(LONG, plan).await.unwrap().unwrap();
    let says = [
        ("check-hangs", "the checks passed their deadline"),
        ("check-panics", "the checks failed: a check panicked"),
        ("hangs", "the diff passed its deadline"),
        ("panics", "the plugin panicked in diff"),
        ("well", ""),
    ];
    assert_eq!(plan.assets.len(), says.len());
    for (prospect, (asset, says)) in plan.assets.iter().zip(says) {
        assert_eq!(prospect.asset.as_str(), asset);
        assert!(prospect.why.contains(says), "{prospect:?}");
        let held = if says.is_empty() {
            Outcome::Now
        } else {
            Outcome::Held
        };
        assert_eq!(prospect.outcome, held, "{prospect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_diffs_as_rarely_as_enforcement_and_through_the_layers() {
    let consumers = (0..20).map(|n| format!("c{n}: {{size: 1, needs: [p]}}, "));
    let text = format!(
        "services: {{{}p: {{size: 1}}}}",
        consumers.collect::<String>()
    );
    let (plugin, layered) = (Scripted::default(), Arc::new(AtomicUsize::new(0)));
    let seen = layered.clone();
    let builder = scripted(plugin.clone(), &text).enforcement(move |builder| {
        builder.diffs(move |base| {
            let count = move |request: DiffRequest| {
                seen.fetch_add(1, Ordering::Relaxed);
                request
            };
            ServiceBuilder::new().map_request(count).service(base)
        })
    });
    let plan = builder
        .build()
        .unwrap()
        .handle()
        .plan_with(&[])
        .await
        .unwrap();
    assert_eq!(plan.assets.len(), 21);
    let of_p = plan.of(&id("p")).unwrap();
    assert_eq!(of_p.delays.len(), 20, "all consumers were observed");
    let looks = plugin.0.load(Ordering::Relaxed);
    assert!(
        (21..=42).contains(&looks),
        "one diff of each asset, and at most one more for its neighbours: {looks}"
    );
    assert_eq!(layered.load(Ordering::Relaxed), looks);
}

fn reasons(plan: &Plan, asset: &str) -> Vec<String> {
    let planned = plan
        .assets
        .iter()
        .find(|planned| planned.asset == id(asset));
    let delays = planned.map(|planned| &planned.delays).into_iter().flatten();
    delays.map(|delay| delay.reason.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn r16_a_plan_knows_edges_that_vanished_from_intent() {
    let whole = "services: {a: {size: 1, needs: [p]}, gone: {size: 1, needs: [p]}, p: {size: 1}}";
    let (text, production) = (Text::new(whole), Production::default());
    let plane = plane(&production).source(text.clone());
    let plane = neighbours(plane.store(MemoryStore::new()), 2);
    let running = Running::start(plane.build().unwrap());
    running.handle.settle(LONG).await.unwrap();

    let edited = "services: {a: {size: 2}, p: {size: 2}}";
    let plan = running.handle.plan_with(&[&Text::new(edited)]).await;
    assert_eq!(reasons(&plan.unwrap(), "p"), ["a", "gone"]);

    text.edit("services: {a: {size: 2}, p: {size: 2}}");
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let plan = running.handle.plan().await.unwrap();
    // The order that the edit drops does not hold the push of `a`, and the edge is gone with that push.
    assert_eq!(
        reasons(&plan, "p"),
        ["gone"],
        "the same delays as those of the enforcer"
    );
}

#[tokio::test(start_paused = true)]
async fn a_plan_survives_sources_that_panic() {
    let plane = scripted(Scripted::default(), "services: {}")
        .build()
        .unwrap();
    let handle = plane.handle();
    let Err(Error::Refused(problems)) = handle.plan_with(&[&Text::new("panic")]).await else {
        panic!("the source panics when it is read");
    };
    assert!(problems.to_string().contains("panicked"), "{problems}");
}

#[tokio::test(start_paused = true)]
async fn a_plan_shows_paused_leaving_and_destroyed_assets() {
    let whole =
        "services: {down: {size: 1}, gone: {size: 1}, held: {size: 1}, p: {size: 1}, q: {size: 1}}";
    let (text, production) = (Text::new(whole), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    let scope = PauseScope::Asset(id("held"));
    running.handle.pause(scope, ann(), None).await.unwrap();

    let edited = "services: {down: {size: 1, turndown: true}, held: {size: 2}, p: {size: 2}, q: {size: 2, needs: [p]}}";
    let plan = running.handle.plan_with(&[&Text::new(edited)]).await;
    let plan = plan.unwrap();
    let outcomes: Vec<_> = plan
        .assets
        .iter()
        .map(|it| (it.asset.as_str(), it.outcome))
        .collect();
    let expected = [
        ("down", Outcome::Destroys),
        ("gone", Outcome::Leaves),
        ("held", Outcome::Held),
        ("p", Outcome::Now),
        ("q", Outcome::InTurn),
    ];
    assert_eq!(outcomes, expected);
    assert!(plan.of(&id("held")).unwrap().why.contains("paused by ann"));
    assert_eq!((plan.count(Outcome::Now), plan.in_sync), (1, 0));

    text.edit(edited);
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    assert_eq!(production.size("p"), Some(2), "`p` is pushed as planned");
}

#[tokio::test(start_paused = true)]
async fn r65_a_plan_shows_an_approval_that_a_pause_holds_back() {
    let (text, production) = (
        Text::new("services: {down: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    text.edit("services: {down: {size: 1, turndown: true}}");
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let (handle, down) = (&running.handle, id("down"));
    let plan = handle.plan().await.unwrap();
    let row = plan.of(&down).unwrap();
    assert_eq!((row.outcome, &row.approvals), (Outcome::Destroys, &vec![]));
    let change = row.change.clone().unwrap().digest;
    // Paused, so that the approval is not used up at once.
    let scope = PauseScope::Asset(down.clone());
    handle.pause(scope, ann(), None).await.unwrap();
    handle.approve(&down, change, ann(), None).await.unwrap();
    let overridden = handle.override_check(&down, change, "dependency-solver", ann(), None);
    overridden.await.unwrap();

    let plan = handle.plan().await.unwrap();
    let row = plan.of(&down).unwrap();
    assert_eq!(row.outcome, Outcome::Held);
    assert!(row.why.contains("paused by ann"), "{row:?}");
    let approvals = row.approvals.iter().map(|it| (it.change, &it.by));
    assert_eq!(approvals.collect::<Vec<_>>(), [(change, &ann())]);
    let overrides = row.overrides.iter().map(|it| (it.change, &it.by));
    assert_eq!(overrides.collect::<Vec<_>>(), [(change, &ann())]);
    let enforcement = handle.status().await.unwrap().enforcement.unwrap();
    assert_eq!(enforcement.approvals, row.approvals);
    assert_eq!(enforcement.overrides, row.overrides);
}

#[tokio::test(start_paused = true)]
async fn r22_a_plan_holds_assets_that_a_rollout_leaves_out() {
    let policy = "{canary: {count: 1, bake_secs: 60}}";
    let (text, production) = (Text::new(&manifest(1, policy, 1)), Production::default());
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    let planned = async |size| {
        let edited = Text::new(&manifest(size, policy, 1));
        running.handle.plan_with(&[&edited]).await.unwrap()
    };
    let plan = planned(2).await;
    let counts = |plan: &Plan| (plan.count(Outcome::Now), plan.count(Outcome::InTurn));
    assert_eq!(counts(&plan), (1, 3), "{plan:#?}");
    assert!(plan.of(&id("b")).unwrap().change.is_some());

    let slow = id("slow");
    text.edit(&manifest(2, policy, 1));
    let canary = || of_size(&production, 2) > 0;
    until(&running, "the canary is updated", canary).await;
    running
        .handle
        .tell_rollout(&slow, Command::Pause, ann())
        .await
        .unwrap();
    let plan = running.handle.plan().await.unwrap();
    assert_eq!(
        (plan.count(Outcome::Held), plan.in_sync),
        (3, 2),
        "{plan:#?}"
    );
    assert!(plan.assets[0].why.contains("paused by ann"), "{plan:#?}");
    running
        .handle
        .tell_rollout(&slow, Command::RollBack, ann())
        .await
        .unwrap();
    until(&running, "all are back", || of_size(&production, 1) == 4).await;
    running.quiet().await;
    let plan = planned(2).await;
    assert!(plan.count(Outcome::Held) > 0, "{plan:#?}");
    assert!(
        plan.with(Outcome::Held).all(|it| it.why.contains("failed")),
        "{plan:#?}"
    );
    let plan = planned(4).await;
    assert_eq!(
        counts(&plan),
        (1, 3),
        "other content is rolled out: {plan:#?}"
    );
}

/// Plans the edit `after` of the services of `before`, and checks that all four governed services are held with a
/// reason that contains `why`. Then applies the edit, and checks that none of them is pushed.
async fn holds_all(before: &str, after: &str, why: &str) {
    let (text, production) = (Text::new(before), Production::default());
    // The standard validators would refuse the reference to a missing policy.
    let plane = plane(&production).store(MemoryStore::new());
    let running = Running::start(plane.source(text.clone()).build().unwrap());
    running.handle.settle(LONG).await.unwrap();
    let plan = running.handle.plan_with(&[&Text::new(after)]).await;
    let plan = plan.unwrap();
    let outcomes: Vec<_> = plan.assets.iter().map(|it| it.outcome).collect();
    assert_eq!(outcomes, [Outcome::Held; 4], "{plan:#?}");
    let told = plan.assets.iter().all(|it| it.why.contains(why));
    assert!(told, "{plan:#?}");
    assert!(plan.of(&id("a")).unwrap().change.is_some());

    text.edit(after);
    running.handle.wait_until_owner().await.next_run().await;
    passes(QUIET).await;
    assert_eq!(of_size(&production, 2), 0);
    let plan = running.handle.plan().await.unwrap();
    assert_eq!(plan.count(Outcome::Held), 4, "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn r65_a_plan_holds_assets_whose_policy_is_on_hold() {
    let hold = r#"{hold: "the data centre moves"}"#;
    let why = "on hold: the data centre moves";
    holds_all(&manifest(1, "{}", 1), &manifest(2, hold, 1), why).await;
}

#[tokio::test(start_paused = true)]
async fn r65_a_plan_holds_assets_whose_policy_is_missing() {
    let whole = manifest(2, "{}", 1);
    let (missing, _) = whole.split_once("policies:").unwrap();
    holds_all(&manifest(1, "{}", 1), missing, "no policy asset `slow`").await;
}

#[tokio::test(start_paused = true)]
async fn r65_a_plan_of_a_stopped_partition_holds_all_assets_and_says_why() {
    let store = MemoryStore::new();
    let stopped = Stopped::new("it broke", Timestamp::UNIX_EPOCH, FencingToken(1));
    let partition = "world".parse().unwrap();
    let stop = record::put(&partition, "", &stopped).unwrap();
    store.commit(Batch::new().write(stop)).await.unwrap();
    let (text, production) = (Text::new(&manifest(1, "{}", 1)), Production::default());
    let handle = build(&text, &production, store.clone()).handle();
    let plan = handle.plan_with(&[]).await.unwrap();
    assert_eq!(plan.stopped.as_ref(), Some(&stopped));
    assert_eq!(plan.count(Outcome::Held), 5, "{plan:#?}");
    let told = plan.assets.iter().all(|it| it.why.contains("it broke"));
    assert!(told && plan.assets[0].change.is_some(), "{plan:#?}");

    let cleared = Stopped {
        cleared: Some(Ended {
            by: ann(),
            at: Timestamp::UNIX_EPOCH,
        }),
        ..stopped
    };
    let cleared = record::put(&partition, "", &cleared).unwrap();
    store.commit(Batch::new().write(cleared)).await.unwrap();
    let plan = handle.plan_with(&[]).await.unwrap();
    assert_eq!((plan.count(Outcome::Now), plan.stopped), (5, None));
}
