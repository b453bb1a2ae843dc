//! Commands of other processes.

use plugin_sdk::operation::{Start, StartCause};

use super::*;
use crate::record::{Answered, InboxId, InboxRecord};

impl World {
    /// Another process gives a command: its row is durable.
    fn give(&mut self, command: Command) -> InboxId {
        let id = InboxId::fresh(self.now.wall);
        self.stored.inbox.insert(id.clone(), command);
        id
    }

    /// The owner finds all rows of the inbox.
    fn find(&mut self) {
        let at = self.now.wall;
        for (id, command) in self.stored.inbox.clone() {
            self.find_one(id, at, Ok(command));
        }
    }

    fn find_one(&mut self, id: InboxId, at: jiff::Timestamp, command: Result<Command, Refused>) {
        let by = plugin_sdk::By::new("bob", "from afar");
        self.step(Event::Asked {
            id,
            at,
            command,
            by,
            known: None,
        });
    }
}

/// A start without a key: each time that it is handled, another execution begins.
fn start(workflow: &str) -> Command {
    Command::Start {
        start: Box::new(Start::of(workflow)),
        cause: StartCause::Command,
        chain: Vec::new(),
    }
}

#[test]
fn r23_command_of_another_process_is_handled_once_over_crashes_before_and_after_its_commit() {
    let mut world = of_season();
    let id = world.give(start("season"));
    world.find();
    let commit = world.last_commit();
    let live = |record: &Record| matches!(record, Record::Live(..));
    let answered = |record: &Record| matches!(record, Record::Answered(..));
    assert!(
        commit.iter().any(live) && commit.iter().any(answered),
        "one commit: {commit:?}"
    );
    // The row is there until the commit is durable.
    world.find();
    world.crash();
    assert!(world.stored.inbox.contains_key(&id), "nothing was handled");
    assert_eq!((world.live(), world.stored.answers.len()), (0, 0));

    world.find();
    world.find();
    world.sync();
    assert!(world.stored.inbox.is_empty());
    let started = |answer: &Answered| matches!(answer, Answered::Started { new: true, .. });
    assert!(world.stored.answers.get(&id).is_some_and(started));
    world.crash();
    world.find();
    world.sync();
    assert_eq!((world.live(), world.stored.answers.len()), (1, 1));
}

#[test]
fn r30_refusal_of_another_process_is_the_one_of_this_process() {
    let mut world = of_season();
    let Reply::Refused(here) = world.hear(start("saison")) else {
        panic!("it is accepted");
    };
    let id = world.give(start("saison"));
    world.find();
    let commit = world.last_commit();
    assert!(
        matches!(commit, [Record::Answered(..)]),
        "nothing else is changed: {commit:?}"
    );
    world.sync();
    assert_eq!(world.stored.answers[&id].clone().why(), Some(here));
    assert!(world.stored.inbox.is_empty());
}

#[test]
fn r30_command_that_is_older_than_ten_minutes_changes_nothing() {
    let mut world = of_season();
    let at = world.now.wall;
    world.pass(InboxRecord::TIME);
    let in_time = InboxId::fresh(at);
    world.find_one(in_time, at, Ok(start("season")));
    world.pass(Duration::from_secs(1));
    let late = InboxId::fresh(at);
    world.find_one(late.clone(), at, Ok(start("season")));
    // The clock of its process is an hour ahead.
    let ahead = at + Duration::from_secs(3600);
    world.find_one(InboxId::fresh(ahead), ahead, Ok(start("season")));
    world.sync();
    assert_eq!(world.live(), 2);
    let refused = world.stored.answers[&late].clone().why();
    assert_eq!(refused, Some(Refused::TooOld { at }));
}

#[test]
fn r42_refusal_that_this_version_does_not_know_keeps_its_text() {
    let newer = Answered::Refused {
        why: "the moon is full".to_owned(),
        refused: Some(json!({"moon": {"phase": "full"}})),
    };
    let told = newer.why().map(|refused| refused.to_string());
    assert_eq!(told.as_deref(), Some("the moon is full"));
    let long = Refused::Start(plugin_sdk::operation::InvalidStart::Key);
    let told = Answered::refused(&long).why().map(|it| it.to_string());
    assert_eq!(told, Some(long.to_string()));
}
