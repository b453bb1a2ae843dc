//! Keys of effects over a lost store and a restored backup.

use super::{stored::Stored, *};

fn identity(n: u64) -> KeyIdentity {
    KeyIdentity(n)
}

/// The key of the call in flight of this function.
fn key_of(world: &World, function: &str) -> String {
    let call = world.calls.values().find(|it| &*it.function == function);
    call.unwrap().key.to_string()
}

#[test]
fn r25_key_is_not_given_again_by_a_lost_or_restored_store() {
    let mut keys = BTreeSet::new();
    let mut world = of_season();
    world.own_as(identity(1));
    world.start("season", "1");
    world.sync();
    assert!(keys.insert(key_of(&world, "load")));
    let backup = world.stored.clone();

    // Life goes on: one more execution, and a restart of a step.
    let other = world.start("season", "2");
    world.sync();
    let calls = world.calls.values().map(|it| it.key.to_string());
    keys.extend(calls);
    world.say(&other, Say::restart(["load"]));
    world.pass(Duration::from_secs(120));
    world.sync();
    let calls = world.calls.values().map(|it| it.key.to_string());
    keys.extend(calls);

    // The older copy, and an empty store, give the numbers again.
    for (stored, n) in [(backup, 2), (Stored::default(), 3)] {
        let begun = stored.live.len();
        world.stored = stored;
        world.own_as(identity(n));
        let other = world.start("season", "2");
        world.sync();
        let again = world.calls.values().filter(|it| it.key.execution == other);
        let again: Vec<_> = again.map(|it| it.key.to_string()).collect();
        assert_eq!(again.len(), 1, "of {begun} live before");
        for key in again {
            assert!(keys.insert(key.clone()), "{key} is given again");
        }
        world.say(&other, Say::restart(["load"]));
        world.pass(Duration::from_secs(120));
        world.sync();
        let again = world.calls.values().filter(|it| it.key.execution == other);
        let again: Vec<_> = again.filter(|it| it.key.run == 2).collect();
        assert_eq!(again.len(), 1);
        assert!(keys.insert(again[0].key.to_string()));
    }
}

#[test]
fn r25_key_stays_over_attempts_and_owners_and_so_does_the_id_of_an_edit() {
    let mut world = of_season();
    world.own_as(identity(1));
    let id = world.start("season", "1");
    world.sync();
    let key = key_of(&world, "load");
    assert!(key.ends_with("/load/1-0000000000000001"), "{key}");
    world.answer("load", Err(plugin::Error::transient("busy")));
    world.own_as(identity(2));
    world.pass(Duration::from_secs(70));
    world.sync();
    assert_eq!(key_of(&world, "load"), key);
    // An operator finds the key beside the machine.
    let shown = world.shown("season", "1");
    assert_eq!(shown.machine("load").unwrap().key.to_string(), key);

    world.say(&id, Say::restart(["load"]));
    world.pass(Duration::from_secs(120));
    world.sync();
    let restarted = key_of(&world, "load");
    assert!(
        restarted.ends_with("/load/2-0000000000000002"),
        "{restarted}"
    );
    world.own_as(identity(3));
    world.pass(Duration::from_secs(120));
    world.sync();
    assert_eq!(key_of(&world, "load"), restarted);
}
