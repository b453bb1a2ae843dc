use futures::executor::block_on;
use plugin_sdk::{
    Class, Dispatch, DispatchRequest, conformance,
    service::{ByCause, stack},
    testing::{self, dispatch_request},
};
use prodspec_model::{
    Asset, AssetId,
    operation::{Limit, Limits},
};
use tower_layer::Layer;

use super::*;

fn start() -> DispatchRequest {
    dispatch_request().labels(std::sync::Arc::new(
        [("app".to_owned(), "shop".to_owned())].into(),
    ))
}

fn step() -> DispatchRequest {
    start().step("print".into(), Some("print-posters".into()), false)
}

fn limits() -> AssetId {
    AssetId::new("limits").unwrap()
}

fn with(limits_are: &Limits, request: DispatchRequest) -> DispatchRequest {
    let asset = Asset::builder(limits()).payload(limits_are).unwrap();
    request.reader(testing::reader([asset.build().unwrap()]))
}

fn shaped(request: DispatchRequest) -> Dispatch {
    let stack = stack(ShapeLayer::of(limits()).layer(ByCause));
    block_on(stack.call(request)).unwrap()
}

fn keys(answer: &Dispatch) -> Vec<String> {
    let keys = answer.claims.iter().map(|claim| claim.key().0.to_string());
    keys.collect()
}

#[test]
fn r32_limits_of_an_asset_hold_from_the_next_attempt_on() {
    let few = Limits::new([
        Limit::at_most("press", 1).function("print-posters"),
        Limit::at_most("fair", 10).per_label("app").executions(),
        Limit::rate("mails", 2, 60).workflow("other"),
    ]);
    assert_eq!(keys(&shaped(with(&few, step()))), ["shape/press/all"]);
    assert_eq!(keys(&shaped(with(&few, start()))), ["shape/fair/shop"]);
    assert!(shaped(step()).claims.is_empty(), "no asset, no limits");
    let slow = Limits::new([Limit::rate("slow", 2, 60)]);
    assert_eq!(keys(&shaped(with(&slow, step()))), ["shape/slow/all/rate"]);
}

#[test]
fn r32_drained_workflows_start_nothing_and_go_on() {
    let drained = Limits::default().drain(["season"]);
    let answer = shaped(with(&drained, start()));
    assert_eq!(answer.delays[0].reason, "season is drained by `limits`");
    assert!(shaped(with(&drained, step())).is_go());
    let layer = || DrainLayer::workflows(["season"], "the press is replaced");
    let call = |request| block_on(stack(layer().layer(ByCause)).call(request)).unwrap();
    assert!(!call(start()).is_go());
    assert!(call(step()).is_go());
}

#[test]
fn r32_class_is_raised_for_some_work_and_never_lowered() {
    let repair = |class| {
        let layer = ClassLayer::at_least(class, |request| request.label("app") == Some("shop"));
        block_on(stack(layer.layer(ByCause)).call(step()))
            .unwrap()
            .class
    };
    assert_eq!(repair(Class::Urgent), Class::Urgent);
    assert_eq!(repair(Class::Background), Class::UnderWay);
}

#[test]
fn r32_layers_of_class_drain_and_shape_keep_the_laws_of_dispatch() {
    let limits_are = Limits::new([Limit::at_most("all", 1)]).drain(["season"]);
    let requests = || [with(&limits_are, start()), with(&limits_are, step())];
    let class = ClassLayer::at_least(Class::Urgent, |_| true);
    block_on(conformance::dispatch_layer(class, requests())).unwrap();
    let drain = DrainLayer::workflows(["season"], "why");
    block_on(conformance::dispatch_layer(drain, requests())).unwrap();
    let shape = ShapeLayer::of(limits());
    block_on(conformance::dispatch_layer(shape, requests())).unwrap();
}
