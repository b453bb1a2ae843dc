//! A store that is restored from a backup.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use control_plane::{
    prelude::*,
    sdk::{FencingToken, Guard},
    workflow::{
        Answer, EffectKey, FunctionInfo, FunctionRequest, Machine, Outcome, Ran, Repeat, Start,
        Workflow, from_fn, is,
    },
};

use crate::world::{LONG, Production, Running, Text, ann, plane};

type Keys = Arc<Mutex<Vec<EffectKey>>>;

/// A control plane over the store in `state`. Its workflow `invoice` calls a function that notes its keys.
fn invoices(state: &Path, keys: &Keys) -> Running {
    let keys = keys.clone();
    let send = move |request: FunctionRequest| {
        keys.lock().unwrap().push(request.key);
        async { Ok(Answer::new().done()) }
    };
    let info = FunctionInfo::new("send").repeat(Repeat::Keyed);
    invoicing(info, send, SqliteStore::open_wait(state).unwrap())
}

/// A control plane whose workflow `invoice` calls this function.
fn invoicing<F>(
    info: FunctionInfo,
    send: impl Fn(FunctionRequest) -> F + Send + Sync + 'static,
    store: impl Store + 'static,
) -> Running
where
    F: Future<Output = Result<Ran, plugin::Error>> + Send + 'static,
{
    let invoice = Workflow::new("invoice")
        .machine(Machine::calls("send", "send"))
        .ends_well(is("send", "done"));
    let builder = plane(&Production::default())
        .store(store)
        .source(Text::new("services: {eu: {size: 1}}"))
        .function(from_fn(info, send))
        .workflow(invoice.build().unwrap());
    Running::start(builder.build().unwrap())
}

/// Sends an invoice, and returns the id of the execution.
async fn send_one(running: &Running, key: &str) -> String {
    let handle = &running.handle;
    handle.settle(LONG).await.unwrap();
    let start = Start::of("invoice").key(key);
    let id = handle.start(start, ann()).await.unwrap().id;
    let ended = handle.wait_execution(&id, LONG).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Succeeded);
    id.to_string()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test]
async fn r25_no_key_is_given_again_by_a_restored_or_a_lost_store() {
    let dir = tempfile::tempdir().unwrap();
    let (state, backup) = (dir.path().join("state"), dir.path().join("backup"));
    let keys = Keys::default();
    let first = invoices(&state, &keys);
    send_one(&first, "1").await;
    first.stop().await;
    copy(&state, &backup);

    let second = invoices(&state, &keys);
    assert_eq!(send_one(&second, "2").await, "invoice-0000000002");
    second.stop().await;

    fs::remove_dir_all(&state).unwrap();
    copy(&backup, &state);
    let restored = invoices(&state, &keys);
    assert_eq!(
        send_one(&restored, "3").await,
        "invoice-0000000002",
        "as before"
    );
    restored.stop().await;

    fs::remove_dir_all(&state).unwrap();
    let lost = invoices(&state, &keys);
    assert_eq!(
        send_one(&lost, "4").await,
        "invoice-0000000001",
        "as before"
    );
    lost.stop().await;

    let keys = keys.lock().unwrap();
    let different: BTreeSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (4, 4), "{keys:?}");
}

/// The callee of a function has seen a token of the store that was lost, and assets have no part in it.
#[tokio::test(start_paused = true)]
async fn s5_token_that_only_a_callee_has_seen_is_exceeded_by_the_next_ownership() {
    let seen = FencingToken(1_000);
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = refused.clone();
    let send = move |request: FunctionRequest| {
        let result = match request.fence.token < seen {
            true => {
                counted.fetch_add(1, Ordering::Relaxed);
                Err(plugin::Error::fenced_by("a newer call was received", seen))
            }
            false => Ok(Answer::new().done()),
        };
        async { result }
    };
    let info = FunctionInfo::new("send")
        .repeat(Repeat::Keyed)
        .guard(Guard::Guarded);
    let running = invoicing(info, send, MemoryStore::new());
    send_one(&running, "1").await;
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    running.stop().await;
}
