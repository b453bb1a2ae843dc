//! Words of people.

use super::*;

#[test]
fn r30_answer_of_a_person_chooses_an_option_and_one_that_does_not_fit_is_refused() {
    let workflow = Workflow::new("w")
        .machine(Machine::asks("go", "Open the season?", ["yes", "no"]))
        .machine(Machine::calls("open", "open").when(is("go", "yes")))
        .ends_well(is("open", "done"))
        .ends_badly(is("go", "no"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("open")]);
    let id = world.start("w", "1");
    world.sync();
    let answer = |machine: &str, option: &str| Say::Answer {
        machine: machine.into(),
        option: option.into(),
    };
    let refused = |world: &mut World, word| match world.say(&id, word) {
        Reply::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(&mut world, answer("go", "perhaps")),
        format!("answer go with perhaps does not fit {id} now: choose one of: yes, no")
    );
    assert_eq!(
        refused(&mut world, answer("gone", "yes")),
        format!("{id} has no machine gone; it has: go, open")
    );
    world.say(&id, answer("go", "yes"));
    world.sync();
    assert_eq!(
        refused(&mut world, answer("open", "yes")),
        format!(
            "answer open with yes does not fit {id} now: open waits: attempt 1, which is running"
        )
    );
    world.answer("open", done());
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
    let said = world.log("w", "1");
    assert!(said.iter().any(|entry| matches!(&entry.what, What::Said { word, by } if word == "answer go with yes" && by.who == "ann")));
}

#[test]
fn r30_pause_starts_nothing_and_lets_what_is_in_flight_end() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    assert_eq!(world.say(&id, Say::Pause), Reply::Taken);
    world.sync();
    world.answer("load", done());
    world.sync();
    world.crash();
    world.pass(Duration::from_secs(10_000));
    world.sync();
    assert!(world.called().is_empty());
    world.say(&id, Say::Resume);
    world.sync();
    assert_eq!(world.called(), ["publish"]);
}

#[test]
fn r30_cancel_disables_what_has_not_begun_and_what_failed_is_not_tried_again() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.answer("load", transient());
    world.say(&id, Say::Cancel);
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r30_cancel_asks_again_what_may_have_happened_and_cleans_it_up() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.say(&id, Say::Cancel);
    world.pass(Duration::from_secs(61));
    world.sync();
    world.pass(Duration::from_secs(2));
    world.sync();
    assert_eq!(
        world.called(),
        ["load"],
        "whether texts were loaded is not known, so the same key is called again"
    );
    world.answer("load", done());
    world.sync();
    assert_eq!(world.called(), ["unload"]);
    world.answer("unload", done());
    assert_eq!(world.outcome("season", "1"), Some(Outcome::Cancelled));
}

#[test]
fn r30_restart_sets_a_machine_and_all_that_depend_on_it_back_with_new_keys() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .machine(Machine::calls("b", "b"))
        .machine(Machine::calls("c", "c").when(is("a", "done")))
        .machine(Machine::asks("go", "Go?", ["yes"]).when(all([is("b", "done"), is("c", "done")])))
        .ends_well(is("go", "yes"))
        .build()
        .unwrap();
    let mut world = World::new([workflow], [keyed("a"), keyed("b"), keyed("c")]);
    let id = world.start("w", "1");
    world.sync();
    for name in ["a", "b", "c"] {
        let call = world.answer(name, done());
        assert_eq!(call.key.run, 1);
        world.sync();
    }
    world.say(&id, Say::Restart(vec!["a".into()]));
    world.sync();
    let shown = world.shown("w", "1");
    let runs: Vec<_> = shown
        .machines
        .iter()
        .map(|it| (it.name.as_str(), it.state.as_str(), it.run))
        .collect();
    assert_eq!(
        runs,
        [
            ("a", "waiting", 2),
            ("b", "done", 1),
            ("c", "waiting", 2),
            ("go", "waiting", 2)
        ]
    );
    world.crash();
    world.pass(Duration::from_secs(10));
    world.sync();
    for name in ["a", "c"] {
        let call = world.answer(name, done());
        assert_eq!(call.key.run, 2);
        world.sync();
    }
    let option = Say::Answer {
        machine: "go".into(),
        option: "yes".into(),
    };
    assert_eq!(world.say(&id, option), Reply::Taken);
    assert_eq!(world.outcome("w", "1"), Some(Outcome::Succeeded));
}

#[test]
fn r30_restarted_run_begins_when_the_old_attempt_can_take_no_effect() {
    let workflow = Workflow::new("w")
        .machine(Machine::calls("a", "a"))
        .ends_well(is("a", "done"));
    let mut world = World::new(
        [workflow.build().unwrap()],
        [function("a", Repeat::Keyed, Guard::Advisory)],
    );
    let id = world.start("w", "1");
    world.sync();
    world.pass(Duration::from_secs(20));
    let old = world.call_of("a").unwrap();
    world.say(&id, Say::Restart(vec!["a".into()]));
    world.sync();
    assert!(!world.abandoned.contains(&old), "its outcome counts");
    world.crash();
    world.pass(Duration::from_secs(39));
    world.sync();
    assert!(world.called().is_empty());
    world.pass(Duration::from_secs(2));
    world.sync();
    assert_eq!(world.called(), ["a"]);
}

#[test]
fn r30_restart_of_a_cancelled_execution_goes_on() {
    let mut world = of_season();
    let id = world.start("season", "1");
    world.sync();
    world.say(&id, Say::Cancel);
    world.sync();
    world.say(&id, Say::Restart(vec!["load".into()]));
    world.sync();
    world.pass(Duration::from_secs(60));
    world.sync();
    world.answer("load", done());
    world.sync();
    assert_eq!(world.called(), ["publish"]);
}
