//! Commands of a process that does not own the partition.

use control_plane_store::{Key, memory::Fault};
use plugin_sdk::operation::ExecutionId;
use prodspec_model::{
    AssetId,
    operation::{Operation, PipelineStep},
};

use super::{kept::rows, *};
use crate::{
    kernel::{Refused, ScheduleWord, WorkflowWord},
    record::{AnswerRecord, Answered, InboxRecord, Taken},
};

/// A process beside the owner.
pub(super) fn standby(store: &Arc<MemoryStore>, press: &Press) -> Inbox<TokioRuntime> {
    let partition: prodspec_model::PartitionId = "test".parse().unwrap();
    let builder = Workflows::builder(TokioRuntime::current(), partition, store.clone());
    with(press)(builder).build().unwrap().inbox()
}

fn refused<T: std::fmt::Debug>(result: Result<T, AskError>) -> Refused {
    match result {
        Err(AskError::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

/// The number of commands that wait, and of answers.
async fn waiting(store: &MemoryStore) -> (usize, usize) {
    let commands = rows(store, "workflow-inbox").await;
    (commands.len(), rows(store, "workflow-answer").await.len())
}

/// Waits until the store has what `is_so` looks for.
async fn until(store: &MemoryStore, is_so: impl Fn((usize, usize)) -> bool) {
    let look = async {
        while !is_so(waiting(store).await) {
            TokioRuntime::current()
                .sleep(Duration::from_millis(10))
                .await;
        }
    };
    tokio::time::timeout(SOON, look).await.unwrap();
}

async fn operations(inbox: &Inbox<TokioRuntime>, handle: &Handle<TokioRuntime>) {
    let [load, print, gone] = ["load", "print", "gone"]
        .map(|function| Operation::pipeline([PipelineStep::new("one", function)]));
    let ran = inbox.run_operation("sum", &load, "k", by()).await;
    assert!(ran.unwrap().new);
    let there = inbox.run_operation("sum", &print, "k", by()).await;
    let here = handle.run_operation("sum", &print, "k", by()).await;
    assert_eq!(refused(there), refused(here));
    let there = inbox.run_operation("sum", &gone, "k2", by()).await;
    assert!(matches!(there, Err(AskError::Operation(_))), "{there:?}");
}

#[tokio::test(start_paused = true)]
async fn r30_standby_gets_the_answers_that_the_owner_would_give() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&store, &press);
    owning(&store, with(&press), async |handle| {
        let start = || Start::of("season").key("2027");
        let started = inbox.start(start(), by()).await.unwrap();
        assert!(started.new);
        let again = inbox.start(start(), by()).await.unwrap();
        assert_eq!(Ok(again), handle.start(start(), by()).await.map_err(drop));
        let other = || start().input(json!({"works": 2}));
        let there = refused(inbox.start(other(), by()).await);
        assert_eq!(there, refused(handle.start(other(), by()).await));
        let id = started.id;
        for word in [
            Say::Resume,
            Say::restart(["gone"]),
            Say::answer("go", "perhaps"),
        ] {
            let there = refused(inbox.say(&id, word.clone(), by()).await);
            assert_eq!(there, refused(handle.say(&id, word, by()).await));
        }
        inbox
            .say(&id, Say::answer("go", "yes"), by())
            .await
            .unwrap();
        handle.wait(&id, SOON).await.unwrap();
        // One that has ended is live again, and one that is not known is not.
        inbox.say(&id, Say::restart(["go"]), by()).await.unwrap();
        inbox.say(&id, Say::answer("go", "no"), by()).await.unwrap();
        handle.wait(&id, SOON).await.unwrap();
        let gone = ExecutionId::new("season", 99);
        let there = refused(inbox.say(&gone, Say::Cancel, by()).await);
        assert_eq!(there, refused(handle.say(&gone, Say::Cancel, by()).await));
        let unknown = inbox.say(&gone, Say::restart(["go"]), by()).await;
        assert!(matches!(unknown, Err(AskError::Unknown(_))), "{unknown:?}");
        let (asset, word) = (AssetId::new("cron/gone").unwrap(), ScheduleWord::Pause);
        let there = refused(inbox.say_to_schedule(&asset, word, by()).await);
        let here = refused(handle.say_to_schedule(&asset, word, by()).await);
        assert_eq!(there, here);
        let there = refused(inbox.say_to_watch(&asset, word, by()).await);
        assert_eq!(
            there,
            refused(handle.say_to_watch(&asset, word, by()).await)
        );
        let season = "season".into();
        let drain = WorkflowWord::Drain;
        inbox.say_to_workflow(&season, drain, by()).await.unwrap();
        let there = refused(inbox.say_to_workflow(&season, drain, by()).await);
        let here = refused(handle.say_to_workflow(&season, drain, by()).await);
        assert_eq!(there, here);
        assert_eq!(handle.drained().await.unwrap().len(), 1);
        operations(&inbox, &handle).await;
        let (commands, answers) = waiting(&store).await;
        assert!(commands == 0 && answers > 10, "{commands} {answers}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r41_answers_are_removed_after_ten_minutes() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let now = TokioRuntime::current().now().wall;
    for age in [500, 700] {
        let answer = AnswerRecord {
            at: now - Duration::from_secs(age),
            answer: Answered::Taken,
        };
        let key = format!("workflow-answer/test/{age}");
        let row = serde_json::to_vec(&answer).unwrap();
        store.commit(Batch::new().put(key, row)).await.unwrap();
    }
    owning(&store, with(&press), async |_| {
        TokioRuntime::current().sleep(2 * SOON).await;
    })
    .await;
    let left = rows(&store, "workflow-answer").await;
    let left: Vec<_> = left.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left, ["workflow-answer/test/500"]);
}

#[tokio::test(start_paused = true)]
async fn r30_command_that_no_owner_takes_is_withdrawn_and_changes_nothing() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&store, &press);
    let given = inbox.start(Start::of("season"), by()).await;
    let error = given.unwrap_err();
    assert!(matches!(error, AskError::Withdrawn { .. }), "{error}");
    assert_eq!(waiting(&store).await, (0, 0));
    // The next owner, another process, reads states that are as old as they may be.
    let owner = Arc::new(store.other());
    store.set_faults(|op| match op {
        control_plane_store::memory::Op::Read => Some(Fault::Stale(3)),
        _ => None,
    });
    owning(&owner, with(&press), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        store.heal();
        let stale = store.counts()["stale_read"];
        assert!(stale > 10, "{stale}");
        assert!(all_live(&handle).await.is_empty());
    })
    .await;
    assert_eq!(waiting(&store).await, (0, 0));
}

