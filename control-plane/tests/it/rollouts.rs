//! Rollouts through the whole control plane: production follows a change of intent as slowly as the policy says.

use std::{sync::Arc, time::Duration};

use control_plane::{
    prelude::*,
    runtime::{Runtime, TokioRuntime},
    strategist::{Command, State},
};
use plugin_sdk::{Finding, Health, HealthRequest, HealthValidator, Judgement, Until};

use crate::world::{LONG, Production, Running, Text, ann, id, plane};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A manifest with four services of size `size` under one policy, and one service that no policy governs.
pub(crate) fn manifest(size: u64, policy: &str, free: u64) -> String {
    let service = |name| format!("  {name}: {{size: {size}, policy: slow}}\n");
    let services: String = NAMES.into_iter().map(service).collect();
    format!("services:\n{services}  free: {{size: {free}}}\npolicies: {{slow: {policy}}}\n")
}

/// Health validator that finds services of some sizes unhealthy.
pub(crate) struct SizeHealth {
    pub(crate) production: Production,
    pub(crate) is_sick: fn(u64) -> bool,
}

#[async_trait]
impl HealthValidator for SizeHealth {
    fn name(&self) -> Arc<str> {
        "size-health".into()
    }

    async fn validate(&self, request: HealthRequest) -> Result<Health, BoxError> {
        let sizes = self.production.state().sizes.clone();
        let mut moved = request.updated.iter().chain(&request.under_way);
        let sick = moved.any(|it| sizes.get(&it.asset).copied().is_some_and(self.is_sick));
        let judgement = if sick {
            Judgement::Unhealthy
        } else {
            Judgement::Healthy
        };
        Ok(Health::found(
            request.now,
            Finding::new(judgement, format!("sick: {sick}"))
                .validator(self.name())
                .because(serde_json::json!(sizes)),
        ))
    }
}

pub(crate) fn build(text: &Text, production: &Production, store: MemoryStore) -> ControlPlane {
    let size_health = HealthLayer::new(SizeHealth {
        production: production.clone(),
        is_sick: |size| size == 3,
    });
    plane(production)
        .store(store)
        .source(text.clone())
        .validators(validators::standard())
        .health(|healthy| ServiceBuilder::new().layer(size_health).service(healthy))
        .build()
        .unwrap()
}

pub(crate) fn of_size(production: &Production, size: u64) -> usize {
    let of = |name: &&str| production.size(name) == Some(size);
    NAMES.into_iter().filter(of).count()
}

/// Lets virtual time pass.
pub(crate) async fn passes(time: Duration) {
    TokioRuntime::current().sleep(time).await;
}

/// Waits in virtual time until `seen` returns true. `what` is for the failure message.
pub(crate) async fn until<R: Runtime>(
    running: &Running<R>,
    what: &str,
    mut seen: impl FnMut() -> bool,
) {
    let mut looks = 0;
    while !seen() {
        looks += 1;
        assert!(
            looks < 5000,
            "{what} in time: {:?}",
            running.handle.rollouts().await
        );
        passes(Duration::from_millis(200)).await;
    }
}

async fn state(running: &Running) -> State {
    let views = running.handle.rollouts().await.unwrap();
    views[0].rollout.clone().unwrap().state
}

