//! The answer of `status` to "is production as intended?", and the reasons that it names.

use std::time::Duration;

use control_plane::{
    AsIntended, Obstacle, WhyNot,
    enforcer::{Reason, kernel::OTHERS},
    prelude::*,
    strategist::Command,
};

use crate::{
    rollouts::{build, manifest, of_size, passes, until},
    world::{LONG, Production, Running, Text, ann, id},
};

const BAKES: &str = "{canary: {count: 1, bake_secs: 60}}";

async fn status(running: &Running) -> Status {
    let status = running.handle.status().await.unwrap();
    let json = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
    status
}

fn no<const N: usize>(why: [(Obstacle, u32); N]) -> AsIntended {
    let why = why.into_iter().map(|(what, many)| WhyNot { what, many });
    AsIntended::No(why.collect())
}

#[tokio::test(start_paused = true)]
async fn r63_status_shows_a_pause_and_the_assets_that_it_holds() {
    let text = Text::new("services: {eu: {size: 1}, us: {size: 1}}");
    let production = Production::default();
    let running = Running::over(&text, &production);
    let before = running.handle.status().await.unwrap().intended;
    assert!(matches!(before, AsIntended::Unknown(_)), "{before:?}");
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(status(&running).await.intended, AsIntended::Yes);

    let handle = &running.handle;
    let paused = handle.pause(PauseScope::Partition, ann(), None);
    paused.await.unwrap();
    text.edit("services: {eu: {size: 2}, us: {size: 1}}");
    handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let found = status(&running).await;
    let expected = no([(Obstacle::Unsettled(Reason::Paused), 1)]);
    assert_eq!(found.intended, expected);
    let pauses = found.enforcement.unwrap().pauses;
    assert_eq!((pauses.len(), &pauses[0].by), (1, &ann()));
    let resumed = handle.resume(PauseScope::Partition, ann());
    resumed.await.unwrap();
    handle.settle(LONG).await.unwrap();
    assert_eq!(status(&running).await.intended, AsIntended::Yes);
}

#[tokio::test(start_paused = true)]
async fn r63_status_is_not_as_intended_while_content_is_quarantined() {
    let (text, production) = (Text::new(&manifest(1, BAKES, 1)), Production::default());
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    text.edit(&manifest(3, BAKES, 1));
    until(&running, "the canary is updated", || {
        of_size(&production, 3) == 1
    })
    .await;
    until(&running, "all are back", || of_size(&production, 1) == 4).await;
    passes(Duration::from_secs(5)).await;
    let found = status(&running).await;
    assert_eq!(found.enforcement.unwrap().unsettled, 0);
    assert_eq!(found.intended, no([(Obstacle::LeftOut, 4)]));
    let [group] = &found.groups[..] else {
        panic!("{:?}", found.groups)
    };
    assert_eq!((&group.policy, group.left_out.many), (&id("slow"), 4));
    assert_eq!(group.left_out.first, ["a", "b", "c", "d"].map(id));
    let rollout = group.rollout.as_ref().unwrap();
    assert!(rollout.contains("rolled back"), "{rollout}");
}

#[tokio::test(start_paused = true)]
async fn r63_status_distinguishes_moving_rollouts_from_those_that_wait_for_an_operator() {
    let (text, production) = (Text::new(&manifest(1, BAKES, 1)), Production::default());
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    text.edit(&manifest(2, BAKES, 1));
    until(&running, "the canary is updated", || {
        of_size(&production, 2) == 1
    })
    .await;
    passes(Duration::from_secs(2)).await;
    let found = status(&running).await;
    assert_eq!(found.intended, no([(Obstacle::RollingOut, 3)]));
    assert_eq!(found.groups[0].awaits_person, None);

    let (handle, policy) = (&running.handle, id("slow"));
    let told = handle.tell_rollout(&policy, Command::Pause, ann());
    told.await.unwrap();
    let found = status(&running).await;
    assert_eq!(found.intended, no([(Obstacle::AwaitingOperator, 3)]));
    let why = found.groups[0].awaits_person.as_ref().unwrap();
    assert!(why.contains("paused by ann: a test"), "{why}");
    let told = handle.tell_rollout(&policy, Command::Resume, ann());
    told.await.unwrap();
    until(&running, "all are updated", || of_size(&production, 2) == 4).await;
    running.handle.settle(2 * LONG).await.unwrap();
    let newest = handle.latest().await.unwrap().no();
    handle
        .wait_rollout(&policy, newest, 2 * LONG)
        .await
        .unwrap();
    let found = status(&running).await;
    assert_eq!((found.intended, found.groups), (AsIntended::Yes, vec![]));
}

