//! A rollout asks the checks before it moves a pin: a target that they would delay fills no room.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use control_plane::{
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    strategist::State,
};
use plugin_sdk::{Claim, Key, Until};

use crate::{
    by_edits::{MANIFEST, NAMES, WEEK, World, change},
    rollouts::{manifest, of_size, passes, until},
    world::{LONG, Production, Running, Text, ann, id, plane, write},
};

/// A check that delays the listed assets, and counts its runs.
#[derive(Clone, Default)]
pub(crate) struct Frozen(Arc<Mutex<Freeze>>);

#[derive(Default)]
struct Freeze {
    assets: BTreeSet<AssetId>,
    /// The end of the delays, if it is known.
    until: Option<Timestamp>,
    /// Whether pushes exclude each other.
    exclusive: bool,
    runs: usize,
}

impl Frozen {
    fn set(&self, set: impl FnOnce(&mut Freeze)) {
        set(&mut self.0.lock().unwrap());
    }

    fn runs(&self) -> usize {
        self.0.lock().unwrap().runs
    }
}

#[async_trait]
impl CheckPlugin for Frozen {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("freeze")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        let mut freeze = self.0.lock().unwrap();
        freeze.runs += 1;
        let mut verdict = request.proceed();
        if freeze.assets.contains(request.asset_id()) {
            let again = freeze.until.map(Recheck::At);
            let again = again.unwrap_or(Recheck::After(Duration::from_secs(30)));
            verdict = Verdict::delay(request.now, Delay::new("the region is frozen", again));
        }
        if freeze.exclusive {
            verdict.claims.push(Claim::Exclusive(Key::from("one")));
        }
        Ok(verdict)
    }
}

fn build(text: &Text, production: &Production, frozen: &Frozen) -> Running {
    let frozen = CheckLayer::new(frozen.clone());
    let plane = plane(production)
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .layer(frozen)
                .service(base)
        })
        .store(MemoryStore::new())
        .source(text.clone())
        .validators(validators::standard());
    Running::start(plane.build().unwrap())
}

/// A control plane with four services of size 1 under `policy`, after their first turnup.
async fn at_rest(policy: &str) -> (Text, Production, Frozen, Running) {
    let text = Text::new(&manifest(1, policy, 1));
    let (production, frozen) = (Production::default(), Frozen::default());
    let running = build(&text, &production, &frozen);
    running.handle.settle(LONG).await.unwrap();
    (text, production, frozen, running)
}

async fn waits(running: &Running) -> Vec<(String, Until)> {
    let views = running.handle.rollouts().await.unwrap();
    let waits = views[0].waits.iter();
    waits.map(|wait| (wait.why.clone(), wait.until)).collect()
}

#[tokio::test(start_paused = true)]
async fn r18_what_a_check_would_delay_fills_no_room() {
    let policy = "{max_in_flight: 1}";
    let (text, production, frozen, running) = at_rest(policy).await;
    frozen.set(|it| it.assets = [id("a"), id("b")].into());
    text.edit(&manifest(2, policy, 1));
    until(&running, "the others are updated", || {
        of_size(&production, 2) == 2
    })
    .await;
    passes(Duration::from_secs(10)).await;
    assert_eq!(
        (production.size("a"), production.size("b")),
        (Some(1), Some(1))
    );
    let views = running.handle.rollouts().await.unwrap();
    let moving = |it: &&plugin_sdk::Target| it.is_under_way();
    assert_eq!(
        views[0].targets.iter().filter(moving).count(),
        0,
        "no pin has moved"
    );
    let (why, wait) = waits(&running).await.remove(0);
    assert_eq!(why, "`a`, `b`: freeze: the region is frozen");
    assert!(matches!(wait, Until::Checks { ends: None, .. }), "{wait:?}");

    frozen.set(|it| it.assets.clear());
    until(&running, "all are updated", || of_size(&production, 2) == 4).await;
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(waits(&running).await, []);
}