#[tokio::test(start_paused = true)]
async fn r18_a_canary_goes_first_and_the_others_after_its_bake() {
    let policy = "{canary: {count: 1, bake_secs: 60}}";
    let text = Text::new(&manifest(1, policy, 1));
    let production = Production::default();
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(of_size(&production, 1), 4, "the first turnup is at once");

    text.edit(&manifest(2, policy, 2));
    until(&running, "the canary is updated", || {
        of_size(&production, 2) > 0
    })
    .await;
    until(&running, "the ungoverned service follows", || {
        production.size("free") == Some(2)
    })
    .await;
    passes(Duration::from_secs(50)).await;
    assert_eq!(
        of_size(&production, 2),
        1,
        "only the canary is updated while it bakes"
    );
    let views = running.handle.rollouts().await.unwrap();
    assert!(
        views[0]
            .waits
            .iter()
            .any(|wait| matches!(wait.until, Until::Time(_) | Until::Healthy { .. })),
        "{views:?}"
    );
    let explained = running.handle.explain(&id("d")).await.unwrap();
    let control_plane::Explained::Enforced { rollouts, .. } = explained else {
        panic!("{explained:?}")
    };
    assert!(!rollouts[&id("d")].waits.is_empty());
    until(&running, "all are updated", || of_size(&production, 2) == 4).await;
    until(&running, "the rollout is over", || true).await;
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(state(&running).await, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn r22_unhealthy_content_is_rolled_back_and_not_rolled_out_again() {
    let policy = "{canary: {count: 1, bake_secs: 60}}";
    let text = Text::new(&manifest(1, policy, 1));
    let production = Production::default();
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();

    text.edit(&manifest(3, policy, 1));
    until(&running, "the canary is updated", || {
        of_size(&production, 3) == 1
    })
    .await;
    until(&running, "all are back", || of_size(&production, 1) == 4).await;
    passes(Duration::from_secs(5)).await;
    assert!(matches!(state(&running).await, State::RolledBack { .. }));

    text.edit(&manifest(3, policy, 2));
    until(&running, "the other edit is there", || {
        production.size("free") == Some(2)
    })
    .await;
    passes(Duration::from_secs(300)).await;
    assert_eq!(of_size(&production, 1), 4);

    text.edit(&manifest(4, policy, 2));
    until(&running, "the fix is everywhere", || {
        of_size(&production, 4) == 4
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_continues_after_a_restart() {
    let policy = "{canary: {count: 1, bake_secs: 60}, max_in_flight: 1}";
    let text = Text::new(&manifest(1, policy, 1));
    let (production, store) = (Production::default(), MemoryStore::new());
    let running = Running::start(build(&text, &production, store.clone()));
    running.handle.settle(LONG).await.unwrap();
    text.edit(&manifest(2, policy, 1));
    until(&running, "the canary is updated", || {
        of_size(&production, 2) == 1
    })
    .await;
    running.stop().await;

    let running = Running::start(build(&text, &production, store));
    until(&running, "all are updated", || of_size(&production, 2) == 4).await;
    assert_eq!(production.pushes(), 9, "no push was repeated");
}

#[tokio::test(start_paused = true)]
async fn operators_pause_and_resume_a_rollout() {
    let policy = "{canary: {count: 1, bake_secs: 60}}";
    let text = Text::new(&manifest(1, policy, 1));
    let production = Production::default();
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    text.edit(&manifest(2, policy, 1));
    until(&running, "the canary is updated", || {
        of_size(&production, 2) == 1
    })
    .await;
    let tell = |command| running.handle.tell_rollout(&POLICY, command, ann());
    static POLICY: std::sync::LazyLock<AssetId> = std::sync::LazyLock::new(|| id("slow"));

    tell(Command::Pause).await.unwrap();
    passes(Duration::from_secs(600)).await;
    assert_eq!(of_size(&production, 2), 1);
    let refused = tell(Command::Pause).await.unwrap_err().to_string();
    assert!(refused.contains("is paused"), "{refused}");
    tell(Command::Resume).await.unwrap();
    until(&running, "all are updated", || of_size(&production, 2) == 4).await;
}

/// Edits the manifest and waits for its incarnation. Returns the number of that incarnation.
async fn seal(running: &Running, text: &Text, manifest: &str) -> IncarnationNo {
    text.edit(manifest);
    let status = running.handle.generation().await.unwrap().next_run().await;
    status.incarnation.unwrap().id.no
}

#[tokio::test(start_paused = true)]
async fn wait_rollout_returns_how_the_rollout_ended() {
    let policy = "{canary: {count: 1, bake_secs: 60}}";
    let text = Text::new(&manifest(1, policy, 1));
    let production = Production::default();
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    let handle = &running.handle;
    let first = handle.settle(LONG).await.unwrap().no;
    let over = async |policy: &str, at, within| {
        let ended = handle.wait_rollout(&id(policy), at, within).await;
        ended.map(|group| group.rollout.unwrap().state)
    };
    assert_eq!(over("slow", first, LONG).await.unwrap(), State::Completed);

    let good = seal(&running, &text, &manifest(2, policy, 1)).await;
    let early = over("slow", good, Duration::from_secs(30)).await;
    let early = early.unwrap_err().to_string();
    assert!(early.contains("not over within 30s"), "{early}");
    assert_eq!(
        of_size(&production, 2),
        1,
        "only the canary is updated while it bakes"
    );
    assert_eq!(
        over("slow", good, 2 * LONG).await.unwrap(),
        State::Completed
    );
    assert_eq!(of_size(&production, 2), 4);

    let bad = seal(&running, &text, &manifest(3, policy, 1)).await;
    let back = over("slow", bad, LONG).await.unwrap();
    assert!(matches!(back, State::RolledBack { .. }), "{back:?}");
    assert_eq!(of_size(&production, 2), 4);
    let group = handle.wait_rollout(&id("slow"), bad, LONG).await.unwrap();
    assert_eq!((group.released, group.left_out.len()), (false, 4));

    // The earlier content is intended again: the newest rollout failed, but everything is as intended.
    let mended = seal(&running, &text, &manifest(2, policy, 2)).await;
    let group = handle
        .wait_rollout(&id("slow"), mended, LONG)
        .await
        .unwrap();
    assert!(group.released && group.left_out.is_empty(), "{group:?}");

    let missing = over("fast", bad, LONG).await.unwrap_err().to_string();
    assert!(missing.contains("no policy group `fast`"), "{missing}");
    let never = over("slow", IncarnationNo(99), LONG).await.unwrap_err();
    assert!(
        matches!(never, control_plane::Error::TooLate { .. }),
        "{never}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_rollout_is_over_until_an_operator_acts() {
    let policy = "{canary: {count: 1, bake_secs: 60}, on_unhealthy: stop}";
    let text = Text::new(&manifest(1, policy, 1));
    let production = Production::default();
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    let bad = seal(&running, &text, &manifest(3, policy, 1)).await;
    let (handle, policy) = (&running.handle, id("slow"));
    let over = async || {
        let ended = handle.wait_rollout(&policy, bad, LONG).await;
        ended.unwrap().rollout.unwrap().state
    };
    assert!(matches!(over().await, State::Stopped { .. }));
    let told = handle.tell_rollout(&policy, Command::RollBack, ann());
    told.await.unwrap();
    assert!(matches!(over().await, State::RolledBack { .. }));
    assert_eq!(of_size(&production, 1), 4);
}

#[tokio::test(start_paused = true)]
async fn r18_a_policy_that_would_stall_is_not_sealed() {
    let text = Text::new(&manifest(1, "{max_in_flight: 0}", 1));
    let running = Running::over(&text, &Production::default());
    let refused = running.handle.settle(LONG).await.unwrap_err().to_string();
    assert!(refused.contains("max_in_flight"), "{refused}");
    // There is no incarnation and no rollout, and the question is answered at once with an error.
    let error = running.handle.rollouts().await.unwrap_err().to_string();
    assert!(error.contains("has no incarnation yet"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn explain_follows_a_wait_for_a_target_to_its_rollout() {
    let waiting = |size, free| {
        let manifest = manifest(size, "{max_in_flight: 5}", free);
        let free = format!("free: {{size: {free}");
        manifest.replace(&free, &format!("{free}, needs: [d]"))
    };
    let text = Text::new(&waiting(1, 1));
    let production = Production::default();
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();

    // `d` is pinned to the new incarnation and its push fails. The service edited after that waits for it.
    production.state().broken.insert(id("d"));
    for (size, free) in [(2, 1), (2, 2)] {
        text.edit(&waiting(size, free));
        running.handle.wait_until_owner().await.next_run().await;
        running.quiet().await;
    }
    let all = running.handle.explain_all().await.unwrap();
    let free = |explained: &&control_plane::Explained| explained.asset() == Some(&id("free"));
    let one = running.handle.explain(&id("free")).await.unwrap();
    assert_eq!(all.iter().filter(free).count(), 1);
    let control_plane::Explained::Enforced { enforced, rollouts } = one else {
        panic!("{one:?}")
    };
    let chain: Vec<_> = enforced.chain.iter().map(|link| &link.asset).collect();
    assert_eq!(chain, [&id("free"), &id("d")]);
    assert!(!rollouts.contains_key(&id("free")), "no policy governs it");
    let under_way = &rollouts[&id("d")];
    assert_eq!(under_way.policy, id("slow"), "{under_way:?}");
}

#[tokio::test(start_paused = true)]
async fn r18_policy_is_checked_also_without_the_standard_validators() {
    let text = Text::new("{services: {}, policies: {p: {hold: ' '}}}");
    let plane = plane(&Production::default())
        .store(MemoryStore::new())
        .source(text);
    let running = Running::start(plane.build().unwrap());
    let Err(control_plane::Error::Refused(problems)) = running.handle.settle(LONG).await else {
        panic!("a hold has a reason");
    };
    let problems = problems.to_string();
    assert!(problems.contains("payload.hold"), "{problems}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stopped_line_holds_all_rollouts_but_the_named_ones_over_a_restart() {
    let policy = "{max_in_flight: 1, bake_secs: 600}";
    let text = Text::new(&manifest(1, policy, 1));
    let (production, store) = (Production::default(), MemoryStore::new());
    let running = Running::start(build(&text, &production, store.clone()));
    running.handle.settle(LONG).await.unwrap();

    let hour = || TokioRuntime::current().now().wall + Duration::from_secs(3600);
    let handle = &running.handle;
    let refused = handle.line().stop(Timestamp::UNIX_EPOCH, [], ann()).await;
    assert!(refused.unwrap_err().to_string().contains("has passed"));
    let refused = handle.line().stop(hour(), [id("fast")], ann()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("`fast` has no rollouts") && refused.contains("slow"),
        "{refused}"
    );
    let refused = handle.line().resume(ann()).await.unwrap_err();
    assert!(refused.to_string().contains("not stopped"));
    assert_eq!(handle.interventions().await.unwrap().stopped_line, None);

    handle.line().stop(hour(), [], ann()).await.unwrap();
    text.edit(&manifest(2, policy, 2));
    until(&running, "the ungoverned service follows", || {
        production.size("free") == Some(2)
    })
    .await;
    running.stop().await;
    let running = Running::start(build(&text, &production, store));
    let handle = &running.handle;
    handle.wait_until_owner().await;
    passes(Duration::from_secs(60)).await;
    assert_eq!(of_size(&production, 2), 0);
    let stopped = handle.interventions().await.unwrap().stopped_line.unwrap();
    assert_eq!(stopped.by, ann());
    let views = handle.rollouts().await.unwrap();
    let waits = &views[0].waits;
    assert!(waits[0].why.contains("the line is stopped"), "{waits:?}");

    handle
        .line()
        .stop(hour(), [id("slow")], ann())
        .await
        .unwrap();
    until(&running, "the named group goes on", || {
        of_size(&production, 2) > 0
    })
    .await;
    handle.line().stop(hour(), [], ann()).await.unwrap();
    let moved = of_size(&production, 2);
    passes(Duration::from_secs(60)).await;
    assert!(
        of_size(&production, 2) <= moved + 1,
        "only what was under way"
    );
    handle.line().resume(ann()).await.unwrap();
    until(&running, "all are updated", || of_size(&production, 2) == 4).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stop_of_the_line_takes_so_many_exceptions_and_cuts_a_long_reason() {
    let (text, production) = (Text::new(&manifest(1, "{}", 1)), Production::default());
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let until = TokioRuntime::current().now().wall + Duration::from_secs(3600);
    let many = (0..2000).map(|at| id(&format!("group/{at}")));
    let refused = handle.line().stop(until, many, ann()).await;
    assert!(refused.unwrap_err().to_string().contains("1000 exceptions"));
    let long = By::new("ann", "y".repeat(5_000_000));
    handle.line().stop(until, [], long).await.unwrap();
    let stopped = handle.interventions().await.unwrap().stopped_line;
    assert!(stopped.unwrap().by.why.len() <= 1000);
    running.stop().await;
}
