//! Starts before the first incarnation, with records of another version, and with a store that often fails.

use std::sync::atomic::{AtomicUsize, Ordering};

use control_plane_store::{
    CommitError, Key, KeyRange, Page, Topic, Version, Versioned, record,
    records::{AssetRecord, Decisions, Pause, Scope},
};
use futures::{FutureExt, stream::BoxStream};
use prodspec_model::{Message as _, TypeName};
use serde_json::{Value, json};

use super::*;

#[tokio::test(start_paused = true)]
async fn questions_before_the_first_incarnation_get_an_error_at_once() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    enforced_by(&store, InMemoryProduction::new(), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        let in_time = tokio::time::timeout(SOON, handle.status()).await;
        let answer = in_time.expect("the question is answered");
        assert!(matches!(answer, Err(AskError::Starting(_))), "{answer:?}");
        // A request to wait is kept until there is an incarnation.
        let typo = Settle::Asset(AssetId::new("a").unwrap(), IncarnationNo(1));
        let waits = handle.wait_settled(typo, SOON);
        let (waited, _) = futures::join!(waits, sealed(&store));
        waited.unwrap();
        assert_eq!(handle.status().await.unwrap().unsettled, 0);
    })
    .await;
}

fn pause(scope: Scope) -> Command {
    let (by, until) = (By::new("ada", "storm"), None);
    Command::Pause { scope, by, until }
}

fn resume(scope: Scope) -> Command {
    let by = By::new("ada", "over");
    Command::Resume { scope, by }
}

/// Gives a command, which must be answered at once.
async fn told(handle: &Handle<TokioRuntime>, command: Command) -> Result<(), String> {
    let answer = tokio::time::timeout(SOON, handle.tell(command)).await;
    let answer = answer.expect("the command is answered before the first incarnation");
    answer.map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn r69_commands_before_the_first_incarnation_are_durable_and_answered() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let typed = || Scope::Type(TypeName::new(testing::Thing::TYPE).unwrap());
    // The process dies after it has answered.
    enforced_by(&store, InMemoryProduction::new(), async |handle| {
        told(&handle, pause(Scope::Partition)).await.unwrap();
        told(&handle, pause(typed())).await.unwrap();
        told(&handle, resume(Scope::Partition)).await.unwrap();
        let why = told(&handle, resume(Scope::Partition)).await.unwrap_err();
        assert!(why.contains("not paused"), "{why}");
        let asset = AssetId::new("a").unwrap();
        let by = By::new("ada", "look");
        let look = Command::LookNow {
            asset: asset.clone(),
            by,
        };
        for command in [pause(Scope::Asset(asset)), look] {
            let why = told(&handle, command).await.unwrap_err();
            assert!(why.contains("no incarnation yet"), "{why}");
        }
        let other = Scope::Type(TypeName::new("test.v1.Other").unwrap());
        let why = told(&handle, pause(other)).await.unwrap_err();
        assert!(why.contains("no plugin"), "{why}");
    })
    .await;
    let a = sealed(&store).await;
    enforced_by(&store, InMemoryProduction::new(), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        let words = handle.interventions().await.unwrap();
        let scopes: Vec<Scope> = words.pauses.into_iter().map(|pause| pause.scope).collect();
        assert_eq!(scopes, [typed()]);
        assert_eq!(handle.status().await.unwrap().unsettled, 1, "it holds {a}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r69_command_whose_caller_gave_up_is_obeyed_by_the_owner() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    enforced_by(&store, InMemoryProduction::new(), async |handle| {
        TokioRuntime::current().sleep(SOON).await;
        // The callers are gone before the owner looks at their commands.
        drop(handle.tell(pause(Scope::Partition)).now_or_never());
        let (_, ()) = futures::join!(sealed(&store), TokioRuntime::current().sleep(SOON));
        let words = handle.interventions().await.unwrap();
        assert_eq!(words.pauses.len(), 1);
        drop(handle.tell(resume(Scope::Partition)).now_or_never());
        TokioRuntime::current().sleep(SOON).await;
        assert!(handle.interventions().await.unwrap().pauses.is_empty());
        assert_eq!(handle.status().await.unwrap().unsettled, 0);
    })
    .await;
}

