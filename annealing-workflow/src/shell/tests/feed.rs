//! The feed, and listeners that hear it.

use super::*;
use crate::record::{FeedPosition, Told, What};

/// A workflow without a machine that waits: it ends at once.
fn short(name: &'static str) -> Workflow {
    Workflow::new(name)
        .machine(Machine::calls("load", "load"))
        .ends_well(is("load", "done"))
        .build()
        .unwrap()
}

/// Follows the feed until `many` executions have ended in it. Returns what was told, and the last place.
async fn follow(
    workflows: &Arc<Workflows<TokioRuntime>>,
    after: Option<FeedPosition>,
    many: usize,
) -> (Vec<Told>, FeedPosition) {
    let feed = workflows.follow(after);
    futures::pin_mut!(feed);
    let mut all = Vec::new();
    loop {
        let heard = feed.next().await.unwrap().unwrap();
        all.extend(heard.told);
        let ended = |told: &&Told| matches!(told.entry.what, What::Ended(_));
        if all.iter().filter(ended).count() >= many {
            return (all, heard.position);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r41_feed_names_every_entry_once_over_a_change_of_owner() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let builder = || {
        let with = with(&press);
        move |builder| with(builder).workflow(short("short"))
    };
    let reader = builder()(Workflows::builder(
        TokioRuntime::current(),
        "test".parse().unwrap(),
        store.clone(),
    ));
    let reader = reader.build().unwrap();
    let mut place = None;
    for n in 0..2 {
        let (told, log) = owning(&store, builder(), async |handle| {
            let key = n.to_string();
            let id = handle.start(Start::of("short").key(key), by()).await;
            let id = id.unwrap().id;
            let told = follow(&reader, place.clone(), 1).await;
            (told, handle.log(&id).await.unwrap())
        })
        .await;
        let (told, last) = told;
        let entries: Vec<_> = told.into_iter().map(|told| told.entry).collect();
        assert_eq!(entries, log);
        assert!(place.as_ref().is_none_or(|before| *before < last));
        place = Some(last);
    }
    let (all, last) = follow(&reader, None, 2).await;
    assert_eq!(Some(last), place);
    let started = |told: &&Told| matches!(told.entry.what, What::Started(_));
    assert_eq!(all.iter().filter(started).count(), 2);
}

/// Notices of executions of `short` that ended.
fn notices() -> Listener {
    Listener::on_end("notices", |ended| {
        let short = ended.id.workflow.as_str() == "short";
        short.then(|| Start::of("notice").input(ended.id.to_string()))
    })
}

#[tokio::test]
async fn r41_listener_starts_once_what_it_hears_over_a_change_of_owner() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let builder = |listens: bool| {
        let with = with(&press);
        move |builder| {
            let builder = with(builder);
            let builder = builder.workflow(short("short")).workflow(short("notice"));
            match listens {
                true => builder.listener(notices()),
                false => builder,
            }
        }
    };
    let start = async |handle: &Handle<TokioRuntime>, key: &str| {
        let started = handle.start(Start::of("short").key(key), by()).await;
        handle.wait(&started.unwrap().id, SOON).await.unwrap().id
    };
    owning(&store, builder(false), async |handle| {
        start(&handle, "before the listener").await;
    })
    .await;
    let mut heard = Vec::new();
    for n in 0..3 {
        let id = owning(&store, builder(true), async |handle| {
            if n == 0 {
                // The listener begins before the first start.
                tokio::time::timeout(SOON, listening(&store)).await.unwrap();
            }
            let id = start(&handle, &n.to_string()).await;
            let notices = async || handle.ended_after(Some(&"notice".into()), None, 99).await;
            while notices().await.unwrap().len() <= n {
                tokio::task::yield_now().await;
            }
            id
        })
        .await;
        heard.push(json!(id.to_string()));
    }
    let inputs = owning(&store, builder(true), inputs).await;
    assert_eq!(
        inputs, heard,
        "each once, and none from before the listener"
    );
}

/// An end that only a newer program version can read does not stop a listener.
#[tokio::test]
async fn r42_listener_goes_on_after_an_end_that_cannot_be_read() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let all = |listens: bool| {
        let with = with(&press);
        move |builder| {
            let builder = with(builder);
            let builder = builder.workflow(short("short")).workflow(short("notice"));
            match listens {
                true => builder.listener(notices()),
                false => builder,
            }
        }
    };
    let run = async |handle: &Handle<TokioRuntime>| {
        let started = handle.start(Start::of("short"), by()).await.unwrap();
        handle.wait(&started.id, SOON).await.unwrap().id
    };
    owning(&store, all(true), async |_| listening(&store).await).await;
    let unread = owning(&store, all(false), async |handle| run(&handle).await).await;
    let damaged = Batch::new().put(&*format!("workflow-ended/test/{unread}"), "{}");
    store.commit(damaged).await.unwrap();
    owning(&store, all(true), async |handle| {
        run(&handle).await;
        let notices = async || handle.ended_after(Some(&"notice".into()), None, 99).await;
        let told = async {
            while notices().await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SOON, told).await.unwrap();
    })
    .await;
}

/// What the notices were about, in order.
async fn inputs(handle: Handle<TokioRuntime>) -> Vec<serde_json::Value> {
    let notices = handle.ended_after(Some(&"notice".into()), None, 99).await;
    let mut inputs = Vec::new();
    for notice in notices.unwrap() {
        let cause = notice.live.origin.cause.to_string();
        assert!(
            cause.starts_with("listener notices after short-"),
            "{cause}"
        );
        inputs.extend(handle.output(&notice.id, &"load".into()).await.unwrap());
    }
    inputs
}

/// Waits until a listener has stored where it begins.
async fn listening(store: &Arc<MemoryStore>) {
    let key = control_plane_store::Key::from("workflow-listener/test/notices");
    while store.get(std::slice::from_ref(&key)).await.unwrap()[0].is_none() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn r41_listener_that_hears_itself_is_stopped_by_the_length_of_its_chain() {
    let (store, press) = (Arc::new(MemoryStore::new()), Press::default());
    let builder = || {
        let with = with(&press);
        move |builder| {
            let again = Listener::on_end("again", |_| Some(Start::of("short")));
            with(builder).workflow(short("short")).listener(again)
        }
    };
    owning(&store, builder(), async |handle| {
        let key = control_plane_store::Key::from("workflow-listener/test/again");
        while store.get(std::slice::from_ref(&key)).await.unwrap()[0].is_none() {
            tokio::task::yield_now().await;
        }
        handle.start(Start::of("short"), by()).await.unwrap();
        while handle.ended_after(None, None, 99).await.unwrap().len() < 9 {
            tokio::task::yield_now().await;
        }
        // What follows the ninth is refused; a start of ours after it is the tenth.
        let ours = handle.start(Start::of("short").key("ours"), by()).await;
        assert_eq!(ours.unwrap().id.to_string(), "short-0000000010");
    })
    .await;
}
