//! Runs of workflows for assets.

use jiff::Timestamp;
use plugin_sdk::{
    Cause,
    operation::{AssetRun, Join, RunEnd, Start, StartCause},
};
use prodspec_model::{AssetId, Digest};

use super::*;

fn asset() -> AssetId {
    AssetId::new("season/2027").unwrap()
}

fn digest(content: &str) -> Digest {
    Digest::of(content.as_bytes())
}

/// A run of `season` for a content of the asset.
fn wanted(content: &str) -> Join {
    let cause = StartCause::Push {
        asset: asset(),
        incarnation: IncarnationNo(1),
        cause: Cause::Intent,
    };
    Join::new(Start::of("season"), asset(), digest(content), cause)
}

fn join(world: &mut World, join: Join) -> AssetRun {
    match world.hear(Command::Join(Box::new(join), None)) {
        Reply::Joined(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn runs(world: &mut World) -> Vec<AssetRun> {
    match world.hear(Command::Runs("season".into(), asset())) {
        Reply::Runs(runs) => runs,
        other => panic!("{other:?}"),
    }
}

/// Ends the live run.
fn end(world: &mut World, well: bool) {
    world.sync();
    let load = match well {
        true => done(),
        false => Err(plugin::Error::permanent("no texts")),
    };
    world.answer("load", load);
    world.sync();
    if well {
        world.answer("publish", done());
        world.sync();
    }
}

#[test]
fn r40_push_joins_the_live_run_over_a_crash() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    assert_eq!(join(&mut world, wanted("a")), first);
    world.sync();
    world.crash();
    assert_eq!(join(&mut world, wanted("a")), first);
    let other = join(&mut world, wanted("b"));
    assert_eq!(other, first, "one at a time for an asset");
    world.pass(Duration::from_secs(60));
    end(&mut world, true);
    assert_eq!(runs(&mut world)[0].end, Some(RunEnd::Succeeded));
    assert_ne!(join(&mut world, wanted("b")).execution, first.execution);
}

#[test]
fn r40_continuation_takes_the_end_of_the_newest_run_and_a_push_starts_the_next() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    end(&mut world, false);
    world.crash();
    let found = join(&mut world, wanted("a").continuation(true));
    assert_eq!(found.execution, first.execution);
    assert_eq!(found.end, Some(RunEnd::Failed("failed".to_owned())));
    let second = join(&mut world, wanted("a"));
    assert_ne!(second.execution, first.execution);
    assert!(second.is_live());
}

fn started(run: &AssetRun) -> Option<Timestamp> {
    run.succeeded.map(|it| it.started)
}

#[test]
fn r40_older_content_that_succeeded_is_known_when_newer_ones_ran() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    end(&mut world, true);
    for content in ["b", "c"] {
        join(&mut world, wanted(content));
        end(&mut world, content == "b");
        world.crash();
    }
    let all = runs(&mut world);
    let known = |content| all.iter().find(|run| run.content == digest(content));
    assert_eq!(started(known("a").unwrap()), Some(first.started));
    assert_eq!(known("c").unwrap().succeeded, None);
    // Another run of the first one, which fails, does not change that it succeeded before.
    join(&mut world, wanted("a").again(true));
    end(&mut world, false);
    let all = runs(&mut world);
    assert_eq!(started(all.last().unwrap()), Some(first.started));
    assert_eq!(all.len(), 3, "one for each content");
}

#[test]
fn r41_runs_for_the_newest_16_contents_of_an_asset_stay() {
    let mut world = of_season();
    for n in 0..20 {
        join(&mut world, wanted(&n.to_string()));
        end(&mut world, true);
    }
    world.crash();
    let contents: Vec<_> = runs(&mut world).iter().map(|run| run.content).collect();
    let newest = (4..20).map(|n: i32| digest(&n.to_string()));
    assert_eq!(contents, newest.collect::<Vec<_>>());
}

#[test]
fn r40_restarted_run_is_live_for_its_asset_again() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    end(&mut world, false);
    assert_eq!(world.reopen(&first.execution, &["load"]), Reply::Taken);
    assert!(runs(&mut world)[0].is_live());
    assert_eq!(join(&mut world, wanted("a")), first);
    end(&mut world, true);
    assert_eq!(started(&runs(&mut world)[0]), Some(first.started));
}

#[test]
fn r40_join_of_an_unknown_workflow_changes_nothing() {
    let mut world = of_season();
    let mut unknown = wanted("a");
    unknown.start.workflow = "opera".into();
    let commits = world.commits();
    let Reply::Refused(refused) = world.hear(Command::Join(Box::new(unknown), None)) else {
        panic!("there is no such workflow");
    };
    assert!(refused.to_string().contains("start one of: season"));
    assert_eq!(world.commits(), commits);
}

#[test]
fn r40_restart_of_an_older_run_waits_for_the_live_one_and_is_the_last_then() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    end(&mut world, false);
    join(&mut world, wanted("b"));
    world.sync();
    let Reply::Refused(refused) = world.reopen(&first.execution, &["load"]) else {
        panic!("another run of the asset is live");
    };
    assert!(refused.to_string().contains("wait until it has ended"));
    end(&mut world, true);
    assert_eq!(world.reopen(&first.execution, &["load"]), Reply::Taken);
    let all = runs(&mut world);
    assert_eq!(all.last().unwrap().execution, first.execution);
    assert!(all.last().unwrap().is_live());
    world.sync();
    world.crash();
    assert_eq!(join(&mut world, wanted("b")).execution, first.execution);
    world.pass(Duration::from_secs(60));
    end(&mut world, true);
    assert!(runs(&mut world).last().unwrap().succeeded.is_some());
}

#[test]
fn r40_restart_of_a_run_that_a_later_one_replaces_is_refused() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    end(&mut world, false);
    join(&mut world, wanted("a"));
    end(&mut world, false);
    let Reply::Refused(refused) = world.reopen(&first.execution, &["load"]) else {
        panic!("it is not known as a run of the asset any more");
    };
    assert!(refused.to_string().contains("replaces it"), "{refused}");
}

#[test]
fn r35_push_of_a_content_that_has_succeeded_runs_nothing_unless_it_shall() {
    let mut world = of_season();
    let first = join(&mut world, wanted("a"));
    end(&mut world, true);
    let found = join(&mut world, wanted("a"));
    assert_eq!(
        (found.execution, found.end),
        (first.execution.clone(), Some(RunEnd::Succeeded))
    );
    let again = join(&mut world, wanted("a").again(true));
    assert_ne!(again.execution, first.execution);
}

#[test]
fn r40_continuation_does_not_take_the_end_of_an_old_run() {
    let mut world = of_season();
    let old = join(&mut world, wanted("a"));
    end(&mut world, false);
    join(&mut world, wanted("b"));
    // The push of `a` waits for the run of `b`; it has not run itself.
    join(&mut world, wanted("a"));
    end(&mut world, true);
    let run = join(&mut world, wanted("a").continuation(true));
    assert!(run.is_live() && run.execution != old.execution);
}