/// Changes the only command that waits.
async fn change(store: &MemoryStore, change: impl FnOnce(&mut InboxRecord)) {
    let (key, row) = loop {
        match rows(store, "workflow-inbox").await.pop() {
            Some(row) => break row,
            None => tokio::task::yield_now().await,
        }
    };
    let mut record = serde_json::from_value(row).unwrap();
    change(&mut record);
    let row = serde_json::to_vec(&record).unwrap();
    store.commit(Batch::new().put(key, row)).await.unwrap();
}

/// Another owner has taken the command, and has died since.
fn take(lanes: u32) -> impl FnOnce(&mut InboxRecord) {
    move |record| record.taken = Some(Taken { fence: 1, lanes })
}

#[tokio::test(start_paused = true)]
async fn r23_command_that_a_dead_owner_had_taken_is_kept_and_handled_by_the_next_one() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&store, &press);
    let ask = inbox.start(Start::of("season"), by());
    let (kept, ()) = tokio::join!(ask, change(&store, take(1)));
    let error = kept.unwrap_err();
    assert!(matches!(error, AskError::Unanswered(_)), "{error}");
    assert_eq!(waiting(&store).await, (1, 0));
    for _ in 0..2 {
        owning(&store, with(&press), async |handle| {
            until(&store, |waiting| waiting == (0, 1)).await;
            assert_eq!(all_live(&handle).await.len(), 1);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn r26_command_at_which_three_owners_have_died_is_refused() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&store, &press);
    let (mut handled, mut told) = (0, Vec::new());
    for lanes in [2, 3] {
        let ask = inbox.start(Start::of("season"), by());
        let next = async {
            change(&store, take(lanes)).await;
            owning(&store, with(&press), async |handle| {
                until(&store, |(commands, _)| commands == 0).await;
                handled = all_live(&handle).await.len();
            })
            .await;
        };
        let (asked, ()) = tokio::join!(ask, next);
        told.push(asked.map(drop).map_err(|error| error.to_string()));
    }
    assert_eq!(handled, 1);
    assert!(told[0].is_ok(), "{told:?}");
    let why = told[1].as_ref().unwrap_err();
    assert!(why.starts_with("3 owners ended before"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn r42_command_that_the_owner_does_not_know_is_refused() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&store, &press);
    let ask = inbox.start(Start::of("season"), by());
    let newer = |record: &mut InboxRecord| record.command = json!({"sing": "loudly"});
    let next = async {
        change(&store, newer).await;
        let damaged = Key::from("workflow-inbox/test/2026 damaged");
        let damage = Batch::new().put(damaged.clone(), "{}");
        store.commit(damage).await.unwrap();
        owning(&store, with(&press), async |_| {
            until(&store, |(_, answers)| answers > 0).await;
        })
        .await;
        let gone = Batch::new().delete(damaged);
        store.commit(gone).await.unwrap();
    };
    let (asked, ()) = tokio::join!(ask, next);
    let why = refused(asked).to_string();
    assert!(why.contains("program version is older"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn r41_size_of_a_command_and_number_of_commands_have_limits() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let inbox = standby(&store, &press);
    let id = ExecutionId::new("season", 1);
    let long = Say::Replay("m".repeat(InboxRecord::SIZE).as_str().into());
    let given = inbox.say(&id, long, by()).await;
    let error = given.unwrap_err();
    assert!(matches!(error, AskError::CommandTooLarge { .. }), "{error}");
    for n in 0..InboxRecord::WAITING {
        let key = format!("workflow-inbox/test/{n}");
        store.commit(Batch::new().put(key, "{}")).await.unwrap();
    }
    let given = inbox.say(&id, Say::Pause, by()).await;
    let error = given.unwrap_err();
    assert!(matches!(error, AskError::InboxFull { .. }), "{error}");
    // R30: it always fits; here no owner takes it.
    let given = inbox.say(&id, Say::Cancel, by()).await;
    let error = given.unwrap_err();
    assert!(matches!(error, AskError::Withdrawn { .. }), "{error}");
}