#[tokio::test(start_paused = true)]
async fn r63_status_says_that_a_target_of_a_rollout_waits_for_an_approval() {
    let (text, production) = (Text::new(&manifest(1, BAKES, 1)), Production::default());
    let running = Running::start(build(&text, &production, MemoryStore::new()));
    running.handle.settle(LONG).await.unwrap();
    let a = "a: {size: 1, policy: slow";
    text.edit(&manifest(1, BAKES, 1).replacen(a, &format!("{a}, turndown: true"), 1));
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let found = status(&running).await;
    let group = &found.groups[0];
    let why = group.awaits_person.as_ref().unwrap();
    assert!(why.starts_with("a: ") && why.contains("approve"), "{why}");
    assert_ne!(group.waits, Vec::<String>::new());

    let a = id("a");
    let explained = running.handle.explain(&a).await.unwrap();
    let change = explained.enforced().unwrap().chain[0].change.clone();
    let change = change.unwrap().digest;
    let approved = running.handle.approve(&a, change, ann(), None);
    approved.await.unwrap();
    passes(Duration::from_secs(5)).await;
    let found = status(&running).await;
    let awaits = found.groups.iter().map(|group| &group.awaits_person);
    assert!(awaits.flatten().next().is_none(), "{:?}", found.groups);
}

#[tokio::test(start_paused = true)]
async fn r63_control_planes_that_fight_over_one_production_both_say_so() {
    let production = Production::default();
    let texts = [1, 2].map(|size| Text::new(&format!("services: {{eu: {{size: {size}}}}}")));
    let planes = texts
        .each_ref()
        .map(|text| Running::over(text, &production));
    passes(Duration::from_secs(3600)).await;
    for running in &planes {
        let found = status(running).await;
        let AsIntended::No(why) = found.intended else {
            panic!("{:?}", found.intended);
        };
        let fight = WhyNot {
            what: Obstacle::Contested,
            many: 1,
        };
        assert!(why.contains(&fight), "{why:?}");
        let contested = found.enforcement.unwrap().contested;
        assert_eq!(contested.first, [id("eu")]);
    }
    let [one, two] = planes;
    drop(two);
    passes(Duration::from_secs(1800)).await;
    assert_eq!(status(&one).await.intended, AsIntended::Yes);
}

#[tokio::test(start_paused = true)]
async fn r15_status_lists_turned_down_assets_whose_entry_may_be_removed() {
    let (text, production) = (
        Text::new("services: {asia: {size: 1}, eu: {size: 1}, us: {size: 1, turndown: true}}"),
        Production::default(),
    );
    production.state().sizes.insert(id("us"), 1);
    let running = Running::over(&text, &production);
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let found = status(&running).await;
    let expected = no([(Obstacle::Unsettled(Reason::Held), 1)]);
    assert_eq!(found.intended, expected);
    let enforcement = found.enforcement.unwrap();
    assert!(enforcement.held[&id("us")].contains("approve"));
    assert_eq!(enforcement.turned_down, []);

    let explained = running.handle.explain(&id("us")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0].change.clone();
    let (handle, us) = (&running.handle, id("us"));
    let approved = handle.approve(&us, change.unwrap().digest, ann(), None);
    approved.await.unwrap();
    handle.settle(LONG).await.unwrap();
    let found = status(&running).await;
    assert_eq!(found.intended, AsIntended::Yes);
    assert_eq!(found.enforcement.unwrap().turned_down, [id("us")]);

    text.edit("services: {asia: {size: 1}, eu: {size: 1}}");
    handle.settle(LONG).await.unwrap();
    let found = status(&running).await;
    assert_eq!(found.intended, AsIntended::Yes);
    assert_eq!(found.enforcement.unwrap().turned_down, []);
    text.edit("services: {asia: {size: 1}}");
    handle.settle(LONG).await.unwrap();
    assert_eq!(
        status(&running).await.intended,
        no([(Obstacle::Orphaned, 1)])
    );
}

#[tokio::test(start_paused = true)]
async fn r63_status_reports_refused_sources() {
    let text = Text::new("services: {eu: {size: 1}}");
    let running = Running::over(&text, &Production::default());
    running.handle.settle(LONG).await.unwrap();
    text.edit("services: [eu]");
    running.handle.wait_until_owner().await.next_run().await;
    let found = status(&running).await;
    assert_eq!(found.intended, no([(Obstacle::Refused, 1)]));
}

#[tokio::test(start_paused = true)]
async fn status_names_the_first_held_assets_and_counts_all() {
    let many = OTHERS + 3;
    let name = |n| format!("a{n:02}");
    let service = |n| format!("  {}: {{size: 1, turndown: true}}\n", name(n));
    let services: String = (0..many).map(service).collect();
    let (text, production) = (
        Text::new(&format!("services:\n{services}")),
        Production::default(),
    );
    let there = (0..many).map(|n| (id(&name(n)), 1));
    production.state().sizes.extend(there);
    let running = Running::over(&text, &production);
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;
    let found = status(&running).await;
    let held = (Obstacle::Unsettled(Reason::Held), many as u32);
    assert_eq!(found.intended, no([held]));
    let held = found.enforcement.unwrap().held;
    assert_eq!(held.len(), OTHERS);
    assert_eq!(held.keys().next(), Some(&id("a00")));
}
