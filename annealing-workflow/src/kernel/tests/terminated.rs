//! Terminate: the last resort.

use super::*;

#[test]
fn r30_terminate_ends_a_step_that_is_in_progress_for_ever_and_names_what_it_may_do() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.answer("load", Ok(Ran::in_progress(Duration::from_secs(5))));
    world.sync();
    assert_eq!(world.say(&id, Say::Cancel), Reply::Taken);
    world.pass(Duration::from_secs(600));
    assert_eq!(world.outcome("season", "1"), None, "a cancel waits for it");
    assert_eq!(world.say(&id, Say::Terminate), Reply::Taken);
    world.sync();
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Terminated));
    let ended = world.ended("season", "1").clone();
    let open: Vec<_> = ended.may_take_effect.iter().collect();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].0.as_str(), "load");
    assert_eq!(open[0].1.key.to_string(), "season-0000000001/load/1");
    assert_eq!(open[0].1.until, None);
    assert!(world.called().is_empty(), "nothing cleans up");
    assert!(ended.live.terminated.is_some());
}

#[test]
fn r30_terminate_abandons_a_call_that_hangs_under_a_long_deadline() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a").attempt_deadline(Duration::from_secs(3600)))
        .machine(Machine::calls("b", "b").cleans_up().when(is("a", "done")))
        .ends_well(is("a", "done"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("a"), keyed("b")]);
    let id = world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(60));
    let call = world.call_of("a").unwrap();
    world.say(&id, Say::Terminate);
    assert!(world.abandoned.contains(&call));
    world.sync();
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Terminated));
    let ended = world.ended("w", "1").clone();
    let until = ended.may_take_effect[&"a".into()].until.unwrap();
    assert_eq!(until.duration_since(ended.ended).as_secs(), 3540);

    // A restart of it waits for that call.
    assert_eq!(world.reopen(&id, &["a"]), Reply::Taken);
    world.sync();
    assert!(world.called().is_empty());
    world.pass(Duration::from_secs(3541));
    world.sync();
    assert_eq!(world.answer("a", done()).key.run, 2);
    world.sync();
    world.answer("b", done());
    world.sync();
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r30_terminate_cancels_children_and_gives_claims_and_the_start_back() {
    let parent = Workflow::new("parent")
        .machine(Machine::starts("child", "season"))
        .ends_well(is("child", "done"))
        .build()
        .unwrap();
    let functions = [keyed("load"), keyed("publish"), keyed("unload")];
    let mut world = World::new([season(), parent], functions);
    let id = world.start("parent", "1");
    world.sync();
    assert_eq!(world.called(), ["load"]);
    world.say(&id, Say::Terminate);
    world.sync();
    assert_eq!(world.outcome("parent", "1"), Some(Outcome::Terminated));
    world.answer("load", done());
    world.sync();
    world.answer("unload", done());
    world.sync();
    let ended = world.stored.ended.values();
    let child = ended.filter(|it| it.id.workflow.as_str() == "season");
    let outcomes: Vec<_> = child.map(|it| it.outcome.clone()).collect();
    assert_eq!(outcomes, [Outcome::Cancelled]);
}