/// A decision that this version wrote, and a decision of a newer version.
const NEWER: &str = r#"[
    {"at":"2026-03-04T12:00:00Z","trigger":"asked","cause":"intent","incarnation":1,"token":1,"change":null,
     "summary":"known","outcome":"pushed"},
    {"at":"2026-03-04T12:00:00Z","trigger":"asked","cause":"intent","incarnation":7,"token":1,"change":null,
     "summary":"newer","outcome":{"foreseen":{"in":"a year"}}}
]"#;

#[tokio::test(start_paused = true)]
async fn r5_decision_of_a_newer_version_is_kept_and_enforcement_goes_on() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let a = sealed(&store).await;
    let partition = PartitionId::new("test").unwrap();
    let key = record::key(&partition, <Decisions as record::Record>::KIND, a.as_str());
    let newer = Batch::new().put(key.clone(), NEWER);
    store.commit(newer).await.unwrap();
    enforced(&store, 1, async |handle| {
        let told = handle.explain(&a).await.unwrap().decisions;
        assert!(told.len() > 1 && told[0].summary == "known");
        let old = handle.retire([IncarnationNo(7), IncarnationNo(8)].into());
        let free = old.await.unwrap();
        assert_eq!(
            free,
            [IncarnationNo(8)].into(),
            "the other one is referenced"
        );
    })
    .await;
    let row = store.get(&[key]).await.unwrap().pop().unwrap().unwrap();
    let kept = String::from_utf8(row.value.to_vec()).unwrap();
    assert!(kept.contains(r#""foreseen":{"in":"a year"}"#), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn fields_of_a_newer_version_are_kept_in_records_that_are_written_again() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let a = sealed(&store).await;
    enforced(&store, 1, async |handle| {
        let (scope, by) = (Scope::Asset(a.clone()), By::new("ada", "storm"));
        let until = None;
        handle
            .tell(Command::Pause { scope, by, until })
            .await
            .unwrap();
    })
    .await;
    // A newer version adds a field to each record of the asset.
    let partition = PartitionId::new("test").unwrap();
    let keys = [
        record::key(
            &partition,
            <AssetRecord as record::Record>::KIND,
            a.as_str(),
        ),
        record::key(&partition, <Decisions as record::Record>::KIND, a.as_str()),
        record::key(
            &partition,
            <Pause as record::Record>::KIND,
            &format!("asset/{a}"),
        ),
    ];
    let read = async || {
        let rows = store.get(&keys).await.unwrap();
        let json = |row: &Option<Versioned>| serde_json::from_slice(&row.as_ref().unwrap().value);
        let all: Vec<Value> = rows.iter().map(|row| json(row).unwrap()).collect();
        all
    };
    let mut all = read().await;
    for (record, at) in [(0, ""), (1, "/0"), (2, "")] {
        all[record].pointer_mut(at).unwrap()["newer"] = json!({ "at": 1 });
    }
    let rows = keys.iter().zip(&all);
    let newer = rows.fold(Batch::new(), |batch, (key, json)| {
        batch.put(key.clone(), json.to_string())
    });
    store.commit(newer).await.unwrap();
    // Production is another one, so the next drift scan pushes the asset again, because it is not paused any more.
    enforced_by(&store, InMemoryProduction::new(), async |handle| {
        let (scope, by) = (Scope::Asset(a.clone()), By::new("ada", "over"));
        handle.tell(Command::Resume { scope, by }).await.unwrap();
        let twice = 2 * crate::Config::default().drift_period;
        TokioRuntime::current().sleep(twice).await;
    })
    .await;
    let now = read().await;
    assert_eq!(now[0]["newer"], json!({ "at": 1 }), "{}", now[0]);
    assert_eq!(now[1][0]["newer"], json!({ "at": 1 }), "{}", now[1]);
    let decisions = |all: &[Value]| all[1].as_array().unwrap().len();
    assert!(decisions(&now) > decisions(&all), "{}", now[1]);
    assert_eq!(now[2]["newer"], json!({ "at": 1 }), "{}", now[2]);
    assert_ne!(now[2]["resumed"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn r5_unreadable_decisions_are_left_unchanged_and_enforcement_goes_on() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let a = sealed(&store).await;
    let partition = PartitionId::new("test").unwrap();
    let key = record::key(&partition, <Decisions as record::Record>::KIND, a.as_str());
    let damaged = Batch::new().put(key.clone(), "{[");
    store.commit(damaged).await.unwrap();
    enforced(&store, 1, async |handle| {
        assert_eq!(handle.status().await.unwrap().unsettled, 0);
        let old = || BTreeSet::from([IncarnationNo(7), IncarnationNo(8)]);
        let free = handle.retire(old()).await.unwrap();
        assert_eq!(free, old(), "retention goes on");
        let explained = handle.explain(&a).await.unwrap();
        assert_eq!(explained.chain[0].asset, a);
        assert_eq!(explained.decisions, []);
        let why = explained.unreadable.unwrap();
        assert!(why.contains("a` is damaged"), "{why}");
    })
    .await;
    let row = store.get(&[key]).await.unwrap().pop().unwrap().unwrap();
    assert_eq!(&row.value[..], b"{[");
}

/// An asset of a type that no plugin of this process enforces.
fn foreign(name: &str) -> Asset {
    let text = format!(r#"{{"id":"{name}","type":"test.v1.Other","payload":{{}}}}"#);
    Asset::try_from(text.as_str()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn r5_decisions_of_assets_that_were_gone_before_a_crash_are_removed() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let first = testing::incarnation(1, [testing::asset("a"), foreign("other")]);
    let incarnations = Incarnations::new(store.clone(), first.id().partition.clone());
    incarnations.seal(&first, None, Batch::new()).await.unwrap();
    let partition = PartitionId::new("test").unwrap();
    let key = |name| record::key(&partition, <Decisions as record::Record>::KIND, name);
    let names = ["damaged", "gone", "other"];
    let batch = Batch::new()
        .put(key("damaged"), "{[")
        .put(key("gone"), NEWER)
        .put(key("other"), NEWER.replace(":7,", ":8,"));
    store.commit(batch).await.unwrap();
    enforced(&store, 1, async |handle| {
        let old = [7, 8, 9].map(IncarnationNo);
        handle.retire(old.into()).await.unwrap();
        let free = handle.retire(old.into()).await.unwrap();
        assert_eq!(free, [7, 9].map(IncarnationNo).into());
    })
    .await;
    let rows = store.get(&names.map(key)).await.unwrap();
    let kept: Vec<bool> = rows.iter().map(Option::is_some).collect();
    assert_eq!(kept, [false, false, true], "only `other` is in intent");
}

/// A store where every seventh read fails.
struct Flaky {
    store: MemoryStore,
    reads: AtomicUsize,
}

impl Flaky {
    fn read(&self) -> Result<(), control_plane_store::Error> {
        match self.reads.fetch_add(1, Ordering::SeqCst) % 7 {
            0 => Err(control_plane_store::Error::unavailable("try again")),
            _ => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl Store for Flaky {
    async fn get(
        &self,
        keys: &[Key],
    ) -> Result<Vec<Option<Versioned>>, control_plane_store::Error> {
        self.read()?;
        self.store.get(keys).await
    }

    async fn scan(
        &self,
        range: KeyRange,
        limit: usize,
    ) -> Result<Page, control_plane_store::Error> {
        self.read()?;
        self.store.scan(range, limit).await
    }

    async fn commit(&self, batch: Batch) -> Result<Version, CommitError> {
        self.store.commit(batch).await
    }

    fn watch(&self, topic: Topic) -> BoxStream<'static, ()> {
        self.store.watch(topic)
    }
}

#[tokio::test(start_paused = true)]
async fn s10_takeover_succeeds_with_a_store_where_many_reads_fail() {
    let store = MemoryStore::new();
    let memory: Arc<dyn Store> = Arc::new(store.clone());
    sealed(&memory).await;
    let reads = AtomicUsize::default();
    let flaky: Arc<dyn Store> = Arc::new(Flaky { store, reads });
    // Every kind of record is read: more than seven reads, so at least one fails.
    enforced(&flaky, 1, async |_| ()).await;
}
