//! Explanations: down to the root cause, with cycles, and for assets that are not pushed.

use control_plane::{Error, Explained, enforcer::kernel::Waiting, prelude::*};

use crate::world::{Production, Running, Text, id, plane};

#[tokio::test(start_paused = true)]
async fn an_explanation_follows_a_chain_of_dependencies_to_its_root() {
    let chain = "services: {a: {size: 1, needs: [b]}, b: {size: 1, needs: [c]}, c: {size: 1}}";
    let (text, production) = (Text::new(chain), Production::default());
    production.state().broken.insert(id("c"));
    let running = Running::over(&text, &production);
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;

    let explained = running.handle.explain(&id("a")).await.unwrap();
    let enforced = explained.enforced().unwrap();
    let chain: Vec<_> = enforced
        .chain
        .iter()
        .map(|link| link.asset.as_str())
        .collect();
    assert_eq!(chain, ["a", "b", "c"]);
    let Some(Waiting::Failure(why)) = &enforced.chain[2].waiting else {
        panic!("{:?}", enforced.chain[2]);
    };
    assert!(why.contains("it is broken"), "{why}");
    assert!(enforced.cycle.is_empty());
    assert!(!enforced.decisions.is_empty());
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json["enforced"]["chain"][0]["asset"], "a");
}

#[tokio::test(start_paused = true)]
async fn assets_that_wait_for_each_other_are_explained_as_one_cycle() {
    let circle = "services: {top: {size: 1, needs: [x]}, x: {size: 1, needs: [y, z]}, y: {size: 1, needs: [x]}, z: {size: 1, needs: [free]}, free: {size: 1}}";
    let (text, production) = (Text::new(circle), Production::default());
    production.state().broken.insert(id("free"));
    // Without validators, which would refuse the cycle.
    let plane = plane(&production).store(MemoryStore::new()).source(text);
    let running = Running::start(plane.build().unwrap());
    running.handle.wait_until_owner().await.next_run().await;
    running.quiet().await;

    for asset in ["top", "x", "y"] {
        let enforced = running.handle.enforcer().explain(&id(asset)).await.unwrap();
        let mut circle = enforced.cycle;
        circle.sort();
        assert_eq!(circle, [id("x"), id("y")], "{asset}");
        let explained = running.handle.explain(&id(asset)).await.unwrap();
        assert_eq!(
            explained.enforced().unwrap().cycle,
            [id("x"), id("y")],
            "{asset}"
        );
    }
    let free = running.handle.explain(&id("z")).await.unwrap();
    assert!(free.enforced().unwrap().cycle.is_empty());
}

#[tokio::test(start_paused = true)]
async fn explain_answers_for_every_asset() {
    let text = "services: {eu: {size: 1}, us: {size: 1}}\ngroups: {all: [eu, us]}";
    let (text, production) = (Text::new(text), Production::default());
    let running = Running::over(&text, &production);
    let early = running.handle.explain_all().await;
    assert!(matches!(early, Err(Error::NotOwner { .. })), "{early:?}");
    running.handle.settle(crate::world::LONG).await.unwrap();

    let all = running.handle.explain_all().await.unwrap();
    let ids: Vec<_> = all.iter().filter_map(Explained::asset).cloned().collect();
    assert_eq!(ids, [id("all"), id("eu"), id("us")]);
    let Explained::ModelledOnly {
        type_name,
        referred_to_by,
        ..
    } = &all[0]
    else {
        panic!("{:?}", all[0]);
    };
    assert_eq!(
        (type_name.as_str(), referred_to_by.len()),
        ("world.v1.Group", 0)
    );
    let unknown = running.handle.explain(&id("unknown")).await;
    assert!(matches!(unknown, Err(Error::UnknownAsset { .. })));
}
