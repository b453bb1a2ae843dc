//! Skipped actions, and restarts of executions that have ended.

use super::*;

#[test]
fn r30_skip_ends_an_action_that_is_not_in_flight_and_is_refused_otherwise() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    let refused = |world: &mut World, word| match world.say(&id, word) {
        Reply::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&mut world, Say::skip("load", "done")),
        format!(
            "skip load with done does not fit {id} now: load waits: attempt 1, which is running"
        )
    );
    assert!(refused(&mut world, Say::skip("publish", "done")).contains("waits for nothing"));
    world.answer("load", transient());
    assert!(refused(&mut world, Say::skip("load", "loaded")).ends_with("are: done, failed"));
    assert_eq!(world.say(&id, Say::skip("load", "done")), Reply::Taken);
    world.sync();
    assert_eq!(world.called(), ["publish"]);
    // What may have had an effect is not skipped.
    world.pass(Duration::from_secs(60));
    assert!(refused(&mut world, Say::skip("publish", "done")).contains("the next attempt"));
    world.pass(Duration::from_secs(2));
    world.sync();
    world.answer("publish", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Succeeded));
    let said = |entry: &crate::record::Entry| matches!(&entry.what, What::Said { word, .. } if word == "skip load with done");
    assert!(world.log("season", "1").iter().any(said));
}

#[test]
fn r30_skip_takes_back_a_call_that_is_not_made_yet() {
    let mut world = of_season();
    let id = world.start("season", "1");
    assert_eq!(world.say(&id, Say::skip("load", "failed")), Reply::Taken);
    world.sync();
    assert!(world.called().is_empty());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Failed));
}

#[test]
fn r30_ended_execution_is_restarted_with_new_runs_and_its_key() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.answer("load", done());
    world.sync();
    world.answer("publish", Err(plugin::Error::permanent("no")));
    world.sync();
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Failed));
    world.crash();
    let Reply::Refused(refused) = world.reopen(&id, &["gone"]) else {
        panic!("there is no such machine");
    };
    assert!(refused.to_string().contains("has no machine gone"));
    assert_eq!(world.live(), 0);
    assert_eq!(world.reopen(&id, &["publish"]), Reply::Taken);
    world.sync();
    assert_eq!((world.live(), world.ended_count()), (1, 0));
    assert_eq!(world.start("season", "1"), id, "its key finds it");
    world.crash();
    world.sync();
    let call = world.answer("publish", done());
    assert_eq!((call.key.run, &call.key.execution), (2, &id));
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Succeeded));
    // A restart of one that ended in the meantime, and of one that is live again, are the same word.
    assert_eq!(world.reopen(&id, &["load"]), Reply::Taken);
    world.sync();
    let call = world.answer("load", done());
    assert_eq!(call.key.run, 2);
    world.sync();
    let call = world.answer("publish", done());
    assert_eq!(call.key.run, 3);
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Succeeded));
}

/// What a restart has read of an ended execution is old if another restart ran meanwhile: going on from it would use keys and
/// fences a second time (seed 745).
#[test]
fn r25_restart_from_what_was_read_before_another_restart_is_refused() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    for machine in ["load", "publish"] {
        world.answer(machine, done());
        world.sync();
    }
    let read = world.read_ended(&id);
    assert_eq!(world.reopen(&id, &["publish"]), Reply::Taken);
    world.sync();
    assert_eq!(world.answer("publish", done()).key.run, 2);
    world.sync();
    let again = Command::Reopen(read, vec!["publish".into()]);
    assert_eq!(
        world.hear(again),
        Reply::Refused(Refused::EndedAgain(id.clone()))
    );
    assert_eq!(world.live(), 0);
    assert_eq!(world.reopen(&id, &["publish"]), Reply::Taken);
    world.sync();
    assert_eq!(world.answer("publish", done()).key.run, 3);
}