#[tokio::test(start_paused = true)]
async fn r7_an_override_of_a_push_that_does_not_exist_lets_its_target_move() {
    let policy = "{max_in_flight: 1}";
    let (text, production, frozen, running) = at_rest(policy).await;
    let end = TokioRuntime::current().now().wall + Duration::from_secs(24 * 3600);
    frozen.set(|it| {
        it.assets = [id("a"), id("b")].into();
        it.until = Some(end);
    });
    text.edit(&manifest(2, policy, 1));
    until(&running, "the others are updated", || {
        of_size(&production, 2) == 2
    })
    .await;
    passes(Duration::from_secs(10)).await;
    let (_, wait) = waits(&running).await.remove(0);
    assert!(
        matches!(wait, Until::Checks { ends: Some(at), .. } if at == end),
        "{wait:?}"
    );

    let explained = running.handle.explain(&id("a")).await.unwrap();
    let ahead = explained.enforced().unwrap().chain[0]
        .ahead
        .clone()
        .unwrap();
    assert_eq!(ahead.delays[0].reason, "the region is frozen");
    let (handle, change) = (&running.handle, ahead.change.digest);
    let a = id("a");
    let lifted = handle.override_check(&a, change, "freeze", ann(), None);
    lifted.await.unwrap();
    until(&running, "`a` is updated", || {
        production.size("a") == Some(2)
    })
    .await;
    assert_eq!(production.size("b"), Some(1));
    assert_eq!(
        handle.interventions().await.unwrap().overrides,
        [],
        "it is used up"
    );

    // A long delay neither runs the checks at each look, nor flagged as a rollout that makes no progress.
    let before = frozen.runs();
    passes(Duration::from_secs(3600)).await;
    assert!(
        frozen.runs() - before <= 13,
        "{} runs",
        frozen.runs() - before
    );
    let views = handle.rollouts().await.unwrap();
    let rollout = views[0].rollout.clone().unwrap();
    assert!(rollout.state == State::Running, "{rollout:?}");
    assert_eq!(views[0].awaits_person, None);
}

