//! What people say takes effect, and is needed where it is needed.

use control_plane::prelude::*;

use crate::world::{LONG, Production, Running, Service, Text, ann, id};

#[tokio::test(start_paused = true)]
async fn a_pause_holds_pushes_until_somebody_resumes() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    for scope in [
        PauseScope::Asset(id("eu")),
        PauseScope::Type(Service::type_name().unwrap()),
        PauseScope::Partition,
    ] {
        running
            .handle
            .pause(scope.clone(), ann(), None)
            .await
            .unwrap();
        let pushes = production.pushes();
        text.edit(&format!("services: {{eu: {{size: {}}}}}", pushes + 1));
        running.handle.owned().await.next_run().await;
        running.quiet().await;
        assert_eq!(production.pushes(), pushes, "{scope:?}");
        let explained = running.handle.explain(&id("eu")).await.unwrap();
        let said = format!("{:?}", explained.enforced().unwrap().chain[0].waiting);
        assert!(said.contains("ann") && said.contains("a test"), "{said}");
        running.handle.resume(scope).await.unwrap();
        running.handle.settle(LONG).await.unwrap();
        assert_eq!(production.pushes(), pushes + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn r12_a_turndown_waits_for_an_approval_of_this_very_change() {
    let both = "services: {eu: {size: 1}, us: {size: 1}}";
    let (text, production) = (Text::new(both), Production::default());
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    text.edit("services: {eu: {size: 1}, us: {size: 1, turndown: true}}");
    running.handle.owned().await.next_run().await;
    running.quiet().await;
    assert_eq!(production.size("us"), Some(1));
    let explained = running.handle.explain(&id("us")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0]
        .change
        .clone()
        .unwrap();
    assert!(change.effects.destructive);
    let other = prodspec_model::Digest::of(b"another change");
    running
        .handle
        .approve(&id("us"), other, ann())
        .await
        .unwrap();
    running.quiet().await;
    assert_eq!(production.size("us"), Some(1));

    running
        .handle
        .approve(&id("us"), change.digest, ann())
        .await
        .unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(
        (production.size("eu"), production.size("us")),
        (Some(1), None)
    );
}

#[tokio::test(start_paused = true)]
async fn an_override_lifts_one_check_for_one_change() {
    let chain = "services: {a: {size: 1, needs: [b]}, b: {size: 1}}";
    let (text, production) = (Text::new(chain), Production::default());
    production.state().broken.insert(id("b"));
    let running = Running::over(&text, &production);
    running.handle.owned().await.next_run().await;
    running.quiet().await;
    assert_eq!(production.size("a"), None);

    let explained = running.handle.explain(&id("a")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0]
        .change
        .clone()
        .unwrap();
    let handle = &running.handle;
    handle
        .override_check(&id("a"), change.digest, "dependency-solver", ann())
        .await
        .unwrap();
    let newest = handle.latest().await.unwrap().no();
    handle
        .wait_settled(Settle::Asset(id("a"), newest), LONG)
        .await
        .unwrap();
    assert_eq!(
        (production.size("a"), production.size("b")),
        (Some(1), None)
    );
}

#[tokio::test(start_paused = true)]
async fn looking_now_finds_what_somebody_changed_by_hand() {
    let (text, production) = (
        Text::new("services: {eu: {size: 1}}"),
        Production::default(),
    );
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    // Nothing comes of it, and it is answered all the same.
    running.handle.look_now(&id("eu")).await.unwrap();
    production.state().sizes.insert(id("eu"), 9);
    running.handle.look_now(&id("eu")).await.unwrap();
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("eu"), Some(1));
}
