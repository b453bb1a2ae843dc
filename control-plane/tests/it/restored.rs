//! A store that is restored from a backup.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Mutex},
};

use control_plane::{
    prelude::*,
    workflow::{
        Answer, EffectKey, FunctionInfo, FunctionRequest, Machine, Outcome, Repeat, Start,
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
    let invoice = Workflow::new("invoice")
        .machine(Machine::calls("send", "send"))
        .ends_well(is("send", "done"));
    let builder = plane(&Production::default())
        .store(SqliteStore::open_wait(state).unwrap())
        .source(Text::new("services: {eu: {size: 1}}"))
        .function(from_fn(info, send))
        .workflow(invoice.build().unwrap());
    Running::start(builder.build().unwrap())
}

/// Sends an invoice, and returns the id of the execution.
async fn send(running: &Running, key: &str) -> String {
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
    send(&first, "1").await;
    first.stop().await;
    copy(&state, &backup);

    let second = invoices(&state, &keys);
    assert_eq!(send(&second, "2").await, "invoice-0000000002");
    second.stop().await;

    fs::remove_dir_all(&state).unwrap();
    copy(&backup, &state);
    let restored = invoices(&state, &keys);
    assert_eq!(
        send(&restored, "3").await,
        "invoice-0000000002",
        "as before"
    );
    restored.stop().await;

    fs::remove_dir_all(&state).unwrap();
    let lost = invoices(&state, &keys);
    assert_eq!(send(&lost, "4").await, "invoice-0000000001", "as before");
    lost.stop().await;

    let keys = keys.lock().unwrap();
    let different: BTreeSet<_> = keys.iter().collect();
    assert_eq!((keys.len(), different.len()), (4, 4), "{keys:?}");
}