#[tokio::test(start_paused = true)]
async fn r9_a_claim_is_compared_and_not_taken_by_a_selection() {
    let policy = "{max_in_flight: 4}";
    let (text, production, frozen, running) = at_rest(policy).await;
    frozen.set(|it| it.exclusive = true);
    production.state().hangs = true;
    text.edit(&manifest(2, policy, 1));
    until(&running, "one is pushed", || production.pushes() > 5).await;
    passes(Duration::from_secs(20)).await;
    let views = running.handle.rollouts().await.unwrap();
    let moving = |it: &&plugin_sdk::Target| it.is_under_way();
    assert_eq!(views[0].targets.iter().filter(moving).count(), 1);
    let waits = waits(&running).await;
    assert!(
        waits.iter().any(|(why, _)| why.contains("`one` is taken")),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn r6_the_way_back_moves_pins_whatever_checks_say() {
    let policy = "{max_in_flight: 2, domains: []}";
    let (text, production, frozen, running) = at_rest(policy).await;
    frozen.set(|it| it.assets = [id("c"), id("d")].into());
    text.edit(&manifest(2, policy, 1));
    until(&running, "two are updated", || of_size(&production, 2) == 2).await;
    frozen.set(|it| it.assets = ["a", "b", "c", "d"].map(id).into());
    let back = control_plane::strategist::Command::RollBack;
    let slow = id("slow");
    let sent = running.handle.tell_rollout(&slow, back, ann());
    sent.await.unwrap();
    passes(Duration::from_secs(5)).await;
    let views = running.handle.rollouts().await.unwrap();
    assert_eq!(
        (views[0].counts.waiting, views[0].counts.in_flight),
        (0, 2),
        "{views:?}"
    );
    assert_eq!(of_size(&production, 2), 2, "the pushes wait");
    frozen.set(|it| it.assets.clear());
    until(&running, "all are back", || of_size(&production, 1) == 4).await;
}

/// Returns the reasons for which a change waits.
async fn waits_of(running: &Running, key: &AssetId) -> Vec<String> {
    let views = running.handle.rollouts().await.unwrap();
    let view = views.into_iter().find(|it| it.policy == *key).unwrap();
    view.waits.into_iter().map(|wait| wait.why).collect()
}

#[tokio::test(start_paused = true)]
async fn r18_what_a_check_would_delay_is_not_edited() {
    let world = World::new();
    let running = world.start().await;
    world.frozen.set(|it| it.assets = [id("a"), id("b")].into());
    let flag = change("dark-mode", "flags").set("flag", true);
    let flag = running.handle.roll_out(&flag, ann()).await.unwrap();
    until(&running, "the others are updated", || {
        world.of_size(11) == 2
    })
    .await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(world.text().matches("flag: true").count(), 2);
    let waits = waits_of(&running, &flag.key).await;
    assert_eq!(waits, ["`a`, `b`: freeze: the region is frozen"]);
    let before = world.frozen.runs();
    passes(Duration::from_secs(60)).await;
    let runs = world.frozen.runs() - before;
    assert!(runs <= 6, "{runs} runs of the check in a minute");

    // The change that is overridden is that of the push after the edit.
    let explained = running.handle.explain(&id("a")).await.unwrap();
    let ahead = explained.enforced().unwrap().chain[0]
        .ahead
        .clone()
        .unwrap();
    let (a, change) = (id("a"), ahead.change.digest);
    let lifted = running
        .handle
        .override_check(&a, change, "freeze", ann(), None);
    lifted.await.unwrap();
    until(&running, "`a` is updated", || {
        world.production.size("a") == Some(11)
    })
    .await;
    assert_eq!(world.production.size("b"), Some(10));

    // The content that the field would make of newer content is not known: the checks judge that as it is.
    write(
        world.dir.path(),
        &world.text().replace("b: {size: 1", "b: {size: 7"),
    );
    passes(Duration::from_secs(60)).await;
    assert_eq!(world.text().matches("flag: true").count(), 3);
    world.frozen.set(|it| it.assets.clear());
    let over = running.handle.wait_roll_out(&flag.key, WEEK).await.unwrap();
    assert_eq!(over.state, State::Completed);
    assert_eq!(world.production.size("b"), Some(71));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r18_two_changes_of_the_same_targets_do_not_run_the_checks_in_turn() {
    let world = World::new();
    let running = world.start().await;
    world.frozen.set(|it| it.assets = NAMES.map(id).into());
    let flag = change("dark-mode", "flags").set("flag", true);
    let size = change("larger", "flags").set("size", 2);
    for change in [flag, size] {
        running.handle.roll_out(&change, ann()).await.unwrap();
    }
    passes(Duration::from_secs(60)).await;
    let before = world.frozen.runs();
    passes(Duration::from_secs(600)).await;
    // A delay counts for 30 s: four targets of two changes.
    let (runs, most) = (world.frozen.runs() - before, 4 * 2 * 21);
    assert!(runs <= most, "{runs} runs of the check, at most {most}");
    assert_eq!(world.text(), MANIFEST);
    running.stop().await;
}

/// A check that never answers about `a`.
struct Silent;

#[async_trait]
impl CheckPlugin for Silent {
    fn info(&self) -> CheckInfo {
        CheckInfo::new("silent")
    }

    async fn check(&self, request: CheckRequest) -> Result<Verdict, BoxError> {
        if request.asset_id() == &id("a") && request.incarnation().no.0 > 1 {
            std::future::pending::<()>().await;
        }
        Ok(request.proceed())
    }
}

#[tokio::test(start_paused = true)]
async fn r18_a_check_that_never_answers_stops_no_other_target() {
    let policy = "{max_in_flight: 2}";
    let text = Text::new(&manifest(1, policy, 1));
    let production = Production::default();
    let plane = plane(&production)
        .checks(|base| {
            ServiceBuilder::new()
                .layer(CheckLayer::new(Silent))
                .service(base)
        })
        .store(MemoryStore::new())
        .source(text.clone())
        .validators(validators::standard());
    let running = Running::start(plane.build().unwrap());
    running.handle.settle(LONG).await.unwrap();
    text.edit(&manifest(2, policy, 1));
    until(&running, "the others are updated", || {
        of_size(&production, 2) == 3
    })
    .await;
    assert_eq!(production.size("a"), Some(1));
}
