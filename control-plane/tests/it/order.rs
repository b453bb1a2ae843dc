//! Order edges through the whole control plane: providers that are gone, and providers that are modelled only (R16).

use std::time::Duration;

use crate::{
    rollouts::{passes, until},
    world::{LONG, Production, Running, Text, ann, id},
};

#[tokio::test(start_paused = true)]
async fn r16_drift_of_a_held_consumer_is_repaired_after_its_provider_is_removed() {
    let text = Text::new(
        "services: {db: {size: 1}, web: {size: 1, needs: [db], policy: slow}}\npolicies: {slow: {}}",
    );
    let production = Production::default();
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();

    // `web` is held at the incarnation in which it needs `db`. The edit drops the edge and removes `db`.
    let held = "web: {size: 2, policy: slow}}\npolicies: {slow: {hold: \"a test\"}}";
    text.edit(&format!(
        "services: {{db: {{size: 1, turndown: true}}, {held}"
    ));
    assert!(running.handle.settle(LONG).await.is_err());
    let explained = running.handle.explain(&id("db")).await.unwrap();
    let change = explained.enforced().unwrap().chain[0].change.clone();
    let (db, change) = (id("db"), change.unwrap().digest);
    running
        .handle
        .approve(&db, change, ann(), None)
        .await
        .unwrap();
    until(&running, "`db` is removed", || {
        production.size("db").is_none()
    })
    .await;
    text.edit(&format!("services: {{{held}"));
    passes(Duration::from_secs(30)).await;
    assert!(
        running.handle.explain(&db).await.is_err(),
        "it is forgotten"
    );

    production.state().sizes.insert(id("web"), 7);
    until(&running, "`web` is repaired", || {
        production.size("web") == Some(1)
    })
    .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn r16_order_edge_to_a_modelled_only_asset_delays_no_push() {
    let text = Text::new("services: {web: {size: 1, needs: [cell]}}\ngroups: {cell: []}");
    let production = Production::default();
    let running = Running::over(&text, &production);
    running.handle.settle(LONG).await.unwrap();
    assert_eq!(production.size("web"), Some(1));
    running.stop().await;
}
