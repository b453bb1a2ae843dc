//! Labels of operations: their executions have them, whatever starts them.

use plugin_sdk::{
    Cause,
    operation::{Join, Start, StartCause},
};
use prodspec_model::operation::{Concurrency, Operation, PipelineStep};

use super::{
    claims::of_steps,
    schedules::nightly,
    watched::{WATCH, id, on_intent},
    *,
};
use crate::operation::Operated;

/// An operation of the application `app` that calls `function`.
fn of_app(app: &str, function: &str) -> Operation {
    Operation::pipeline([PipelineStep::new("run", function)]).label("app", app)
}

fn operated(operation: &Operation) -> Box<Operated> {
    Box::new(Operated::new(&"night".into(), operation, |_| true).unwrap())
}

/// The label `app` of each live execution.
fn apps(world: &World) -> Vec<Option<&str>> {
    let live = world.kernel.live.values();
    let apps = live.map(|it| it.live.origin.labels.get("app").map(String::as_str));
    apps.collect()
}

#[test]
fn r32_limit_by_label_counts_executions_of_operations() {
    let mut world = World::with_settings(Settings {
        functions: [("reindex".into(), keyed("reindex"))].into(),
        dispatches: true,
        ..Settings::default()
    });
    for (key, app) in [("1", "shop"), ("2", "shop"), ("3", "blog")] {
        world.hear(Command::Operate {
            start: Box::new(Start::of("night").key(key)),
            operation: operated(&of_app(app, "reindex")),
            cause: StartCause::Command,
        });
    }
    world.dispatched(|request| match request.label("app") {
        Some(app) => of_steps(request, Claim::AtMost(app.into(), 1)),
        None => request.go(),
    });
    world.sync();
    assert_eq!(world.calls.len(), 2, "one at a time of each application");
    world.crash();
    assert_eq!(apps(&world), [Some("shop"), Some("shop"), Some("blog")]);
}

#[test]
fn r32_run_for_an_asset_has_the_labels_of_its_start_and_of_its_operation() {
    let mut world = World::new([], [keyed("reindex")]);
    let cause = StartCause::Push {
        asset: id("index"),
        incarnation: IncarnationNo(1),
        cause: Cause::Intent,
    };
    let start = Start::of("night").label("app", "mine");
    let join = Join::new(start, id("index"), Digest([1; 32]), cause);
    let operation = operated(&of_app("shop", "reindex").label("size", "big"));
    world.hear(Command::Join(Box::new(join), Some(operation)));
    let execution = world.kernel.live.values().next().unwrap();
    let labels = execution.live.origin.labels.iter();
    let labels: Vec<_> = labels.map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(labels, [("app", "mine"), ("size", "big")]);
}

#[test]
fn r32_slot_of_a_schedule_has_the_labels_of_its_template() {
    let mut hourly = nightly("0 * * * *", Concurrency::Forbid);
    hourly.template = of_app("shop", "reindex");
    let mut world = World::new([], [keyed("reindex")]);
    world.intended("cron/nightly", Some(&hourly));
    world.sync();
    world.pass(Duration::from_secs(3600));
    assert_eq!(apps(&world), [Some("shop")]);
}

#[test]
fn r32_run_of_a_watch_has_the_labels_that_its_template_has_then() {
    let mut watch = on_intent();
    watch.template = of_app("shop", "notice");
    let mut world = World::new([], [keyed("notice")]);
    world.seal(&[("job/a", "1"), ("job/b", "1")]);
    world.watch(WATCH, Some(&watch));
    world.sync();
    world.seal(&[("job/a", "2")]);
    world.sync();
    assert_eq!(apps(&world), [Some("shop")]);
    watch.template = of_app("blog", "notice");
    world.watch(WATCH, Some(&watch));
    world.seal(&[("job/b", "2")]);
    world.sync();
    assert_eq!(apps(&world), [Some("shop"), Some("blog")]);
}
